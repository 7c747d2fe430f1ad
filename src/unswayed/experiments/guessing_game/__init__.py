"""The min(S, A) part of Theorem 4.1: guessing what is hidden."""
