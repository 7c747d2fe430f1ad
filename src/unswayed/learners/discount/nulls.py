"""What a search finds where there is no coalition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from unswayed.learners.discount.answers import Answers
from unswayed.learners.discount.fit_rows import Data, fit_data, with_answers
from unswayed.learners.discount.mixture import Model
from unswayed.learners.discount.noise import Noise, measure_noise, permuted_within_cells
from unswayed.learners.discount.search import (
    rival_cells,
    search_coalitions,
    search_with_more_room,
    start_directions,
)
from unswayed.learners.discount.settings import MASS_MARGIN
from unswayed.learners.interface import FloatArray

LEAST_CERTAINTY = 0.01
"""Ours: users who always answer the same are drawn from nearly all-or-nothing tastes."""


class Null:
    """What searches gain in a copy of the data where there is no coalition.

    The copy has the same cells and no user who is alike across them: binary answers are drawn
    anew, others are exchanged within their cells.
    """

    def __init__(
        self, data: Data, noise: Noise, adversarial_fraction: float, rng: np.random.Generator
    ) -> None:
        self._data, self._noise = data, noise
        self._alpha = adversarial_fraction
        self._rng = rng

    def fresh(self) -> Null:
        """Return the same with another copy."""
        return Null(self._data, self._noise, self._alpha, self._rng)

    def gains(self, models: Sequence[Model]) -> list[float]:
        """Return what a search gains with each of some models.

        It is the same search, from where the copy's own answers point and among its own rivals.
        With many cells for each user chance alone points somewhere and gains much; the copy must
        be free to do so as well, with the same effort.
        """
        copy, means = self._copy
        rivals, limit = rival_cells(copy.answers, means), MASS_MARGIN * self._alpha
        wanted = [model.among(rivals) for model in models]
        stated = [replace(m, largest_mass=min(m.largest_mass, limit)) for m in wanted]
        findings = search_coalitions(copy, self._starts, stated, adversarial_fraction=self._alpha)
        roomy = [place for place, model in enumerate(wanted) if model.largest_mass > limit]
        refitted = search_with_more_room(
            copy, [findings[place] for place in roomy], [wanted[place] for place in roomy]
        )
        for place, finding in zip(roomy, refitted, strict=True):
            findings[place] = finding
        # Who accuses too many in the copy gains all the same by chance.
        return [finding.accusation.raw_gain for finding in findings]

    @cached_property
    def _starts(self) -> FloatArray:
        return start_directions(*self._copy, self._rng)

    @cached_property
    def _copy(self) -> tuple[Data, FloatArray]:
        """The copy, and the mean of each of its cells."""
        data, noise = self._data, self._noise
        if data.answers.is_binary:
            drawn = replace(data.answers, means=_binary_answers(data.answers, noise, self._rng))
            # Measured anew: the more cells for each user, the more a measured mean follows chance.
            measured = measure_noise(drawn, data.weights, noise.taste_share)
            return fit_data(drawn, measured, data.weights, data.rows.dtype), measured.means
        columns = (data.worth, data.residuals)
        worth, residuals = permuted_within_cells(data.answers, data.weights, self._rng, *columns)
        copy = with_answers(data, worth=worth, residuals=residuals)
        shifts = copy.rows.total / np.maximum(copy.rows.mass, 1e-9)
        return copy, noise.means + data.deviations * shifts


def _binary_answers(answers: Answers, noise: Noise, rng: np.random.Generator) -> FloatArray:
    """Return binomial answers of users who share the mean, up to idiosyncratic tastes."""
    p = np.clip(_likely_means(noise, rng), 0.001, 0.999)[answers.cells]
    if noise.taste_share > 0:
        certainty = max((1.0 - noise.taste_share) / noise.taste_share, LEAST_CERTAINTY)
        p = rng.beta(p * certainty, (1.0 - p) * certainty)
    plays = np.maximum(np.rint(answers.plays), 1).astype(np.int64)
    drawn: FloatArray = rng.binomial(plays, p) / plays
    return drawn


def _likely_means(noise: Noise, rng: np.random.Generator) -> FloatArray:
    """Return means of binary cells, drawn from their posterior; shape (n_cells,).

    Measured means lie too near to 0 or 1 where answers are few, and would leave too little to
    chance. The prior is the beta law with the mean and the variance of all cells.
    """
    is_met, mass = noise.mass > 0, noise.mass
    means = np.clip(noise.means, 0.0, 1.0)
    centre = float(np.average(means[is_met], weights=mass[is_met]))
    scatter = float(np.average((means[is_met] - centre) ** 2, weights=mass[is_met]))
    chance = max(centre * (1.0 - centre), 1e-12)
    # Of the scatter, (chance − between)·cells/mass is due to chance itself.
    of_chance = float(is_met.sum() / mass.sum())
    between = (scatter - chance * of_chance) / max(1.0 - of_chance, 1e-9)
    between = min(max(between, 1e-4 * chance), 0.99 * chance)
    answers = chance / between - 1.0
    yes = answers * centre + mass * means
    drawn: FloatArray = rng.beta(yes + 1e-9, answers + mass - yes + 1e-9)
    return drawn
