"""Regret in a world that changes: learning for ever, or forgetting."""
