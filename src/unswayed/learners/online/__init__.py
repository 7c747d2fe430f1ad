"""Learning while deciding: exploration by keyed assignment, and its state."""
