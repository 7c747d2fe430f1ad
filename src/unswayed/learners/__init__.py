"""From tallies to policies."""
