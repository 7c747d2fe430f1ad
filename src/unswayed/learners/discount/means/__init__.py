"""Mean rewards from the weights that are left: bounded, shrunk, redescending."""
