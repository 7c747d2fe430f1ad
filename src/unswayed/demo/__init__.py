"""A small shop under attack, told to someone who never read the paper."""
