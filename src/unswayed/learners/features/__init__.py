"""A partition of attributes, learned from a log that some of the users may have forged."""
