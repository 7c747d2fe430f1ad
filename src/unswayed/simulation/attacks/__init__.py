"""Attacks: the rewards that colluders report, each with exactly the knowledge it declares."""
