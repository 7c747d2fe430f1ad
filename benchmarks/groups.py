"""Groups of taste: `learn --groups` against clusters of bandits (RCLUB-style).

    python benchmarks/groups.py --seed 0

Good users form two groups that agree nowhere; colluders push one action, or stand on a ladder from
one group to that action. Compared is the loss per play of the last decisions, over good users: of
the common policy, of the policies of groups, and of the clusters. Groups learn from plays that were
drawn evenly, clusters choose their own; both see as many.
"""

from __future__ import annotations

import argparse

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.events import Labels
from unswayed.learners.baselines import RclubStyle
from unswayed.learners.design import uniform_design
from unswayed.learners.interface import Setting
from unswayed.learners.learning import learn_policy
from unswayed.learners.methods import DEFAULT_METHOD
from unswayed.learners.tastes import find_groups, group_decisions
from unswayed.randomness import generator
from unswayed.tallies import tally

USERS, CONTEXTS, ACTIONS, PLAYS = 1500, 6, 4, 240
GAP, NOISE, MEAN = 0.3, 0.5, 0.3
SHARES = (0.6, 0.4)
PUSHED = ACTIONS - 1
"""The best action of nobody."""
TOP = 3.0
"""How far the top of a ladder shifts both actions; then a fifth of the users outweighs the gap."""
ALPHAS = (0.0, 0.1, 0.2)


def means_of(rng: np.random.Generator, alpha: float, *, is_ladder: bool) -> tuple[FloatArray, int]:
    """Return the mean rewards of every user, shape (users, contexts, actions); good ones last."""
    n_bad = round(alpha * USERS)
    groups = rng.choice(len(SHARES), size=USERS, p=SHARES)
    best = (np.arange(CONTEXTS)[None, :] + groups[:, None]) % PUSHED
    means = np.full((USERS, CONTEXTS, ACTIONS), MEAN)
    np.put_along_axis(means, best[:, :, None], MEAN + GAP, axis=2)
    if is_ladder:
        heights = TOP * np.minimum((1.0 + np.arange(n_bad)) / (1.0 + n_bad // 2), 1.0)
        lowered = np.take_along_axis(means[:n_bad], best[:n_bad, :, None], axis=2)
        np.put_along_axis(
            means[:n_bad], best[:n_bad, :, None], lowered - heights[:, None, None], axis=2
        )
        means[:n_bad, :, PUSHED] += heights[:, None]
    else:
        means[:n_bad] = np.arange(ACTIONS) == PUSHED
    return means, n_bad


def loss(means: FloatArray, actions: IntArray) -> float:
    """Return what users lose per play by these actions, shape (users, contexts)."""
    played = np.take_along_axis(means, actions[:, :, None], axis=2)[:, :, 0]
    return float((means.max(axis=2) - played).mean())


def by_groups(
    means: FloatArray, n_bad: int, alpha: float, rng: np.random.Generator
) -> tuple[float, float, list[int]]:
    """Return the losses of the common policy and of groups, and the sizes of groups."""
    users = np.repeat(np.arange(USERS), PLAYS)
    contexts, actions = (rng.integers(n, size=len(users)) for n in (CONTEXTS, ACTIONS))
    noise = NOISE * rng.standard_normal(len(users)) * (users >= n_bad)
    tallies = tally(
        users,
        contexts,
        actions,
        means[users, contexts, actions] + noise,
        n_users=USERS,
        n_contexts=CONTEXTS,
        n_actions=ACTIONS,
    ).labelled(*map(Labels.numbered, (USERS, CONTEXTS, ACTIONS)))
    policy = learn_policy(
        tallies,
        uniform_design(tallies),
        alpha=alpha,
        method=DEFAULT_METHOD,
        certify="none",
    ).policy
    groups = find_groups(tallies, policy, alpha=alpha, n_groups="auto")
    own = group_decisions(groups, tallies, policy, Labels.numbered(USERS), design="uniform")
    common = np.broadcast_to(policy.actions, (USERS, CONTEXTS))
    table = common.copy()
    for number, changed in enumerate(own.actions):
        members = np.flatnonzero(groups.members == number)
        table[members] = np.where(changed >= 0, changed, policy.actions)
    good = slice(n_bad, None)
    return loss(means[good], common[good]), loss(means[good], table[good]), groups.sizes.tolist()


def by_clusters(means: FloatArray, n_bad: int, alpha: float, rng: np.random.Generator) -> float:
    """Return the loss of the clusters' decisions after as many plays."""
    learner = RclubStyle(
        Setting(
            n_users=USERS,
            n_contexts=CONTEXTS,
            n_actions=ACTIONS,
            interactions_per_user=PLAYS,
            alpha=alpha,
            rng=rng,
        )
    )
    users = np.arange(USERS)
    for _ in range(PLAYS):
        contexts = rng.integers(CONTEXTS, size=USERS)
        noise = NOISE * rng.standard_normal((USERS, ACTIONS)) * (users >= n_bad)[:, None]
        learner.play(users, contexts, means[users, contexts] + noise)
    tables = {
        cluster: learner.action_probabilities(np.flatnonzero(learner.cluster_of == cluster))
        for cluster in np.unique(learner.cluster_of[n_bad:])
    }
    actions = np.array([tables[cluster].argmax(axis=1) for cluster in learner.cluster_of])
    return loss(means[n_bad:], actions[n_bad:])


def main() -> None:
    """Run every share of colluders with both lies and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    seed = parser.parse_args().seed
    print("colluders       common   groups   RCLUB-style   sizes of groups")
    for alpha in ALPHAS:
        for is_ladder in (False, True) if alpha else (False,):
            means, n_bad = means_of(generator(seed, "groups", "world"), alpha, is_ladder=is_ladder)
            common, ours, sizes = by_groups(
                means, n_bad, alpha, generator(seed, "groups", "log", int(100 * alpha))
            )
            clusters = by_clusters(
                means, n_bad, alpha, generator(seed, "groups", "arena", int(100 * alpha))
            )
            lie = "none" if not alpha else ("ladder" if is_ladder else "push")
            print(f"{alpha:4.0%} {lie:8s} {common:8.4f} {ours:8.4f} {clusters:13.4f}   {sizes}")


if __name__ == "__main__":
    main()
