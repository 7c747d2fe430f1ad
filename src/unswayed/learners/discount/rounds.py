"""Round after round: accuse the likeliest coalition, test the accusation, discount it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import special

from unswayed.learners.discount.answers import Answers, sampled_users
from unswayed.learners.discount.line_kernels import line_scores
from unswayed.learners.discount.mixture import (
    MASS_MARGIN,
    Accusation,
    Data,
    Model,
    fit_coalitions,
    fit_data,
)
from unswayed.learners.discount.noise import Noise, measure_noise, worth_of
from unswayed.learners.discount.nulls import Nulls
from unswayed.learners.discount.search import Finding, search_coalitions, start_directions
from unswayed.learners.discount.weighing import best_actions, mirror_weights, pooled_means, stake
from unswayed.learners.interface import FloatArray, IntArray

ROUNDS = 5
"""Ours: coalitions that are looked for, one after another."""

SHRINKAGES = (1.0, 3.0)
"""Ours: a coalition that lies a little everywhere, and one that lies in a few cells."""

RIVAL_SHRINKAGES = (1.0, 2.5)
"""Ours: the same among the rivals for the decision only."""

RIVALS = 3
"""Ours: actions per context that compete for the decision; a coalition must move one of them."""

CLEAR_GAIN = 5.0
"""Ours: nats by which an accusation must beat what chance gives."""

NULL_MARGIN = {False: 1.15, True: 2.0}
"""Ours: factor on the null's gain, without and with tastes. Skew in tastes gains little but surely;
coalitions in the development worlds gained ten times their nulls and more."""

CLEAR_ORIENTATION = 10.0
"""Ours: nats by which a story must beat the opposite one, told from the other tail. Else colluders
who replay favourable honest histories frame the honest tail."""

GAIN_PER_ACCUSED = 0.55
"""Ours: with tastes, nats per accused user. The tail of an exponential taste reaches about .5,
coalitions that changed decisions in the development worlds .6 and more."""

LEAST_STAKE = {False: 0.005, True: 0.02}
"""Ours: standard deviations of a reward that must be at stake per decision, without and with
tastes; else nobody is touched, and an honest minority keeps its say."""

LARGEST_REMOVAL = (1.6, 0.04)
"""Ours: weight that may go in all: 1.6 times the stated share, plus .04."""

REFIT_STEPS = 4
"""Ours: steps of EM on all users after a search on some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round found, in plain numbers.

    Attributes
    ----------
    allows_tastes, shrinkage, rivals_only
        The model that found the most.
    taste_share
        Between-user share of the variance.
    gain, null_gain, opposite_gain
        Evidence for a coalition, what the nulls reached (NaN if an earlier test failed), and the
        evidence for the opposite story.
    accused, removed
        Share of users accused with more than even odds; weight gone if believed.
    stake
        Reward per decision at stake.
    verdict
        "discounted", or the test that failed.
    """

    allows_tastes: bool
    shrinkage: float
    rivals_only: bool
    taste_share: float
    gain: float
    null_gain: float
    opposite_gain: float
    accused: float
    removed: float
    stake: float
    verdict: str

    def told(self) -> dict[str, Any]:
        """Return the round as JSON can hold it."""
        values = asdict(self)
        return {
            k: (None if isinstance(v, float) and not np.isfinite(v) else v)
            for k, v in values.items()
        }


@dataclass(frozen=True, slots=True, eq=False)
class Discounted:
    """Weights after all rounds, what was accused, and the story of the rounds."""

    weights: FloatArray
    accusations: list[Accusation]
    rounds: list[Round]


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    model: Model
    rivals_only: bool
    finding: Finding
    discount: FloatArray
    removed: float
    stake: float
    verdict: str
    margin: float


def discount_coalitions(
    answers: Answers,
    *,
    adversarial_fraction: float,
    allows_tastes: bool,
    rng: np.random.Generator,
) -> Discounted:
    """Find coalitions one after another and discount their users.

    Parameters
    ----------
    answers
        Users' answers.
    adversarial_fraction
        α.
    allows_tastes
        Whether good users may differ. If not, answers that go together across cells are evidence,
        and the null is one population with the same cells. If so, only one-sidedness is, and the
        null is the same users mirrored at random; weights then come from the mirror image too.
    rng
        Nulls and samples are drawn from it.
    """
    weights = np.ones(answers.n_users)
    sample, chosen = sampled_users(answers, rng)
    believed: list[Accusation] = []
    story: list[Round] = []
    for _ in range(ROUNDS):
        noise = measure_noise(sample, weights[chosen])
        data = fit_data(sample, noise, weights[chosen], np.float32)
        starts = start_directions(data, noise.means, rng, allows_tastes=allows_tastes)
        standing = best_actions(pooled_means(sample, weights[chosen]))
        models = _models(sample, noise, adversarial_fraction, allows_tastes)
        findings = search_coalitions(
            data, starts, [model for model, _ in models], adversarial_fraction=adversarial_fraction
        )
        candidates = [
            _candidate(data, finding, standing, model, rivals, adversarial_fraction)
            for finding, (model, rivals) in zip(findings, models, strict=True)
        ]
        candidates.sort(key=lambda candidate: (candidate.verdict != "", -candidate.margin))
        nulls = Nulls(data, noise, starts, adversarial_fraction, rng)
        for candidate in candidates:
            null_gain, verdict = float("nan"), candidate.verdict
            if verdict == "":
                null_gain = nulls.gain(candidate.model)
                beaten = NULL_MARGIN[allows_tastes] * max(null_gain, 0.0) + CLEAR_GAIN
                is_clear = candidate.finding.accusation.gain > beaten
                verdict = "discounted" if is_clear else "within chance"
            if verdict != "within chance":
                break
        story.append(_round(candidate, noise.taste_share, null_gain, verdict))
        if verdict != "discounted":
            break
        found, discount = candidate.finding.accusation, candidate.discount
        if sample is not answers:
            found = _for_everybody(answers, weights, found, noise, candidate.model)
            discount = _discount(found, weights, candidate.model)
        weights = weights * discount
        believed.append(found)
    return Discounted(weights, believed, story)


def _models(
    answers: Answers, noise: Noise, adversarial_fraction: float, allows_tastes: bool
) -> list[tuple[Model, bool]]:
    everywhere = np.ones(answers.n_cells)
    rivals = np.zeros((answers.n_contexts, answers.n_actions))
    ranked = np.argsort(-noise.means.reshape(rivals.shape), axis=1)
    np.put_along_axis(rivals, ranked[:, :RIVALS], 1.0, axis=1)
    choices = [(c, everywhere, False) for c in SHRINKAGES]
    if answers.n_actions > RIVALS + 1:
        choices += [(c, rivals.ravel(), True) for c in RIVAL_SHRINKAGES]
    return [
        (
            Model(
                largest_mass=MASS_MARGIN * adversarial_fraction,
                shrinkage=c,
                allows_tastes=allows_tastes,
                cells=cells,
            ),
            is_rivals,
        )
        for c, cells, is_rivals in choices
    ]


def _candidate(
    data: Data,
    finding: Finding,
    standing: IntArray,
    model: Model,
    rivals_only: bool,
    adversarial_fraction: float,
) -> _Candidate:
    """Apply the tests that need no null to what one model found."""
    found = finding.accusation
    discount = _discount(found, data.weights, model)
    removed = 1.0 - float((data.weights * discount).mean())
    at_stake = stake(data.answers, standing, data.weights * discount)
    accused = float((data.weights * (found.probabilities > 0.5)).sum())
    margin = found.gain - max(CLEAR_GAIN, finding.opposite_gain + CLEAR_ORIENTATION)
    factor, spare = LARGEST_REMOVAL
    typical_deviation = float(np.median(data.deviations))
    if at_stake < LEAST_STAKE[model.allows_tastes] * typical_deviation:
        verdict = "nothing at stake"
    elif removed > factor * adversarial_fraction + spare:
        verdict = "too many accused"
    elif margin <= 0:
        verdict = "either side could be the coalition"
    elif model.allows_tastes and found.gain < GAIN_PER_ACCUSED * accused:
        verdict = "like the tail of a taste"
    else:
        verdict = ""
    return _Candidate(
        model,
        rivals_only,
        finding,
        discount,
        removed,
        at_stake,
        verdict,
        margin,
    )


def _discount(found: Accusation, weights: FloatArray, model: Model) -> FloatArray:
    """Return the factors on users' weights if an accusation is believed; shape (n_users,)."""
    if model.allows_tastes:
        return mirror_weights(found, weights)
    factors: FloatArray = 1.0 - found.probabilities
    return factors


def _for_everybody(
    answers: Answers, weights: FloatArray, found: Accusation, noise: Noise, model: Model
) -> Accusation:
    """Return the accusation fitted to all users, started from the one of the sample."""
    everybody = replace(noise, worth=worth_of(answers, noise.taste_share))
    data = fit_data(answers, everybody, weights, np.float64)
    s, d = line_scores(
        answers.indptr,
        answers.cells,
        data.worth,
        data.residuals,
        weights,
        found.means[:, None],
        found.shifts[:, None],
    )
    prior = np.clip(found.mass, 1e-9, 0.5)
    log_odds = np.log(prior / (1.0 - prior)) + (s - 0.5 * d) / (1.0 + found.taste * d)
    return fit_coalitions(data, special.expit(log_odds), [model], REFIT_STEPS)[0]


def _round(candidate: _Candidate, taste_share: float, null_gain: float, verdict: str) -> Round:
    found = candidate.finding.accusation
    return Round(
        allows_tastes=candidate.model.allows_tastes,
        shrinkage=candidate.model.shrinkage,
        rivals_only=candidate.rivals_only,
        taste_share=taste_share,
        gain=found.gain,
        null_gain=null_gain,
        opposite_gain=candidate.finding.opposite_gain,
        accused=float((found.probabilities > 0.5).mean()),
        removed=candidate.removed,
        stake=candidate.stake,
        verdict=verdict,
    )
