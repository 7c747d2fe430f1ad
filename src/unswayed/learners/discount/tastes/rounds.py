"""Round after round among users with tastes: split, test, discount."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from unswayed.arrays import FloatArray
from unswayed.learners.discount.responses.noise import Noise, measure_noise
from unswayed.learners.discount.responses.residuals import Residuals, residuals_of
from unswayed.learners.discount.responses.responses import BlockedResponses, Responses
from unswayed.learners.discount.settings import (
    CLEAR_ALIGNMENT,
    FULL,
    LARGEST_ROOM,
    MASS_EXCESS,
    MASS_MARGIN,
    ROOM,
    SAMPLE_ENTRIES,
    TASTES,
)
from unswayed.learners.discount.tastes.populations import (
    LONG_STEPS,
    Populations,
    agreement,
    fit_populations,
    search_populations,
)
from unswayed.learners.discount.tastes.profiles import Profiler, profiler_for, without_coalition
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

LARGEST_REMOVAL = (1.1, 0.02)
"""Ours: after the first coalition, weight that may go in all: 1.1 times the stated share plus .02.
A second one that fits on top is mostly the tail of a taste."""

CLEAR_GAIN_PER_ACCUSED = 1.0
"""Ours: nats beyond the null's per accused user that speak for a coalition without clear
alignment: a hump of its own, or users too alike."""


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate:
    """A split of the users; without a verdict if it must be held against nulls."""

    found: Populations
    is_alike: bool
    alignment: float
    removed: float
    stake: float
    verdict: Verdict | None


def discount_among_tastes(
    responses: BlockedResponses,
    weights: FloatArray,
    *,
    adversarial_fraction: float,
    rng: np.random.Generator,
) -> Discounted:
    """Find coalitions among users who differ, one after another, and discount them.

    Every user is put down to a few numbers: their place along the common directions of taste, and
    what they say beyond it about winners and rivals. A coalition is a second population there.
    Skewed tastes may look like one. The decisions distinguish the two: an accusation
    is believed if it gains clearly more than in crowds with the same tastes and the same responses
    but no coalition, and if the accused favour just the actions that win by them.

    Parameters
    ----------
    responses
        All users' responses.
    weights
        Shape (n_users,); what was left of them before.
    adversarial_fraction
        α.
    rng
        Samples, starts and nulls are drawn from it.
    """
    sample = responses.sampled(rng, SAMPLE_ENTRIES)
    rounds: list[Round] = []
    for _ in range(TASTES.rounds):
        (own,) = rng.spawn(1)
        found = _search(
            sample.responses, weights[sample.users], adversarial_fraction, not rounds, own
        )
        if found is None:
            break
        rounds.append(found.round)
        if not found.round.is_accepted:
            break
        accused = found.split.probabilities
        if not sample.is_everything:
            split = replace(found.split, probabilities=np.empty(0))  # those of the sample
            model = (found.noise, found.profiler, split)
            accused = responses.blocks.map_rows(_accused, *model, rows=weights)
        weights = weights * (1.0 - accused)
    return Discounted(weights, True, rounds)


class _Found(NamedTuple):
    """The split that decides a round, and what applies it to other users' responses."""

    round: Round
    split: Populations
    noise: Noise
    profiler: Profiler


def _search(
    sample: Responses,
    weights: FloatArray,
    adversarial_fraction: float,
    is_first: bool,
    rng: np.random.Generator,
) -> _Found | None:
    """Search a sample once, and return the split that decides; None if there is none at all."""
    noise = measure_noise(sample, weights)
    data = residuals_of(sample, weights, noise, np.float64)
    profiler = profiler_for(data, noise.means, rng)
    candidates = _candidates(
        data, noise, profiler, adversarial_fraction, is_first=is_first, rng=rng
    )
    null_gains = {False: float("nan"), True: float("nan")}
    untested = [candidate for candidate in candidates if candidate.verdict is None]
    if untested:
        null_gains = _null_gains(
            data,
            noise,
            profiler,
            adversarial_fraction,
            is_first=is_first,
            untested=untested,
            rng=rng,
        )
    best, opposite_gain = _judged(candidates, null_gains, float(data.weights.sum()))
    if best is None:
        return None
    judged = _round(best, noise.taste_share, null_gains[best.is_alike], opposite_gain, weights)
    judged = held_to_aim(judged, sample, weights, best.found.probabilities, rng)
    return _Found(judged, best.found, noise, profiler)


def _accused(
    responses: Responses,
    weights: FloatArray,
    noise: Noise,
    profiler: Profiler,
    found: Populations,
) -> FloatArray:
    """Return the probabilities of the users of a block to belong to the coalition."""
    return found.accuse(profiler.of(residuals_of(responses, weights, noise, np.float64)))


def _candidates(
    data: Residuals,
    noise: Noise,
    profiler: Profiler,
    adversarial_fraction: float,
    *,
    is_first: bool,
    rng: np.random.Generator,
) -> list[_Candidate]:
    """Search, and apply the tests that need no null."""
    responses, weights = data.responses, data.weights
    profiles = profiler.of(data)
    fits = search_populations(
        profiles,
        weights,
        n_tastes=profiler.n_tastes,
        adversarial_fraction=adversarial_fraction,
        largest_mass=MASS_MARGIN * adversarial_fraction,
        rng=rng,
    )
    limit = MASS_MARGIN * adversarial_fraction
    fits = _with_more_room(profiles, weights, fits, limit, adversarial_fraction)
    factor, spare = LARGEST_REMOVAL
    largest = factor * adversarial_fraction + spare
    if is_first:
        largest = MASS_EXCESS * min(LARGEST_ROOM, ROOM * adversarial_fraction)
    standing = best_known(pooled_means(responses, weights))
    candidates = []
    for fit in fits:
        after = weights * (1.0 - fit.probabilities)
        proposed = best_known(pooled_means(responses, after))
        at_stake = stake(responses, standing, after)
        removed = 1.0 - float(after.mean())
        aligned = alignment(
            responses, noise, weights, fit.probabilities, standing=standing, proposed=proposed
        )
        verdict = None
        if removed > largest or (fit.mass > MASS_EXCESS * limit and aligned < CLEAR_ALIGNMENT):
            verdict = Verdict.TOO_MANY
        candidates.append(_Candidate(fit, fit.alikeness < 1.0, aligned, removed, at_stake, verdict))
    return candidates


def _with_more_room(
    profiles: FloatArray,
    weights: FloatArray,
    fits: list[Populations],
    limit: float,
    adversarial_fraction: float,
) -> list[Populations]:
    """Return the fits within the limit, and those that ran into it fitted again with more.

    Users who are alike and more than allowed are no coalition but the crowd, seen from wilder ones.
    """
    room = min(LARGEST_ROOM, ROOM * adversarial_fraction)
    within = [
        fit for fit in fits if fit.mass <= (FULL if fit.alikeness < 1.0 else MASS_EXCESS) * limit
    ]
    if room <= limit:
        return within
    return within + [
        fit_populations(
            profiles,
            weights,
            fit.probabilities,
            largest_mass=room,
            may_be_alike=False,
            n_steps=LONG_STEPS,
        )
        for fit in fits
        if fit.mass > FULL * limit and fit.alikeness == 1.0
    ]


def _null_gains(
    data: Residuals,
    noise: Noise,
    profiler: Profiler,
    adversarial_fraction: float,
    *,
    is_first: bool,
    untested: list[_Candidate],
    rng: np.random.Generator,
) -> dict[bool, float]:
    """Return what accusations that pass the first tests gain where there is no coalition.

    No more nulls are drawn than are needed to refuse all candidates.
    """
    gains = {False: 0.0, True: 0.0}
    for _ in range(TASTES.nulls):
        if not any(
            TASTES.is_beyond(candidate.found.gain, gains[candidate.is_alike])
            for candidate in untested
        ):
            break
        drawn = without_coalition(data, profiler.tastes, rng)
        cells = drawn.responses.cells
        means = noise.means[cells] + data.deviations[cells] * drawn.residuals
        drawn = replace(drawn, responses=replace(drawn.responses, means=means))
        for candidate in _candidates(
            drawn, noise, profiler, adversarial_fraction, is_first=is_first, rng=rng
        ):
            if candidate.verdict is None:
                is_alike = candidate.is_alike
                gains[is_alike] = max(gains[is_alike], candidate.found.gain)
    return gains


def _judged(
    candidates: list[_Candidate], null_gains: dict[bool, float], total_weight: float
) -> tuple[_Candidate | None, float]:
    """Return the candidate that decides the round with its verdict, and the gain against it."""
    believed: list[_Candidate] = []
    others: list[_Candidate] = []
    for candidate in candidates:
        verdict = candidate.verdict
        if verdict is None:
            null_gain = null_gains[candidate.is_alike]
            beyond = candidate.found.gain - null_gain
            accused = candidate.found.mass * total_weight
            is_clear = candidate.alignment > CLEAR_ALIGNMENT
            if not TASTES.is_beyond(candidate.found.gain, null_gain):
                verdict = Verdict.WITHIN_CHANCE
            elif not is_clear and beyond < CLEAR_GAIN_PER_ACCUSED * accused:
                verdict = Verdict.LIKE_A_TASTE
            else:
                verdict = Verdict.DISCOUNTED
        judged = replace(candidate, verdict=verdict)
        (believed if verdict == Verdict.DISCOUNTED else others).append(judged)
    if not believed:
        closest = max(others, key=lambda candidate: candidate.found.gain, default=None)
        return closest, -np.inf
    best = max(believed, key=lambda candidate: candidate.found.gain)
    contrary = [c.found.gain for c in believed if agreement(c.found, best.found) < -0.05]
    return best, max(contrary, default=-np.inf)


def _round(
    candidate: _Candidate,
    taste_share: float,
    null_gain: float,
    opposite_gain: float,
    weights: FloatArray,
) -> Round:
    assert candidate.verdict is not None
    found = candidate.found
    return Round(
        stage="tastes",
        model=f"profiles, alikeness {found.alikeness:.2f}",
        taste_share=taste_share,
        gain=found.gain,
        null_gain=null_gain,
        opposite_gain=opposite_gain,
        alignment=candidate.alignment,
        accused=float((weights * (found.probabilities > 0.5)).mean()),
        removed=candidate.removed,
        stake=candidate.stake,
        verdict=candidate.verdict,
    )
