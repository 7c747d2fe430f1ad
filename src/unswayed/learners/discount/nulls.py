"""What a search finds where there is no coalition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from unswayed.learners.discount.answers import Answers
from unswayed.learners.discount.fit_rows import Data, with_answers
from unswayed.learners.discount.kernels import whitened
from unswayed.learners.discount.mixture import Model
from unswayed.learners.discount.noise import Noise, permuted_within_cells
from unswayed.learners.discount.search import search_coalitions
from unswayed.learners.interface import FloatArray

LEAST_CERTAINTY = 0.01
"""Ours: users who always answer the same are drawn from nearly all-or-nothing tastes."""


class Null:
    """What searches gain where there is no coalition; the copy of the data is drawn once a round.

    The copy has the same cells and no user who is alike across them: binary answers are drawn
    anew, others are exchanged within their cells.
    """

    def __init__(
        self,
        data: Data,
        noise: Noise,
        starts: FloatArray,
        adversarial_fraction: float,
        rng: np.random.Generator,
    ) -> None:
        self._data, self._noise, self._starts = data, noise, starts
        self._alpha = adversarial_fraction
        self._rng = rng

    def gains(self, models: Sequence[Model]) -> list[float]:
        """Return what a search gains with each of some models."""
        findings = search_coalitions(
            self._copy,
            self._starts,
            models,
            adversarial_fraction=self._alpha,
            finalists=1,
            opposite=False,
        )
        return [finding.accusation.gain for finding in findings]

    @cached_property
    def _copy(self) -> Data:
        data = self._data
        answers, worth, residuals = data.answers, data.worth, data.residuals
        if answers.is_binary:
            drawn = _binary_answers(answers, self._noise, self._rng)
            centred = whitened(
                answers.cells, drawn, self._noise.means, data.deviations, np.empty_like(residuals)
            )
            return with_answers(data, worth=worth, residuals=centred)
        both = permuted_within_cells(answers, data.weights, self._rng, worth, residuals)
        return with_answers(data, worth=both[0], residuals=both[1])


def _binary_answers(answers: Answers, noise: Noise, rng: np.random.Generator) -> FloatArray:
    """Return binomial answers of users who share the mean, up to idiosyncratic tastes."""
    p = np.clip(noise.means, 0.001, 0.999)[answers.cells]
    if noise.taste_share > 0:
        certainty = max((1.0 - noise.taste_share) / noise.taste_share, LEAST_CERTAINTY)
        p = rng.beta(p * certainty, (1.0 - p) * certainty)
    plays = np.maximum(np.rint(answers.plays), 1).astype(np.int64)
    drawn: FloatArray = rng.binomial(plays, p) / plays
    return drawn
