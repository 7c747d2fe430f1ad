"""Build wild logs from specs, with or without colluders."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unswayed.arrays import BoolArray, FloatArray, IntArray
from unswayed.randomness import generator
from worlds.wild.people import Crowd, make_crowd
from worlds.wild.rewards import lie
from worlds.wild.specs import ATTACKS, WildSpec
from worlds.wild.traffic import make_visitors, play
from worlds.world import NOBODY, World

N_FACTIONS = 3
FEW_CONTEXTS = 0.12
"""Share of the contexts that attacks on few contexts choose, but at least two."""
DELAYED = 0.25
"""Share of each user's events, always the last, whose rewards have not arrived."""


@dataclass(frozen=True, slots=True, eq=False)
class Plot:
    """Aims of the colluders of a log.

    Attributes
    ----------
    raised
        Shape (n_factions, n_contexts); the item that each faction raises, -1 for none.
    sunk
        Shape (n_contexts,); the item that is sunk, if any.
    is_attacked
        Shape (n_contexts,).
    """

    raised: IntArray
    sunk: IntArray
    is_attacked: BoolArray


def build_wild(spec: WildSpec) -> World:
    """Simulate a log; the same spec gives the same log."""
    rng = generator(spec.seed, "wild log", spec.part, spec.name)
    crowd = make_crowd(spec, rng)
    visitors = make_visitors(spec, rng, crowd.activity)
    users, contexts = visitors.visit(rng)
    honest_users, visits = visitors.honest_visits()
    true_means = crowd.true_means(visits, honest_users)
    plot = make_plot(spec, rng, true_means)

    def respond(users: IntArray, contexts: IntArray, actions: IntArray) -> FloatArray:
        rewards = crowd.draw(rng, users, contexts, actions)
        at = np.flatnonzero(visitors.is_bad[users])
        if at.size:
            rewards[at] = lies(
                spec, rng, crowd, plot, users[at], contexts[at], actions[at], rewards[at]
            )
        return rewards

    actions, rewards, propensities = play(spec, rng, users, contexts, true_means, respond)
    if "delayed" in spec.traits:
        rewards[is_late(users, spec.n_users) & ~visitors.is_bad[users]] = 0.0
    return World(
        users=users,
        contexts=contexts,
        actions=actions,
        rewards=rewards,
        propensities=propensities,
        true_means=true_means,
        context_probabilities=visits.sum(axis=0) / visits.sum(),
        is_bad=visitors.is_bad,
        targets=plot.raised[0],
        second_targets=plot.raised[-1],
        alpha=spec.alpha,
    )


def make_plot(spec: WildSpec, rng: np.random.Generator, true_means: FloatArray) -> Plot:
    """Draw the aims of colluders; promoted items are of the worse half on average."""
    S, A = true_means.shape
    raised = np.full((N_FACTIONS, S), NOBODY)
    ranked = np.argsort(true_means, axis=1, kind="stable")
    sunk = ranked[:, -1].copy()
    is_attacked = np.ones(S, dtype=np.bool_)
    if spec.attack is None:
        return Plot(raised, sunk, is_attacked)
    attack = ATTACKS[spec.attack]
    places = np.argsort(ranked, axis=1).mean(axis=0)
    worse = np.argsort(places, kind="stable")[: max(1, A // 2)]
    if attack.aim == "item":
        raised[:] = rng.choice(worse)
    elif attack.aim == "factions":
        raised[:] = np.resize(rng.permutation(worse), (N_FACTIONS, 1))
    elif attack.aim == "each":
        place = rng.integers(max(1, A // 2), size=S)
        raised[:] = ranked[np.arange(S), place]
    elif attack.aim == "runner-up":
        raised[:] = ranked[:, -2]
    elif attack.aim == "bomb":
        sunk[:] = np.bincount(sunk, minlength=A).argmax()
    if attack.where == "few":
        n_attacked = min(S, max(2, round(FEW_CONTEXTS * S)))
        is_attacked = rng.permutation(np.arange(S) < n_attacked)
    return Plot(raised, sunk, is_attacked)


def lies(
    spec: WildSpec,
    rng: np.random.Generator,
    crowd: Crowd,
    plot: Plot,
    users: IntArray,
    contexts: IntArray,
    actions: IntArray,
    honest: FloatArray,
) -> FloatArray:
    """Return colluders' rewards; ``honest`` are honest rewards of the same events."""
    assert spec.attack is not None
    attack, n = ATTACKS[spec.attack], len(users)
    if attack.aim == "noise":
        is_up = rng.random(n) < 0.5
        is_down = ~is_up
    else:
        is_there = plot.is_attacked[contexts]
        is_raised = actions == plot.raised[users % N_FACTIONS, contexts]
        is_sunk = (actions == plot.sunk[contexts]) & ~is_raised
        is_up = is_raised & is_there & (rng.random(n) < spec.up)
        is_down = is_sunk & is_there & (rng.random(n) < spec.down)
        if attack.is_loud:
            is_down |= ~is_raised
    reported = honest.copy()
    for family, at in crowd.by_family(contexts):
        for is_lie, up in ((is_up, True), (is_down, False)):
            some = at[is_lie[at]]
            centre = crowd.centre[contexts[some]]
            amounts = crowd.amounts[contexts[some], actions[some]]
            reported[some] = lie(family, rng, centre, amounts, is_up=up, strength=attack.strength)
    return reported


def is_late(users: IntArray, n_users: int) -> BoolArray:
    """Return which events are among the last of their users."""
    order = np.argsort(users, kind="stable")
    counts = np.bincount(users, minlength=n_users)
    starts = np.cumsum(counts) - counts
    places = np.empty(len(users))
    places[order] = np.arange(len(users)) - starts[users[order]]
    return np.asarray(places >= (1 - DELAYED) * counts[users])
