"""The online service: decisions, signed tokens, durable rewards, and background learning."""
