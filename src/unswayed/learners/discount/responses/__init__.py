"""From tallies to what detection reads: units, categories, clipping, noise, residuals."""
