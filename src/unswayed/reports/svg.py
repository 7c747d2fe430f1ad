"""Pictures as SVG made on the server: no script, no style of their own, labels always escaped.

Colours come from the classes ``robust``, ``naive``, ``null``, ``axis`` and ``label`` of the page,
so that a picture follows its light and dark scheme.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from unswayed.visible import number, visible

WIDTH = 480.0
ROW = 22.0
LABEL_WIDTH = 130.0
MOST_LETTERS = 18
CAPTION = 20.0
"""Height of the caption line above a picture."""

Place = Callable[[float], float]


class Strip(NamedTuple):
    """A robust mean with the ends of its interval, None without a bound, and the naive mean."""

    mean: float
    low: float | None
    high: float | None
    naive: float | None


def text_of(value: object, most: int = 200) -> str:
    """Return a text that is safe in markup: escaped, shortened, without control characters.

    >>> text_of("<script>alert(1)</script>")
    '&lt;script&gt;alert(1)&lt;/script&gt;'
    """
    return html.escape(visible(str(value), most=most), quote=True)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return at most about ``most`` round numbers within a range.

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


def bars(
    rows: Sequence[tuple[str, float]],
    *,
    title: str,
    width: float = WIDTH,
    label_width: float = LABEL_WIDTH,
    kinds: Sequence[str] | None = None,
) -> str:
    """Draw a horizontal bar for each label and value, from zero.

    ``kinds`` are classes of the bars; by default they depend on the sign of the value.
    """
    values = [value for _, value in rows]
    low, high = min([0.0, *values]), max([0.0, *values])
    texts = [number(value, sign="+" * (low < 0.0)) for value in values]
    room = 12.0 + 7.0 * max(map(len, texts), default=0)
    at = _scale(low, high, label_width + room * (low < 0.0), width - room)
    parts, y = [], 0.0
    kinds = kinds or ["robust" if value < 0.0 else "naive" for value in values]
    for (label, value), text, kind in zip(rows, texts, kinds, strict=True):
        start, end = sorted((at(0.0), at(value)))
        parts.append(_row_label(label, y + 12.0, label_width))
        parts.append(_box(start, y + 4.0, end - start, 11.0, kind))
        x, anchor = (end + 4.0, "start") if value >= 0.0 else (start - 4.0, "end")
        parts.append(_words(text, x, y + 14.0, anchor))
        y += ROW
    parts.append(_line(at(0.0), 0.0, at(0.0), y, "axis"))
    return _picture([*parts, *_axis(low, high, at, y)], y + 20.0, title, width)


def timeline(
    starts: Sequence[str],
    members: Sequence[int],
    others: Sequence[int],
    *,
    title: str,
    width: float = WIDTH,
) -> str:
    """Draw two counts over time, each as a share of its own total."""
    base, left = 130.0, 44.0
    shares = [[count / max(sum(some), 1) for count in some] for some in (members, others)]
    largest = max(*shares[0], *shares[1], 1e-9)
    at = _scale(0.0, len(starts), left, width - 10.0)
    up = _scale(0.0, largest, base, 10.0)
    parts = []
    for some, kind in ((shares[0], "naive area"), (shares[1], "robust outline")):
        steps = "".join(f"V{up(y):.1f}H{at(k):.1f}" for k, y in enumerate(some, 1))
        parts.append(f'<path class="{kind}" d="M{left} {base}{steps}V{base}Z"/>')
    parts.append(_line(left, base, width - 10.0, base, "axis"))
    for value in ticks(0.0, largest, 4):
        parts.append(_line(left - 4.0, up(value), left, up(value), "axis"))
        parts.append(_words(f"{number(100.0 * value)}%", left - 6.0, up(value) + 4.0, "end"))
    days = [start.partition("T")[0] for start in (starts[0], starts[-1])]
    if days[0] == days[1]:  # within a day, times of day
        days = [start[:16].replace("T", " ") for start in (starts[0], starts[-1])]
    for day, x, anchor in ((days[0], left, "start"), (days[1], width - 10.0, "end")):
        parts.append(_words(day, x, base + 15.0, anchor))
    return _picture(parts, base + 20.0, title, width)


def intervals(
    rows: Sequence[tuple[str, Sequence[tuple[str, Sequence[float]]]]], *, title: str
) -> str:
    """Draw intervals on one axis, the intervals of one label below each other.

    Each row is a label and a list of (colour class, (mean, low, high)); infinite ends reach the
    edge.
    """
    numbers = [x for _, some in rows for _, found in some for x in found[:3] if math.isfinite(x)]
    low, high = min(numbers, default=0.0), max(numbers, default=1.0)
    at = _scale(low, high, LABEL_WIDTH + 8.0, WIDTH - 16.0)
    parts, y = [], 6.0
    for label, some in rows:
        parts.append(_row_label(label, y + 5.0 * len(some) + 4.0))
        for kind, (mean, first, last, *_) in some:
            start, end = at(max(first, low)), at(min(last, high))
            parts.append(_box(start, y + 3.0, max(end - start, 1.0), 4.0, f"{kind} area"))
            if math.isfinite(mean):
                parts.append(f'<circle class="{kind}" cx="{at(mean):.1f}" cy="{y + 5:.1f}" r="4"/>')
            y += 11.0
        y += 8.0
    if low < 0.0 < high:
        parts.insert(0, _line(at(0.0), 0.0, at(0.0), y, "axis"))
    return _picture([*parts, *_axis(low, high, at, y)], y + 20.0, title)


def interval_strip(strip: Strip, span: tuple[float, float], *, title: str) -> str:
    """Draw an interval as a line, its mean as a dot, and the naive mean as a bar across.

    ``span`` is the range of the picture, common to the strips of one table; anything beyond it is
    cut off.
    """
    width, height, margin = 120.0, 16.0, 6.0
    place = _scale(*span, margin, width - margin)

    def at(value: float) -> float:
        return min(max(place(value), margin), width - margin)

    left = margin if strip.low is None else at(strip.low)
    right = width - margin if strip.high is None else at(strip.high)
    parts = [
        _line(margin, height / 2.0, width - margin, height / 2.0, "rail"),
        _box(left, height / 2.0 - 2.0, right - left, 4.0, "robust area"),
        f'<circle class="robust" cx="{at(strip.mean):.1f}" cy="{height / 2.0:.1f}" r="4"/>',
    ]
    if strip.naive is not None:
        parts.append(_box(at(strip.naive) - 1.5, 1.0, 3.0, height - 2.0, "naive"))
    return _picture(parts, height, title, width, caption=0.0)


def _scale(low: float, high: float, start: float, end: float) -> Place:
    """Return a function that maps values of a range to positions on a line."""
    unit = (end - start) / ((high - low) or 1.0)
    return lambda value: start + unit * (value - low)


def _axis(low: float, high: float, at: Place, y: float) -> list[str]:
    """Draw a horizontal axis with its ticks."""
    parts = [_line(at(low), y, at(high), y, "axis")]
    for value in ticks(low, high, 4):
        parts.append(_line(at(value), y, at(value), y + 4.0, "axis"))
        parts.append(_words(number(value), at(value), y + 16.0, "middle"))
    return parts


def _picture(
    parts: Sequence[str],
    height: float,
    title: str,
    width: float = WIDTH,
    *,
    caption: float = CAPTION,
) -> str:
    """Return a picture, with its title above it unless ``caption`` is 0."""
    shown = _words(title, 0.0, 12.0, "start") if caption else ""
    return (
        f'<svg viewBox="0 0 {width:g} {height + caption:g}" role="img" '
        f'xmlns="http://www.w3.org/2000/svg"><title>{text_of(title)}</title>{shown}'
        f'<g transform="translate(0 {caption:g})">{"".join(parts)}</g></svg>'
    )


def _row_label(label: str, y: float, width: float = LABEL_WIDTH) -> str:
    short = label if len(label) <= MOST_LETTERS else label[: MOST_LETTERS - 1] + "…"
    return _words(short, width - 8.0, y, "end")


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
