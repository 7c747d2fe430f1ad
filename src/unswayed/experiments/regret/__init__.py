"""Regret per good user: learning while serving, against what others run."""
