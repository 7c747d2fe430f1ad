"""Defaults that help texts show, in a module that imports nothing."""

from __future__ import annotations

DEFAULT_METHOD = "bounded"
"""Ours: it loses less than the paper's in most attacked worlds; docs/learner.md lists
exceptions."""

MIN_PROPENSITY = 0.01
"""Ours. Smaller propensities are raised to this value, so that no event weighs more than a
hundred."""

MAX_LEAVES = 32
"""Ours: contexts that are learned from features, by default."""

ASSUMED_SHARE = 0.2
"""Ours: with alpha "auto", intervals allow for at least this share of colluders, detected or not.
Hidden colluders cannot be counted; state a smaller share, if you are sure of one, for narrower
intervals."""

LOGGING = "logging"
"""Name of the baseline that stands for the logging policy."""
