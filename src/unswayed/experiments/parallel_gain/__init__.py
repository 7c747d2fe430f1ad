"""The parallelization gain: interactions per user for a target, as users grow."""
