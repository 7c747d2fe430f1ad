"""Attacks: the rewards that colluders report, each using only the knowledge that it declares."""
