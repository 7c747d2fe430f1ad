"""Regret when good users differ: the common policy, one's own, or both."""
