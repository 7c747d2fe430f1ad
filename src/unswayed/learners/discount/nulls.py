"""What a search finds where there is no coalition."""

from __future__ import annotations

import numpy as np

from unswayed.learners.discount.answers import Answers
from unswayed.learners.discount.kernels import whitened
from unswayed.learners.discount.mixture import Data, Model, with_answers
from unswayed.learners.discount.noise import Noise, permuted_within_cells
from unswayed.learners.discount.search import search_coalitions
from unswayed.learners.interface import FloatArray

FLIPS = 2
"""Ours: mirrored copies of the data that make the null with tastes."""

FEW_CELLS = 2.5
"""Ours: with fewer cells per user, exchanging answers within cells changes nothing, and there is no
null but the mirror."""


class Nulls:
    """What searches gain where there is no coalition; copies are drawn once a round."""

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
        self._copies: dict[bool, list[Data]] = {}

    def gain(self, model: Model) -> float:
        """Return the largest gain over the copies."""
        if model.allows_tastes not in self._copies:
            self._copies[model.allows_tastes] = self._drawn(model.allows_tastes)
        return max(
            search_coalitions(
                copy,
                self._starts,
                [model],
                adversarial_fraction=self._alpha,
                finalists=1,
                opposite=False,
            )[0].accusation.gain
            for copy in self._copies[model.allows_tastes]
        )

    def _drawn(self, allows_tastes: bool) -> list[Data]:
        data = self._data
        answers, worth, residuals = data.answers, data.worth, data.residuals
        copies = []
        if allows_tastes:
            for _ in range(FLIPS):
                signs = self._rng.choice([-1.0, 1.0], size=answers.n_users).astype(worth.dtype)
                flipped = residuals * signs[answers.users]
                copies.append(with_answers(data, worth=worth, residuals=flipped))
        if answers.is_binary:
            drawn = _binary_answers(answers, self._noise, self._rng)
            centred = whitened(
                answers.cells, drawn, self._noise.means, data.deviations, np.empty_like(residuals)
            )
            copies.append(with_answers(data, worth=worth, residuals=centred))
        elif not (allows_tastes and answers.cells_per_user < FEW_CELLS):
            both = permuted_within_cells(answers, data.weights, self._rng, worth, residuals)
            copies.append(with_answers(data, worth=both[0], residuals=both[1]))
        return copies


def _binary_answers(answers: Answers, noise: Noise, rng: np.random.Generator) -> FloatArray:
    """Return binomial answers of users who share the mean, up to idiosyncratic tastes."""
    p = np.clip(noise.means, 0.001, 0.999)[answers.cells]
    if noise.taste_share > 0:
        certainty = (1.0 - noise.taste_share) / noise.taste_share
        p = rng.beta(p * certainty, (1.0 - p) * certainty)
    plays = np.maximum(np.rint(answers.plays), 1).astype(np.int64)
    drawn: FloatArray = rng.binomial(plays, p) / plays
    return drawn
