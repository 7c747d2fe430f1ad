"""Tastes of single users, learned as what is left after the common policy."""

from unswayed.learners.personal.decisions import Personal, personal_decisions
from unswayed.learners.personal.residuals import Residuals, residuals_of

__all__ = ["Personal", "Residuals", "personal_decisions", "residuals_of"]
