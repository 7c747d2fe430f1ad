"""Pictures as SVG made on the server: no script, no style of their own, labels always escaped.

Colours come from the classes ``robust``, ``naive``, ``null``, ``axis`` and ``label`` of the page,
so that a picture follows its light and dark scheme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from unswayed.visible import visible

WIDTH = 480.0
ROW = 22.0
LABEL_WIDTH = 130.0
MOST_LETTERS = 18
LEFT, ROOM = 66.0, 310.0
"""Of curves: where they begin, and how wide they are."""


class Bars(NamedTuple):
    """A row of a bar chart: its label, and one or two values."""

    label: str
    first: float
    second: float | None = None


class Strip(NamedTuple):
    """A robust mean with the ends of its interval, None without a bound, and the naive mean."""

    mean: float
    low: float | None
    high: float | None
    naive: float | None


def text_of(value: object, most: int = 200) -> str:
    """Return a text that is safe inside of markup: escaped, shortened, without characters that act.

    >>> text_of("<script>alert(1)</script>")
    '&lt;script&gt;alert(1)&lt;/script&gt;'
    """
    return html.escape(visible(str(value), most=most), quote=True)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers within a range, at most so many.

    >>> ticks(0.0, 0.93), ticks(-2.0, 7.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8], [-2.0, 0.0, 2.0, 4.0, 6.0])
    """
    span = high - low
    if not span > 0.0 or not math.isfinite(span):
        return [low]
    size = 10.0 ** math.floor(math.log10(span / most))
    step = next(size * f for f in (1.0, 2.0, 5.0, 10.0) if span / (size * f) <= most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(step * k, 12) for k in range(first, last + 1)]


def _axis(values: Sequence[float], at: Callable[[float], float], y: float) -> list[str]:
    """Draw the ticks of a horizontal axis."""
    parts = []
    for value in values:
        parts.append(_line(at(value), y, at(value), y + 4.0, "axis"))
        parts.append(_words(f"{value:.4g}", at(value), y + 16.0, "middle"))
    return parts


def diverging_bars(rows: Sequence[Bars], *, title: str) -> str:
    """Draw one bar for each row, to the right for what is raised and to the left for the rest."""
    largest = max((abs(row.first) for row in rows), default=0.0) or 1.0
    middle = LABEL_WIDTH + (WIDTH - LABEL_WIDTH) / 2.0
    half = (WIDTH - LABEL_WIDTH) / 2.0 - 64.0
    parts = [_line(middle, 0.0, middle, ROW * len(rows), "axis")]
    for place, row in enumerate(rows):
        y = place * ROW
        length = half * abs(row.first) / largest
        x = middle if row.first >= 0 else middle - length
        kind = "naive" if row.first >= 0 else "robust"
        parts.append(_row_label(row.label, y))
        parts.append(_box(x, y + 4.0, length, ROW - 8.0, kind))
        at = middle + length + 4.0 if row.first >= 0 else middle - length - 4.0
        parts.append(
            _words(f"{row.first:+.3g}", at, y + 15.0, "start" if row.first >= 0 else "end")
        )
    bottom = ROW * max(len(rows), 1)
    reach = half / largest
    values = ticks(-largest, largest) if any(row.first < 0 for row in rows) else ticks(0.0, largest)
    parts.append(_line(middle - half, bottom, middle + half, bottom, "axis"))
    parts.extend(_axis(values, lambda value: middle + reach * value, bottom))
    return _picture(parts, bottom + 20.0, title)


def paired_bars(
    rows: Sequence[Bars], *, title: str, width: float = WIDTH, label_width: float = LABEL_WIDTH
) -> str:
    """Draw two bars for each row, one below the other."""
    largest = max((max(row.first, row.second or 0.0) for row in rows), default=0.0) or 1.0
    room = width - label_width - 60.0
    parts = []
    for place, row in enumerate(rows):
        y = place * (ROW + 8.0)
        parts.append(_row_label(row.label, y + 2.0, label_width))
        pair = ((row.first, "naive"), (row.second, "robust"))
        drawn = [(value, kind) for value, kind in pair if value is not None]
        top = y + (2.0 if len(drawn) == 2 else 8.0)
        for value, kind in drawn:
            length = room * max(value, 0.0) / largest
            parts.append(_box(label_width, top, length, 10.0, kind))
            parts.append(_words(f"{value:.3g}", label_width + length + 4.0, top + 9.0, "start"))
            top += 12.0
    bottom = (ROW + 8.0) * max(len(rows), 1)
    parts.append(_line(label_width, bottom, label_width + room, bottom, "axis"))
    scale = room / largest
    parts.extend(_axis(ticks(0.0, largest, 4), lambda value: label_width + scale * value, bottom))
    return _picture(parts, bottom + 20.0, title, width=width)


def histogram(
    edges: Sequence[float],
    seen: Sequence[float],
    expected: Sequence[float],
    *,
    threshold: float | None,
    title: str,
) -> str:
    """Draw shares of what was seen as bars, and of the null as a stepped line.

    Heights are square roots, so that a few accounts far out can be seen beside thousands.
    """
    height, base, left = 170.0, 150.0, 44.0
    span = (edges[-1] - edges[0]) or 1.0
    largest = math.sqrt(max(*seen, *expected, 1e-9))

    def place(value: float) -> float:
        return left + (WIDTH - left - 10.0) * (value - edges[0]) / span

    def top(share: float) -> float:
        return base - 130.0 * math.sqrt(share) / largest

    parts = []
    line = [f"M{place(edges[0]):.1f} {base:.1f}"]
    for low, high, share, null in zip(edges[:-1], edges[1:], seen, expected, strict=True):
        is_beyond = threshold is not None and low >= threshold
        if share > 0:
            width = max(place(high) - place(low) - 1.0, 0.5)
            kind = "naive" if is_beyond else "robust"
            parts.append(_box(place(low), top(share), width, base - top(share), kind))
        line.append(f"L{place(low):.1f} {top(null):.1f} L{place(high):.1f} {top(null):.1f}")
    parts.append(f'<path class="null" d="{" ".join(line)}"/>')
    parts.append(_line(left, base, WIDTH - 10.0, base, "axis"))
    parts.extend(_axis(ticks(edges[0], edges[-1], 6), place, base))
    for share in (1.0, 0.1, 0.01, 0.001):
        if math.sqrt(share) <= largest:
            parts.append(_line(left - 4.0, top(share), left, top(share), "axis"))
            parts.append(_words(f"{share:.4g}", left - 6.0, top(share) + 4.0, "end"))
    if threshold is not None and edges[0] <= threshold <= edges[-1]:
        parts.append(_line(place(threshold), 8.0, place(threshold), base, "axis"))
        parts.append(_words("flagged from here", place(threshold) + 4.0, 16.0, "start"))
    return _picture(parts, height, title)


def timeline(
    starts: Sequence[str],
    first: Sequence[int],
    second: Sequence[int],
    *,
    title: str,
    width: float = WIDTH,
) -> str:
    """Draw two counts over time, each as a share of its own total."""
    height, base, left = 150.0, 130.0, 44.0
    shares = [[count / max(sum(some), 1) for count in some] for some in (first, second)]
    largest = max(*shares[0], *shares[1], 1e-9)
    step = (width - left - 10.0) / max(len(starts), 1)
    parts = []
    for some, kind in ((shares[1], "robust"), (shares[0], "naive")):
        line = [f"M{left:.1f} {base:.1f}"]
        for number, share in enumerate(some):
            y = base - 115.0 * share / largest
            x = left + step * number
            line.append(f"L{x:.1f} {y:.1f} L{x + step:.1f} {y:.1f}")
        line.append(f"L{width - 10:.1f} {base:.1f}Z")
        parts.append(f'<path class="area {kind}" d="{" ".join(line)}"/>')
    parts.append(_line(left, base, width - 10.0, base, "axis"))
    for share in ticks(0.0, largest, 3):
        y = base - 115.0 * share / largest
        parts.append(_line(left - 4.0, y, left, y, "axis"))
        parts.append(_words(f"{share:.3g}", left - 6.0, y + 4.0, "end"))
    parts.append(_words(starts[0].partition("T")[0], left, base + 15.0, "start"))
    parts.append(_words(starts[-1].partition("T")[0], width - 10.0, base + 15.0, "end"))
    return _picture(parts, height, title, width=width)


def curves(
    places: Sequence[float], lines: Sequence[tuple[str, str, Sequence[float]]], *, title: str
) -> str:
    """Draw lines over shares; each has a name, a class and its values."""
    height, base = 190.0, 160.0
    values = [value for _, _, some in lines for value in some]
    low, high = min(0.0, *values), max(0.0, *values)
    span = (high - low) or 1.0
    most = max(places) or 1.0

    def at(place: float, value: float) -> str:
        x = LEFT + ROOM * place / most
        return f"{x:.1f} {base - 140.0 * (value - low) / span:.1f}"

    parts = [_line(LEFT, base, LEFT + ROOM, base, "axis")]
    for value in (low, high):
        y = base - 140.0 * (value - low) / span
        parts.append(_words(f"{value:.2g}", LEFT - 6.0, y + 4.0, "end"))
    for place in places:
        x = LEFT + ROOM * place / most
        parts.append(_words(f"{place:.0%}", x, base + 15.0, "middle"))
    used: list[float] = []
    for name, kind, some in lines:
        points = " L".join(at(place, value) for place, value in zip(places, some, strict=True))
        parts.append(f'<path class="line {kind}" d="M{points}"/>')
        y = base - 140.0 * (some[-1] - low) / span + 4.0
        while any(abs(y - other) < 13.0 for other in used):
            y -= 13.0
        used.append(y)
        parts.append(_words(name, LEFT + ROOM + 8.0, y, "start"))
    return _picture(parts, height, title)


def intervals(rows: Sequence[tuple[str, Sequence[tuple[str, Strip]]]], *, title: str) -> str:
    """Draw intervals on one axis, with those of one label below each other.

    Each row has a label and pairs of a colour class and a strip; infinite ends reach the edge.
    """
    strips = [strip for _, some in rows for _, strip in some]
    numbers = [x for strip in strips for x in (strip.mean, strip.low, strip.high) if x is not None]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    left, room = LABEL_WIDTH + 8.0, WIDTH - LABEL_WIDTH - 24.0

    def at(value: float) -> float:
        return left + room * (value - low) / ((high - low) or 1.0)

    parts, y = [], 6.0
    for label, some in rows:
        parts.append(_row_label(label, y + 5.0 * len(some) - 11.0))
        for kind, strip in some:
            start = left if strip.low is None else at(strip.low)
            end = left + room if strip.high is None else at(strip.high)
            parts.append(_box(start, y + 3.0, max(end - start, 1.0), 4.0, f"{kind} area"))
            parts.append(
                f'<circle class="{kind}" cx="{at(strip.mean):.1f}" cy="{y + 5:.1f}" r="4"/>'
            )
            y += 11.0
        y += 8.0
    if low < 0.0 < high:
        parts.insert(0, _line(at(0.0), 0.0, at(0.0), y, "axis"))
    parts.append(_line(left, y, left + room, y, "axis"))
    for value, anchor in ((low, "start"), (0.0, "middle"), (high, "end")):
        if low <= value <= high:
            parts.append(_words(f"{value:.3g}", at(value), y + 15.0, anchor))
    return _picture(parts, y + 20.0, title)


def interval_strip(strip: Strip, span: tuple[float, float], *, title: str) -> str:
    """Draw an interval as a line, its mean as a dot, and the naive mean as a bar across.

    ``span`` is what the picture is wide, so that strips of one table compare; what lies beyond ends
    at its edge.
    """
    width, height, margin = 120.0, 16.0, 6.0
    low, high = span
    room = (width - 2.0 * margin) / ((high - low) or 1.0)

    def at(value: float) -> float:
        return margin + room * (min(max(value, low), high) - low)

    left = margin if strip.low is None else at(strip.low)
    right = width - margin if strip.high is None else at(strip.high)
    parts = [
        _line(margin, height / 2.0, width - margin, height / 2.0, "rail"),
        _box(left, height / 2.0 - 2.0, right - left, 4.0, "robust area"),
        f'<circle class="robust" cx="{at(strip.mean):.1f}" cy="{height / 2.0:.1f}" r="4"/>',
    ]
    if strip.naive is not None:
        parts.append(_box(at(strip.naive) - 1.5, 1.0, 3.0, height - 2.0, "naive"))
    return _picture(parts, height, title, width=width)


def _picture(parts: Sequence[str], height: float, title: str, *, width: float = WIDTH) -> str:
    return (
        f'<svg viewBox="0 0 {width:g} {height:g}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{text_of(title)}</title>'
        + "".join(parts)
        + "</svg>"
    )


def _row_label(label: str, y: float, width: float = LABEL_WIDTH) -> str:
    short = label if len(label) <= MOST_LETTERS else label[: MOST_LETTERS - 1] + "…"
    return _words(short, width - 8.0, y + 15.0, "end")


def _words(text: str, x: float, y: float, anchor: str) -> str:
    return (
        f'<text class="label" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text_of(text)}</text>'
    )


def _box(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.0):.1f}" '
        f'height="{max(height, 0.0):.1f}"/>'
    )


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'
