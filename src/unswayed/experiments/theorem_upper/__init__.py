"""Theorem 5.1: suboptimality against K(B)·sqrt(alpha L/T)."""
