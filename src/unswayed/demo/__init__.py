"""A small shop under attack, for readers who do not know the paper."""
