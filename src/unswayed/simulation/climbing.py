"""Uphill from the best attack found: two-sided differences along random directions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unswayed.simulation.search_space import Candidate, n_numbers, stepped

FIRST_STEP = 0.15
"""Ours: how far knobs move at first, as a share of their range."""

LAST_STEP = 0.01
"""Ours: a climb ends below this step."""

Harm = Callable[[list[Candidate]], list[float]]


def climb(start: Candidate, harm: Harm, *, steps: int, rng: np.random.Generator) -> Candidate:
    """Move all knobs that are numbers at once, uphill, and return the top that was reached.

    Parameters
    ----------
    start
        Where to begin.
    harm
        Mean harm of candidates in worlds that are the same for all of them, so that differences
        come from the knobs and not from chance.
    steps
        Largest number of steps; each asks for two candidates. One more is asked for at the start.
    rng
        Draws the directions.

    Notes
    -----
    Simultaneous perturbation (Spall 1992): a random sign for each knob, one step to both sides.
    Their difference is an unbiased estimate of the slope, whatever the number of knobs. Decisions
    jump, and so does the harm; therefore the climb goes to a side only if it is worse for the
    learner than the place it stands on, and otherwise halves its step.
    """
    size, top = FIRST_STEP, start
    n = n_numbers(start.attack)
    if n == 0 or steps < 1:
        return top
    (height,) = harm([top])
    for _ in range(steps):
        signs = rng.choice((-1.0, 1.0), size=n)
        sides = [stepped(top, size * signs), stepped(top, -size * signs)]
        heights = harm(sides)
        best = int(np.argmax(heights))
        if heights[best] > height:
            top, height = sides[best], heights[best]
            continue
        size /= 2.0
        if size < LAST_STEP:
            break
    return top
