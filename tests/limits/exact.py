"""The limits in rational arithmetic: exact, but slow."""

from __future__ import annotations

from fractions import Fraction
from math import comb


def binomial(n: int, p: Fraction) -> list[Fraction]:
    """Return P(K = 0), ..., P(K = n)."""
    return [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]


def excess(n: int, base: Fraction, gap: Fraction, alpha: Fraction) -> Fraction:
    """Return Σ_k [(1−alpha) P1(k) − P0(k)]_+."""
    p0, p1 = binomial(n, base), binomial(n, base + gap)
    return sum(
        (max(Fraction(0), (1 - alpha) * b - a) for a, b in zip(p0, p1, strict=True)), Fraction(0)
    )


def long_total_variation(n: int, percent: int) -> Fraction:
    """Return TV for base 50% and a gap in percent, with integers as numerators over 100^n."""
    one, zero = 50 + percent, 50 - percent
    ordinary, better = 50**n, zero**n
    surplus = 0
    for k in range(n + 1):
        surplus += max(0, better - ordinary)
        ordinary = ordinary * (n - k) // (k + 1)
        better = better * ((n - k) * one) // ((k + 1) * zero)
    return Fraction(surplus, 100**n)
