"""Base cases 1 and 2 (Section 3): what the estimators err by, each alone."""
