"""How many accounts a decision withstands."""
