"""The web console, rendered on the server."""
