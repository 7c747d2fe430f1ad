"""What an accusation is held to, and what becomes of it."""
