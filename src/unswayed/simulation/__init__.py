"""Worlds with a known truth and a coalition; nothing that learns imports this."""
