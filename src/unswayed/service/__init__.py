"""The online service: decisions by plan, signed tokens, durable rewards, background learning."""
