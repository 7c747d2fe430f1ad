"""The search for the likeliest coalition, and what it gains where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from unswayed.arrays import BoolArray, FloatArray
from unswayed.learners.discount.means.redescending import REDESCENDER, redescending_means
from unswayed.learners.discount.one_mean.mixture import VOID, Accusation, Model, fit_coalitions
from unswayed.learners.discount.responses.kernels import squares_beyond
from unswayed.learners.discount.responses.noise import (
    Noise,
    measure_noise,
    permuted_within_cells,
    top_directions,
)
from unswayed.learners.discount.responses.residuals import Residuals, residuals_of
from unswayed.learners.discount.responses.responses import AnyResponses, Responses
from unswayed.learners.discount.settings import MASS_MARGIN, RIVALS

EIGENVECTORS = 4
"""Ours: top directions of the whitened residuals that are tried, both ways."""

SHORT_STEPS = 5
"""Ours: steps of EM from every start; the best go on."""

LONG_STEPS = 25
"""Ours: steps of EM for the best starts."""

FINALISTS = 2
"""Ours: starts that go on."""

LEANING = 2.0
"""Ours: deviations beyond which a response on the side of the cell's lean is suspicious."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """The best accusation, and the gain of the opposite one, started from the other tail."""

    accusation: Accusation
    opposite_gain: float


def start_directions(
    data: Residuals, cell_means: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Return directions along which a coalition may differ; shape (n_cells, n_directions).

    They are the top eigenvectors of the whitened residuals, the winners, the runners-up, and
    winners against runners-up; in standard deviations of a response.
    """
    responses = data.responses
    values = np.sqrt(data.worth) * data.residuals
    _, vectors = top_directions(responses, values, data.weights, EIGENVECTORS, rng)
    ranked = np.argsort(-cell_means.reshape(responses.n_contexts, -1), axis=1)
    winners, runners_up = np.zeros((2, responses.n_contexts, responses.n_actions))
    np.put_along_axis(winners, ranked[:, :1], 1.0, axis=1)
    np.put_along_axis(runners_up, ranked[:, 1:2], 1.0, axis=1)
    rewards = np.stack([winners, runners_up, winners - runners_up], axis=-1)
    return np.hstack([vectors, rewards.reshape(responses.n_cells, 3) / data.deviations[:, None]])


def rival_cells(responses: AnyResponses, cell_means: FloatArray) -> FloatArray:
    """Return one for the cells that compete for a decision; shape (n_cells,)."""
    rivals = np.zeros((responses.n_contexts, responses.n_actions))
    ranked = np.argsort(-cell_means.reshape(rivals.shape), axis=1)
    np.put_along_axis(rivals, ranked[:, :RIVALS], 1.0, axis=1)
    return rivals.ravel()


def search_coalitions(
    data: Residuals,
    directions: FloatArray,
    models: Sequence[Model],
    *,
    adversarial_fraction: float,
) -> list[Finding]:
    """Fit the mixture from many starts and return the best fit of each model.

    Parameters
    ----------
    data
        Responses under the users' present weights.
    directions
        Shape (n_cells, n_directions); where to look, both ways.
    models
        What the fits are free to do.
    adversarial_fraction
        α; starts accuse this share of the users.

    Notes
    -----
    The opposite accusation is tried too: the same mass on the other side. It replaces the best
    fit if it gains more.
    """
    leaning = _leaning(data)
    # Fits of all models go side by side: they read the same entries.
    starts: list[BoolArray] = []
    owners: list[Model] = []
    known: dict[bytes, list[BoolArray]] = {}
    for model in models:
        key = model.cells.tobytes()
        if key not in known:
            guesses = [*_guesses(data, directions * model.cells[:, None]), leaning]
            known[key] = _suspects(guesses, adversarial_fraction)
        suspects = known[key]
        starts += suspects
        owners += [model] * len(suspects)
    promising, finals = _promising(data, starts, owners, models)
    long = _fitted(data, promising, finals, LONG_STEPS)
    best = []
    for model in models:
        ours = [fit for fit, owner in zip(long, finals, strict=True) if owner is model]
        if not ours:  # no start accuses anybody
            ours = _fitted(data, [np.zeros(data.responses.n_users)], [model], 1)
        best.append(max(ours, key=lambda fit: fit.gain))
    others = _fitted(data, [_other_tail(data, fit) for fit in best], models, LONG_STEPS)
    return [_both_ways(*pair) for pair in zip(best, others, strict=True)]


def _promising(
    data: Residuals,
    starts: Sequence[BoolArray],
    owners: Sequence[Model],
    models: Sequence[Model],
) -> tuple[list[FloatArray], list[Model]]:
    """Return whom the best short fits of each model accuse, and the model of each."""
    short = _fitted(data, starts, owners, SHORT_STEPS)
    promising: list[FloatArray] = []
    finals: list[Model] = []
    for model in models:
        ours = [fit for fit, owner in zip(short, owners, strict=True) if owner is model]
        ours.sort(key=lambda fit: -fit.gain)
        promising += [fit.probabilities for fit in ours[:FINALISTS]]
        finals += [model] * len(ours[:FINALISTS])
    return promising, finals


def search_with_more_room(
    data: Residuals, findings: Sequence[Finding], models: Sequence[Model]
) -> list[Finding]:
    """Fit again what ran into its largest mass, with models that allow more."""
    starts = [finding.accusation.probabilities for finding in findings]
    fits = _fitted(data, starts, models, LONG_STEPS)
    others = _fitted(data, [_other_tail(data, fit) for fit in fits], models, LONG_STEPS)
    return [_both_ways(*pair) for pair in zip(fits, others, strict=True)]


def _fitted(
    data: Residuals,
    starts: Sequence[FloatArray] | Sequence[BoolArray],
    models: Sequence[Model],
    n_steps: int,
) -> list[Accusation]:
    if not starts:
        return []
    side_by_side = np.stack(starts, axis=1).astype(data.strips.dtype)
    return fit_coalitions(data.strips, side_by_side, models, n_steps)


def _guesses(data: Residuals, directions: FloatArray) -> list[FloatArray]:
    """Return how far out users are along each direction, both ways; kept users only."""
    shifts = directions.astype(data.strips.dtype)
    scores, strengths = data.strips.line_scores(np.zeros_like(shifts), shifts)
    is_known = (data.weights > 0.5)[:, None] & (strengths > 0)
    z = np.where(is_known, scores / np.sqrt(np.maximum(strengths, 1e-12)), 0.0)
    return [guess for column in z.T.astype(float) for guess in (column, -column)]


def _suspects(guesses: list[FloatArray], adversarial_fraction: float) -> list[BoolArray]:
    """Return the most suspect users by each guess that suspects anybody."""
    starts = []
    for guess in guesses:
        if (guess > 0).sum() > 3:
            cut = max(float(np.quantile(guess, 1.0 - adversarial_fraction)), 1e-9)
            starts.append(guess > cut)
    return starts


def _leaning(data: Residuals) -> FloatArray:
    """Return how far out kept users respond on the side to which their cells' means lean."""
    responses = data.responses
    order, starts = responses.cell_order
    centres = redescending_means(
        starts,
        data.worth[order],
        data.residuals[order],
        data.weights[responses.users[order]],
        np.ones(responses.n_cells),
        *REDESCENDER,
    )
    leans = np.sign(data.strips.total / np.maximum(data.strips.mass, 1e-9) - centres)
    beyond = squares_beyond(
        responses.indptr, responses.cells, data.worth, data.residuals, centres, leans, LEANING
    )
    leaning: FloatArray = beyond * (data.weights > 0.5)
    return leaning


def _other_tail(data: Residuals, best: Accusation) -> BoolArray:
    """Return as many users as are accused, from the side that was believed."""
    has_say = (data.weights > 0.5) & (best.strengths > 0)
    z = np.where(has_say, -best.scores / np.sqrt(np.maximum(best.strengths, 1e-9)), -np.inf)
    share = min(max(best.mass, 0.01), 0.45)
    cut = max(float(np.quantile(z, 1.0 - share, method="lower")), 1e-9)
    return np.asarray(z > cut)


def _both_ways(best: Accusation, other: Accusation) -> Finding:
    """Return the better of two fits; the other one counts only if its shifts are opposite."""
    if float((other.shifts * best.shifts).sum()) >= 0.0:
        return Finding(best, VOID)
    if other.gain > best.gain:
        best, other = other, best
    return Finding(best, other.gain)


LEAST_CERTAINTY = 0.01
"""Ours: users whose responses never vary are drawn from nearly all-or-nothing tastes."""


class Null:
    """What searches gain in a copy of the data where there is no coalition.

    The copy has the same cells and no user who is alike across them: binary responses are drawn
    anew, others are exchanged within their cells.
    """

    def __init__(
        self,
        data: Residuals,
        noise: Noise,
        adversarial_fraction: float,
        rng: np.random.Generator,
    ) -> None:
        self._data, self._noise = data, noise
        self._alpha = adversarial_fraction
        self._rng = rng

    def fresh(self) -> Null:
        """Return the same with another copy."""
        return Null(self._data, self._noise, self._alpha, self._rng)

    def gains(self, models: Sequence[Model]) -> list[float]:
        """Return what a search gains with each of some models.

        It is the same search, from where the copy's own responses point and among its own rivals.
        With many cells for each user chance alone points somewhere and gains much; the copy must
        be free to do so as well, with the same effort.
        """
        copy, means = self._copy
        rivals, limit = rival_cells(copy.responses, means), MASS_MARGIN * self._alpha
        wanted = [model.among(rivals) for model in models]
        stated = [replace(m, largest_mass=min(m.largest_mass, limit)) for m in wanted]
        findings = search_coalitions(copy, self._starts, stated, adversarial_fraction=self._alpha)
        roomy = [place for place, model in enumerate(wanted) if model.largest_mass > limit]
        refitted = search_with_more_room(
            copy, [findings[place] for place in roomy], [wanted[place] for place in roomy]
        )
        for place, finding in zip(roomy, refitted, strict=True):
            findings[place] = finding
        # Fits that accuse too many users count here: their gain, too, is by chance.
        return [finding.accusation.raw_gain for finding in findings]

    @cached_property
    def _starts(self) -> FloatArray:
        return start_directions(*self._copy, self._rng)

    @cached_property
    def _copy(self) -> tuple[Residuals, FloatArray]:
        """The copy, and the mean of each of its cells."""
        data, noise = self._data, self._noise
        if data.responses.is_binary:
            drawn = replace(
                data.responses, means=_binary_responses(data.responses, noise, self._rng)
            )
            # Measured anew: the more cells for each user, the more a measured mean follows chance.
            measured = measure_noise(drawn, data.weights, noise.taste_share)
            return residuals_of(drawn, data.weights, measured, data.strips.dtype), measured.means
        columns = (data.worth, data.residuals)
        worth, residuals = permuted_within_cells(data.responses, data.weights, self._rng, *columns)
        copy = replace(data, worth=worth, residuals=residuals)
        shifts = copy.strips.total / np.maximum(copy.strips.mass, 1e-9)
        return copy, noise.means + data.deviations * shifts


def _binary_responses(responses: Responses, noise: Noise, rng: np.random.Generator) -> FloatArray:
    """Return binomial responses of users who share the mean, up to idiosyncratic tastes."""
    p = np.clip(_likely_means(noise, rng), 0.001, 0.999)[responses.cells]
    if noise.taste_share > 0:
        certainty = max((1.0 - noise.taste_share) / noise.taste_share, LEAST_CERTAINTY)
        p = rng.beta(p * certainty, (1.0 - p) * certainty)
    plays = np.maximum(np.rint(responses.plays), 1).astype(np.int64)
    drawn: FloatArray = rng.binomial(plays, p) / plays
    return drawn


def _likely_means(noise: Noise, rng: np.random.Generator) -> FloatArray:
    """Return means of binary cells, drawn from their posterior; shape (n_cells,).

    Measured means lie too near to 0 or 1 where responses are few, and would leave too little to
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
    responses = chance / between - 1.0
    yes = responses * centre + mass * means
    drawn: FloatArray = rng.beta(yes + 1e-9, responses + mass - yes + 1e-9)
    return drawn
