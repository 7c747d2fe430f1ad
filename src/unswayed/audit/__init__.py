"""Whether a log was attacked, by about how many accounts, on what, and what it cost."""
