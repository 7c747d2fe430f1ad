"""Round after round: accuse the likeliest coalition, test the accusation, discount it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.learners.discount.one_mean.mixture import Accusation, Model, fit_coalitions
from unswayed.learners.discount.one_mean.search import (
    Finding,
    Null,
    rival_cells,
    search_coalitions,
    search_with_more_room,
    start_directions,
)
from unswayed.learners.discount.responses.kernels import RealArray
from unswayed.learners.discount.responses.noise import Noise, measure_noise
from unswayed.learners.discount.responses.residuals import (
    Residuals,
    blocked_residuals,
    residuals_of,
)
from unswayed.learners.discount.responses.responses import BlockedResponses, Responses, Sample
from unswayed.learners.discount.settings import (
    CLEAR_ALIGNMENT,
    FULL,
    LARGEST_ROOM,
    MASS_MARGIN,
    MEAN,
    RIVALS,
    ROOM,
    SAMPLE_ENTRIES,
)
from unswayed.learners.discount.trial.aims import (
    alignment,
    pooled_means,
    stake,
)
from unswayed.learners.discount.trial.verdicts import (
    Discounted,
    Round,
    Verdict,
    held_to_aim,
)
from unswayed.policy import best_known

SPARSE = 100.0
"""Ours: with fewer responses per cell than this in a sample, a search in all contexts found nothing
in any log that was tried, however loud the lies outside of the frequent contexts."""

SHRINKAGES = (1.0, 3.0)
"""Ours: a coalition that lies a little everywhere, and one that lies in a few cells."""

RIVAL_SHRINKAGES = (1.0, 2.5)
"""Ours: the same among the rivals for the decision only."""

CLOSE, CLOSE_NULLS = (2.0, 50.0), 3
"""Ours: a gain below twice what is needed and 50 nats is a close call, and held against three nulls
more. Gains where there is no coalition scatter by up to a third, or by tens of nats."""

LARGEST_REMOVAL = (1.6, 0.04)
"""Ours: weight that may go in all: 1.6 times the stated share, plus .04, for doubt takes a little
from many. Users who lose more than half of theirs are at most ``MASS_MARGIN`` times the share."""

REFIT_STEPS = 4
"""Ours: steps of EM on all users after a search on some."""


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """What one model found; without a verdict if it must be held against a null."""

    model: Model
    finding: Finding
    removed: float
    stake: float
    alignment: float
    verdict: Verdict | None
    margin: float


class _Found(NamedTuple):
    """The accusation that decides a round, and what refits it to all users."""

    round: Round
    accusation: Accusation
    noise: Noise
    model: Model


def discount_coalitions(
    responses: BlockedResponses,
    weights: FloatArray,
    *,
    adversarial_fraction: float,
    rng: np.random.Generator,
) -> tuple[Discounted, list[Accusation]]:
    """Find coalitions one after another and discount their users, if good users share one mean.

    Then responses that go together across cells are evidence, and the null is one population with
    the same cells.

    Parameters
    ----------
    responses
        All users' responses.
    weights
        Shape (n_users,); what was left of them before.
    adversarial_fraction
        α.
    rng
        Nulls and samples are drawn from it.

    Returns
    -------
    What was discounted, and the accusations that were believed.
    """
    believed: list[Accusation] = []
    rounds: list[Round] = []
    for sample in _samples(responses, rng):
        for _ in range(MEAN.rounds):
            (own,) = rng.spawn(1)
            found = _search(sample, weights, adversarial_fraction, not believed, own)
            rounds.append(found.round)
            if not found.round.is_accepted:
                break
            accusation = found.accusation
            if not sample.is_everything:
                start = _posteriors(responses, weights, found, sample.contexts)
                accusation = _refitted(responses, weights, found, start)
            believed.append(accusation)
            weights = weights * (1.0 - accusation.probabilities)
    return Discounted(weights, False, rounds), believed


def _samples(responses: BlockedResponses, rng: np.random.Generator) -> Iterator[Sample]:
    """Yield what is searched: contexts where responses are dense, if not all are; then all of them.

    Weaker coalitions show in dense contexts. Those that know it and lie elsewhere meet the second
    sample, unless that has too few responses per cell to show anything.
    """
    dense = responses.dense_contexts(SAMPLE_ENTRIES)
    if not dense.all():
        yield responses.sampled(rng, SAMPLE_ENTRIES, dense)
        if min(responses.n_entries, SAMPLE_ENTRIES) < SPARSE * responses.n_cells:
            return
    yield responses.sampled(rng, SAMPLE_ENTRIES)


def _search(
    sample: Sample,
    weights: FloatArray,
    adversarial_fraction: float,
    is_first: bool,
    rng: np.random.Generator,
) -> _Found:
    """Search a sample once, given the weights of all users."""
    responses, weights = sample.responses, weights[sample.users]
    noise = measure_noise(responses, weights)
    data = residuals_of(responses, weights, noise, np.float32)
    starts = start_directions(data, noise.means, rng)
    standing = best_known(pooled_means(responses, weights))
    models = _models(data, noise, adversarial_fraction)
    findings = search_coalitions(data, starts, models, adversarial_fraction=adversarial_fraction)
    candidates = [
        _candidate(data, noise, finding, standing, model, adversarial_fraction)
        for finding, model in zip(findings, models, strict=True)
    ]
    if is_first:
        candidates += _with_more_room(data, noise, candidates, standing, adversarial_fraction)
    candidates.sort(key=lambda candidate: (candidate.verdict is not None, -candidate.margin))
    best, null_gain = _judged(candidates, Null(data, noise, adversarial_fraction, rng))
    accusation = best.finding.accusation
    judged = _round(best, noise.taste_share, null_gain, sample.contexts, weights)
    judged = held_to_aim(judged, responses, weights, accusation.probabilities, rng)
    return _Found(judged, accusation, noise, best.model)


def _judged(candidates: list[_Candidate], null: Null) -> tuple[_Candidate, float]:
    """Return the candidate that decides the round with its verdict, and what its null gained.

    Candidates without a verdict come first. The first that is not within chance decides, else the
    last. One null is searched by itself, for it mostly decides; those of all others side by side.
    """
    untested = [candidate for candidate in candidates if candidate.verdict is None]
    gains: list[float] = []
    for place, candidate in enumerate(candidates):
        null_gain, verdict = float("nan"), candidate.verdict
        if verdict is None:
            if place == len(gains):
                wanted = untested[place:] if gains else untested[:1]
                gains += null.gains([other.model for other in wanted])
            null_gain, is_clear = _held_against_chance(candidate, gains[place], null)
            verdict = Verdict.DISCOUNTED if is_clear else Verdict.WITHIN_CHANCE
        if verdict != Verdict.WITHIN_CHANCE:
            break
    return replace(candidate, verdict=verdict), null_gain


def _held_against_chance(candidate: _Candidate, null_gain: float, null: Null) -> tuple[float, bool]:
    """Return the largest gain of the nulls, and whether the candidate clearly beats it.

    A close call is held against more of them, and must be as far beyond them as they are from each
    other.
    """
    gain, nulls = candidate.finding.accusation.gain, [null_gain]
    while True:
        largest, scatter = max(nulls), max(nulls) - min(nulls)
        needed = max(MEAN.needed(largest), largest + scatter)
        is_close = needed < gain < CLOSE[0] * needed + CLOSE[1]
        if not is_close or len(nulls) > CLOSE_NULLS:
            return largest, gain > needed
        nulls += null.fresh().gains([candidate.model])


def _models(data: Residuals, noise: Noise, adversarial_fraction: float) -> list[Model]:
    everywhere, largest = np.ones(data.responses.n_cells), MASS_MARGIN * adversarial_fraction
    models = [Model(largest_mass=largest, shrinkage=c, cells=everywhere) for c in SHRINKAGES]
    if data.responses.n_actions > RIVALS + 1:
        rivals = rival_cells(data.responses, noise.means)
        models += [
            Model(largest_mass=largest, shrinkage=c, cells=rivals, rivals_only=True)
            for c in RIVAL_SHRINKAGES
        ]
    return models


def _with_more_room(
    data: Residuals,
    noise: Noise,
    candidates: list[_Candidate],
    standing: IntArray,
    adversarial_fraction: float,
) -> list[_Candidate]:
    """Return candidates that accuse more users than stated, where the statement was the limit."""
    room = min(LARGEST_ROOM, ROOM * adversarial_fraction)
    tight = [c for c in candidates if c.finding.accusation.mass > FULL * c.model.largest_mass]
    if not tight or room <= MASS_MARGIN * adversarial_fraction:
        return []
    models = [replace(candidate.model, largest_mass=room) for candidate in tight]
    findings = search_with_more_room(data, [c.finding for c in tight], models)
    return [
        _candidate(data, noise, finding, standing, model, adversarial_fraction)
        for finding, model in zip(findings, models, strict=True)
    ]


def _candidate(
    data: Residuals,
    noise: Noise,
    finding: Finding,
    standing: IntArray,
    model: Model,
    adversarial_fraction: float,
) -> _Candidate:
    """Apply the tests that need no null to what one model found."""
    found = finding.accusation
    after = data.weights * (1.0 - found.probabilities)
    removed = 1.0 - float(after.mean())
    at_stake = stake(data.responses, standing, after)
    margin = found.gain - MEAN.clear_gain
    factor, spare = LARGEST_REMOVAL
    has_room = model.largest_mass > MASS_MARGIN * adversarial_fraction
    aligned = float("nan")
    if at_stake > 0.0 and margin > 0:
        aligned = alignment(
            data.responses,
            noise,
            data.weights,
            found.probabilities,
            standing=standing,
            proposed=best_known(pooled_means(data.responses, after)),
        )
    is_aimed = aligned > CLEAR_ALIGNMENT
    is_too_many = (
        has_room
        or removed > factor * adversarial_fraction + spare
        or float((after < 0.5).mean()) > MASS_MARGIN * adversarial_fraction
    )
    verdict: Verdict | None
    if is_too_many and not (has_room and is_aimed):
        verdict = Verdict.TOO_MANY
    elif margin <= 0:
        verdict = Verdict.WITHIN_CHANCE
    else:
        verdict = None
    return _Candidate(model, finding, removed, at_stake, aligned, verdict, margin)


def _posteriors(
    responses: BlockedResponses, weights: FloatArray, found: _Found, contexts: BoolArray
) -> FloatArray:
    """Return every user's probability to belong to a coalition that was fitted to a sample."""
    fit = found.accusation
    line = (fit.means[:, None], fit.shifts[:, None])
    ratios = responses.blocks.map_rows(_log_ratios, found.noise, contexts, *line, rows=weights)
    prior = np.clip(fit.mass, 1e-9, 0.5)
    probabilities: FloatArray = special.expit(special.logit(prior) + ratios)
    return probabilities


def _refitted(
    responses: BlockedResponses, weights: FloatArray, found: _Found, start: FloatArray
) -> Accusation:
    """Return the accusation of a sample, fitted to all responses of all users by EM."""
    measured = measure_noise(responses, weights, found.noise.taste_share)
    rows = blocked_residuals(responses, measured, weights)
    model = found.model.among(rival_cells(responses, measured.means))
    return fit_coalitions(rows, start[:, None], [model], REFIT_STEPS)[0]


def _log_ratios(
    responses: Responses,
    weights: FloatArray,
    noise: Noise,
    contexts: BoolArray,
    means: RealArray,
    shifts: RealArray,
) -> FloatArray:
    """Return s − D²/2 of the users of a block, by their responses in some contexts."""
    read = residuals_of(responses.in_contexts(contexts), weights, noise, shifts.dtype.type)
    scores, strengths = read.line_scores(means, shifts)
    ratios: FloatArray = (scores - 0.5 * strengths)[:, 0].astype(np.float64)
    return ratios


def _round(
    candidate: _Candidate,
    taste_share: float,
    null_gain: float,
    contexts: BoolArray,
    weights: FloatArray,
) -> Round:
    assert candidate.verdict is not None
    found = candidate.finding.accusation
    where = "among rivals" if candidate.model.rivals_only else "everywhere"
    if not contexts.all():
        where += f" in the {int(contexts.sum()):,} most frequent contexts"
    return Round(
        stage="mean",
        model=f"shifts {where}, shrinkage {candidate.model.shrinkage:g}",
        taste_share=taste_share,
        gain=found.gain,
        null_gain=null_gain,
        opposite_gain=candidate.finding.opposite_gain,
        alignment=candidate.alignment,
        accused=float((weights * (found.probabilities > 0.5)).mean()),
        removed=candidate.removed,
        stake=candidate.stake,
        verdict=candidate.verdict,
    )
