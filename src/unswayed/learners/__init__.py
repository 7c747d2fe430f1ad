"""From tallies to policies."""

from typing import TYPE_CHECKING

from unswayed.lazy import lazy_names

if TYPE_CHECKING:
    from unswayed.learners.estimates import Estimates
    from unswayed.learners.methods import DEFAULT_METHOD, METHODS

__all__ = ["DEFAULT_METHOD", "METHODS", "Estimates"]

__getattr__ = lazy_names(__name__, {"estimates": "Estimates", "methods": "DEFAULT_METHOD METHODS"})
