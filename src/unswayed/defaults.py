"""Defaults that help texts show, in a module that imports nothing."""

from __future__ import annotations

DEFAULT_METHOD = "bounded"
"""Ours: it loses less than the paper's in most attacked worlds; docs/learner.md says where not."""

MIN_PROPENSITY = 0.01
"""Ours. Smaller propensities count as this one, so that no event weighs more than a hundred."""

MAX_LEAVES = 32
"""Ours: contexts that are learned from features, by default."""

ASSUMED_SHARE = 0.2
"""Ours: with alpha "auto", intervals allow for so many colluders at least, found or not. How many
hide cannot be known from a log; a smaller share that you are sure of gives narrower intervals."""

LOGGING = "logging"
"""The baseline of an evaluation that is what was logged."""
