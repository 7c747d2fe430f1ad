"""What to play, how sure we are, and who was asked to play what."""
