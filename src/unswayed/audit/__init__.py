"""Audits: whether a log was attacked, by which accounts, on which items, and at what cost."""
