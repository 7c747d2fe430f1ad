"""Where to begin: many guesses of who colludes, and the best fit among them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.learners.discount.kernels import redescending_means, scores
from unswayed.learners.discount.mixture import VOID, Accusation, Data, Model, fit_coalition
from unswayed.learners.discount.noise import top_directions
from unswayed.learners.interface import FloatArray

EIGENVECTORS = {False: 4, True: 8}
"""Ours: top directions of the whitened residuals that are tried, both ways; with tastes more, since
the first ones are tastes."""

SHORT_STEPS = 5
"""Ours: steps of EM from every start; the best go on."""

LONG_STEPS = 25
"""Ours: steps of EM for the best starts."""

FINALISTS = 2
"""Ours: starts that go on."""

REDESCENDER = (1.5, 3.0)
"""Ours: answers count fully up to 1.5 deviations from the centre and not at all beyond 3."""

LEANING = 2.0
"""Ours: deviations beyond which an answer on the side of the cell's lean makes its user suspect."""


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """The best accusation, and the gain of the opposite story told from the other tail."""

    accusation: Accusation
    opposite_gain: float


def start_directions(
    data: Data, cell_means: FloatArray, rng: np.random.Generator, *, allows_tastes: bool
) -> list[FloatArray]:
    """Return directions of reward along which a coalition may differ; each shape (n_cells,).

    They are the top eigenvectors of the whitened residuals, the winners, the runners-up, and
    winners against runners-up.
    """
    answers = data.answers
    whitened = np.sqrt(data.worth / data.variances[answers.cells]) * data.residuals
    _, vectors = top_directions(answers, whitened, data.weights, EIGENVECTORS[allows_tastes], rng)
    directions = list((vectors * np.sqrt(data.variances)[:, None]).T)
    ranked = np.argsort(-cell_means.reshape(answers.n_contexts, -1), axis=1)
    winners, runners_up = np.zeros((2, answers.n_contexts, answers.n_actions))
    np.put_along_axis(winners, ranked[:, :1], 1.0, axis=1)
    np.put_along_axis(runners_up, ranked[:, 1:2], 1.0, axis=1)
    return [*directions, winners.ravel(), runners_up.ravel(), (winners - runners_up).ravel()]


def search_coalition(
    data: Data,
    directions: list[FloatArray],
    model: Model,
    *,
    adversarial_fraction: float,
    finalists: int = FINALISTS,
    opposite: bool = True,
) -> Finding:
    """Fit the mixture from many starts and return the best fit.

    Parameters
    ----------
    data
        Answers under the users' present weights.
    directions
        Where to look, both ways.
    model
        What the fits are free to do.
    adversarial_fraction
        α; starts accuse this share of the users.
    finalists
        How many of the short fits go on.
    opposite
        Whether to try the opposite story too: the same mass accused on the other side. It replaces
        the best fit if it gains more.
    """
    short = []
    for guess in _guesses(data, directions, model.cells):
        if (guess > 0).sum() > 3:
            suspects = guess > max(float(np.quantile(guess, 1.0 - adversarial_fraction)), 1e-9)
            short.append(fit_coalition(data, suspects.astype(float), model, SHORT_STEPS))
    short.sort(key=lambda fit: -fit.gain)
    fits = [fit_coalition(data, fit.probabilities, model, LONG_STEPS) for fit in short[:finalists]]
    if not fits:  # nobody is suspect
        return Finding(fit_coalition(data, np.zeros(data.answers.n_users), model, 1), VOID)
    best = max(fits, key=lambda fit: fit.gain)
    if not opposite:
        return Finding(best, VOID)
    other = _from_other_tail(data, best, model)
    if float((other.shifts * best.shifts / data.variances).sum()) >= 0.0:
        return Finding(best, VOID)
    if other.gain > best.gain:
        best, other = other, best
    return Finding(best, other.gain)


def _guesses(data: Data, directions: list[FloatArray], cells: FloatArray) -> list[FloatArray]:
    """Return how suspect each user is, by several measures; kept users only."""
    answers = data.answers
    is_kept = data.weights > 0.5
    guesses = []
    for direction in directions:
        shifts = direction * cells
        slope = shifts / data.variances
        score, strength = scores(
            answers.indptr,
            answers.cells,
            data.worth,
            data.residuals,
            np.zeros(answers.n_cells),
            slope,
            slope * shifts,
        )
        z = np.where(is_kept & (strength > 0), score / np.sqrt(np.maximum(strength, 1e-12)), 0.0)
        guesses += [z, -z]
    guesses.append(_leaning(data) * is_kept)
    return guesses


def _leaning(data: Data) -> FloatArray:
    """Return how far users answer out on the side to which their cells' means lean."""
    answers = data.answers
    centres = redescending_means(
        answers.order,
        answers.starts,
        answers.users,
        data.worth,
        data.residuals,
        data.weights,
        data.variances,
        *REDESCENDER,
    )
    _, mass, total, _ = data.sums
    lean = np.sign(total / np.maximum(mass, 1e-9) - centres)[answers.cells]
    z = (data.residuals - centres[answers.cells]) * np.sqrt(
        data.worth / data.variances[answers.cells]
    )
    beyond = np.maximum(lean * z - LEANING, 0.0) ** 2
    total_beyond: FloatArray = np.bincount(answers.users, beyond, answers.n_users).astype(float)
    return total_beyond


def _from_other_tail(data: Data, best: Accusation, model: Model) -> Accusation:
    """Fit again with as many users accused from the side that was believed."""
    has_say = (data.weights > 0.5) & (best.strengths > 0)
    z = np.where(has_say, -best.scores / np.sqrt(np.maximum(best.strengths, 1e-9)), -np.inf)
    share = min(max(best.mass, 0.01), 0.45)
    cut = max(float(np.quantile(z, 1.0 - share, method="lower")), 1e-9)
    return fit_coalition(data, (z > cut).astype(float), model, LONG_STEPS)
