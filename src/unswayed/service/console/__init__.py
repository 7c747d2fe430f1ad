"""Pages for people: what the service does, why, and what was found; made on the server."""
