"""Worlds with a known truth and a coalition in them; nothing that learns imports this."""
