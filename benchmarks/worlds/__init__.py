"""Worlds that judge learners: simulated and replayed logs with known truth and known colluders."""
