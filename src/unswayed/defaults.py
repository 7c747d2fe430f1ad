"""Defaults that help texts show, in a module that imports nothing."""

from __future__ import annotations

DEFAULT_METHOD = "bounded"
"""Ours: it loses less than the paper's method in most simulated attacks; docs/learner.md lists the
exceptions."""

MIN_PROPENSITY = 0.01
"""Ours. Smaller propensities are raised to this value, so that no event weighs more than a
hundred."""

MAX_LEAVES = 32
"""Ours: default for the maximum number of contexts learned from features."""

ASSUMED_SHARE = 0.2
"""Ours: with alpha "auto", intervals allow for at least this share of colluders, detected or not.
Hidden colluders cannot be counted; stating a smaller share narrows the intervals."""

LOGGING = "logging"
"""Name of the baseline that stands for the logging policy."""
