"""From a spec to a world, straight to tallies."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from unswayed.randomness import generator
from unswayed.tallies import tally
from worlds.attacks import ATTACKS, BoolArray, Scene
from worlds.replays import play_contexts, pretended, rated_actions, replayed
from worlds.tastes import TASTES, ratings
from worlds.world import FloatArray, IntArray, World

FLOODED_PLAYS = 0.8
HOT_SHARE = 0.1
RATINGS = ("stars", "scale", "likes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """All that makes a world but its seed.

    ``rewards`` is "binary" or "normal" for shared means with ``tastes`` around them, or a kind of
    ratings, where users have nothing but tastes. ``target`` says whom the coalition promotes: the
    runner-up, or any action but the best. ``hot`` says where those lie who lie in few contexts:
    anywhere, or in the most frequent ones. ``source`` names real ratings to replay instead of
    simulated ones; then ``n_users`` is what there is at most.
    """

    name: str
    family: str
    n_users: int
    n_contexts: int
    n_actions: int
    plays: int
    alpha: float
    attack: str
    strength: float = 1.0
    rewards: str = "normal"
    design: Literal["sticky", "uniform", "mixed"] = "sticky"
    gap: float = 0.15
    spread: float = 0.2
    noise: float = 0.3
    zipf: float = 0.0
    tastes: str = "none"
    taste_size: float = 0.0
    has_heavy_users: bool = False
    target: Literal["runner-up", "any"] = "runner-up"
    hot: Literal["any", "frequent"] = "any"
    source: str = ""


def build(spec: Spec, seed: int) -> World:
    """Simulate a world; the same spec and seed give the same world."""
    rng = generator(seed, "worlds", spec.name)
    S, A = spec.n_contexts, spec.n_actions
    nu: FloatArray = np.arange(1, S + 1, dtype=np.float64) ** -spec.zipf
    nu = rng.permutation(nu / nu.sum())
    table, personal = _mean_rewards(spec, rng)
    L = spec.n_users if personal is None else len(personal)
    best = table.argmax(axis=1)
    ranked = np.argsort(-table, axis=1)
    target = ranked[:, 1] if spec.target == "runner-up" else (best + rng.integers(1, A, S)) % A
    is_bad = np.zeros(L, dtype=np.bool_)
    n_bad = 0 if spec.attack == "none" else round(spec.alpha * L)
    is_bad[rng.permutation(L)[:n_bad]] = True
    is_rated = None
    if personal is not None and np.isnan(personal).any():
        is_rated = np.isfinite(personal).reshape(L, S, A)
        pretended(rng, personal, is_bad)

    lengths = np.full(L, spec.plays)
    if spec.has_heavy_users:
        lengths = np.clip(spec.plays * rng.lognormal(-0.5, 1.0, L), 3, 20 * spec.plays).astype(int)
    users = np.repeat(np.arange(L), lengths)
    order = np.arange(len(users)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    if is_rated is None:
        contexts = rng.choice(S, size=len(users), p=nu)
    else:
        own = nu * is_rated.any(axis=2)
        contexts = play_contexts(rng, own, users)
        nu = (own / own.sum(axis=1, keepdims=True))[~is_bad].mean(axis=0)
    order_of_heat = rng.permutation(S) if spec.hot == "any" else np.argsort(-nu, kind="stable")
    hot = order_of_heat[: max(1, round(HOT_SHARE * S))]
    lies = is_bad[users]
    if spec.attack == "flood":
        moved = lies & (rng.random(len(users)) < FLOODED_PLAYS)
        contexts[moved] = rng.choice(hot, size=int(moved.sum()))
    if spec.attack == "lockstep":
        contexts[lies] = rng.choice(S, size=int(lengths.max()), p=nu)[order[lies]]
    actions = _actions(spec, rng, users, contexts, is_rated)

    def answer(means: FloatArray) -> FloatArray:
        if spec.rewards in ("binary", "likes"):
            return (rng.random(means.shape) < means).astype(float)
        if spec.rewards == "normal":
            return means + spec.noise * rng.standard_normal(means.shape)
        return np.asarray(means)

    cells = contexts * A + actions
    rewards = answer(_means_of(table, personal, users, cells))
    if n_bad:
        at = np.flatnonzero(lies)
        scene = Scene(
            rng=rng,
            users=users[at],
            contexts=contexts[at],
            actions=actions[at],
            position=(order / lengths[users])[at],
            honest=rewards[at],
            means=table,
            best=best,
            target=target,
            hot=hot,
            strength=spec.strength,
            answer=answer,
            again=_again(answer, table, personal, users[at], cells[at]),
        )
        told = ATTACKS[spec.attack](scene)
        rewards[at] = np.clip(told, 0, 1) if spec.rewards in RATINGS else told
    truth = table if personal is None else _means_of_good(personal[~is_bad], S, A)
    tallies = tally(users, contexts, actions, rewards, n_users=L, n_contexts=S, n_actions=A)
    return World(tallies, spec.alpha, truth, nu, is_bad)


def _means_of_good(personal: FloatArray, n_contexts: int, n_actions: int) -> FloatArray:
    """Return the mean over good users; what none of them rated is as bad as the worst beside it."""
    means = np.full(personal.shape[1], np.nan)
    is_rated = np.isfinite(personal).any(axis=0)
    means[is_rated] = np.nanmean(personal[:, is_rated], axis=0)
    table = means.reshape(n_contexts, n_actions)
    return np.where(np.isnan(table), np.nanmin(table, axis=1, keepdims=True), table)


def _mean_rewards(spec: Spec, rng: np.random.Generator) -> tuple[FloatArray, FloatArray | None]:
    """Return the common mean rewards, and each user's own if they differ."""
    shape = (spec.n_contexts, spec.n_actions)
    if spec.source:
        personal = replayed(
            rng,
            source=spec.source,
            n_contexts=spec.n_contexts,
            n_actions=spec.n_actions,
            n_users=spec.n_users,
            likes=spec.rewards == "likes",
        )
        return np.nanmean(personal, axis=0).reshape(shape), personal
    if spec.rewards in RATINGS:
        personal = ratings(rng, *shape, spec.n_users, spec.rewards)
        return personal.mean(axis=0).reshape(shape), personal
    table = 0.35 + spec.spread * rng.random(shape)
    best = rng.integers(spec.n_actions, size=spec.n_contexts)
    table[np.arange(spec.n_contexts), best] = table.max(axis=1) + spec.gap
    if spec.tastes == "none":
        return table, None
    personal = table.ravel() + TASTES[spec.tastes](rng, table, spec.n_users, spec.taste_size)
    if spec.rewards == "binary":
        personal = np.clip(personal, 0, 1)
    return table, personal


def _actions(
    spec: Spec,
    rng: np.random.Generator,
    users: IntArray,
    contexts: IntArray,
    is_rated: BoolArray | None,
) -> IntArray:
    share = {"sticky": 1.0, "mixed": 0.5, "uniform": 0.0}[spec.design]
    if is_rated is not None:
        return rated_actions(rng, is_rated, users, contexts, share)
    fixed = rng.integers(spec.n_actions, size=(spec.n_users, spec.n_contexts))[users, contexts]
    fresh = rng.integers(spec.n_actions, size=len(users))
    return np.where(rng.random(len(users)) < share, fixed, fresh)


def _means_of(
    table: FloatArray, personal: FloatArray | None, users: IntArray, cells: IntArray
) -> FloatArray:
    return np.asarray(table.ravel()[cells] if personal is None else personal[users, cells])


def _again(
    answer: Callable[[FloatArray], FloatArray],
    table: FloatArray,
    personal: FloatArray | None,
    users: IntArray,
    cells: IntArray,
) -> Callable[[], FloatArray]:
    return lambda: answer(_means_of(table, personal, users, cells))
