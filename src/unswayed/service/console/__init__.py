"""The web console: what the service does, why, and what was found; rendered on the server."""
