"""Attacks: what colluders report; each uses only the knowledge that it declares."""
