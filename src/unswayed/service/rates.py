"""How often one caller may ask."""

from __future__ import annotations

import time

from unswayed.service.errors import Refusal

#: Ours: callers that are remembered; beyond it all start anew.
_MOST_CALLERS = 10_000


class Rates:
    """A bucket for each caller that fills with so many requests a second, and holds as many.

    Examples
    --------
    >>> rates = Rates(2.0)
    >>> rates.take("ann"), rates.take("ann")
    (None, None)
    >>> rates.take("ann")
    Traceback (most recent call last):
    ...
    unswayed.service.errors.Refusal: more than 2 requests a second; wait and send it again.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, caller: str) -> None:
        """Count a request, or refuse it with 429."""
        now = time.monotonic()
        room, then = self._buckets.get(caller, (self._per_second, now))
        room = min(room + (now - then) * self._per_second, self._per_second)
        if room < 1.0:
            raise Refusal(
                429,
                "too_many_requests",
                f"more than {self._per_second:g} requests a second; wait and send it again.",
            )
        if len(self._buckets) >= _MOST_CALLERS:
            self._buckets.clear()
        self._buckets[caller] = (room - 1.0, now)
