"""Groups of taste user by user and cell by cell, straight from their descriptions."""

import math

import numpy as np

from unswayed.estimators import mean_intervals
from unswayed.learners.personal import residuals_of
from unswayed.policy import Policy
from unswayed.randomness import generator
from unswayed.tallies import Tallies


def literal_likelihood(counts: np.ndarray, sums: np.ndarray, centre: np.ndarray) -> float:
    """Return by how much a centre explains one user's plays better than none."""
    return float(sums @ centre - counts @ centre**2 / 2)


def literal_centres(
    counts: np.ndarray, sums: np.ndarray, labels: list[int], n_clusters: int
) -> np.ndarray:
    """Return the mean residual of each cluster and cell, with four plays of 0 added."""
    rows = [np.flatnonzero(np.array(labels) == k) for k in range(n_clusters)]
    return np.array([sums[own].sum(axis=0) / (counts[own].sum(axis=0) + 4.0) for own in rows])


def literal_cluster(
    counts: np.ndarray, sums: np.ndarray, n_clusters: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the best of four clusterings by Lloyd, each begun as k-means++ does."""
    n_users, n_cells = counts.shape
    scaled = np.array(
        [own / math.sqrt(max(n.sum(), 1.0)) for own, n in zip(sums, counts, strict=True)]
    )
    basis = np.linalg.qr(rng.standard_normal((n_cells, min(n_clusters, n_cells))))[0]
    for _ in range(6):
        basis = np.linalg.qr(scaled.T @ scaled @ basis)[0]
    scores = scaled @ basis
    found = []
    for _ in range(4):
        chosen = [int(rng.integers(n_users))]
        while len(chosen) < n_clusters:
            gaps = np.array([min(((s - scores[c]) ** 2).sum() for c in chosen) for s in scores])
            chosen.append(int(rng.choice(n_users, p=gaps / gaps.sum())) if gaps.sum() else 0)
        labels = [int(np.argmin([((s - scores[c]) ** 2).sum() for c in chosen])) for s in scores]
        centres = literal_centres(counts, sums, labels, n_clusters)
        for _ in range(25):
            before = labels
            labels = literal_labels(counts, sums, centres)
            if labels == before:
                break
            centres = literal_centres(counts, sums, labels, n_clusters)
        total = sum(
            max(literal_likelihood(n, s, centre) for centre in centres)
            for n, s in zip(counts, sums, strict=True)
        )
        found.append((total, centres))
    return max(found, key=lambda pair: pair[0])[1]


def literal_labels(counts: np.ndarray, sums: np.ndarray, centres: np.ndarray) -> list[int]:
    """Return the centre that explains each user best."""
    return [
        int(np.argmax([literal_likelihood(n, s, centre) for centre in centres]))
        for n, s in zip(counts, sums, strict=True)
    ]


class LiteralGroups:
    """The search for groups, with dense tables of (user, cell)."""

    def __init__(self, tallies: Tallies, policy: Policy, alpha: float) -> None:
        self.policy, self.alpha = policy, alpha
        self.n_users, (_, self.n_actions) = tallies.n_users, policy.mean_rewards.shape
        found = residuals_of(tallies, policy.mean_rewards, alpha=alpha)
        self.noise = found.noise
        self.counts, self.sums, self.means = np.zeros((3, self.n_users, tallies.n_cells))
        for user, cell, n, value in zip(
            found.users, found.cells, found.plays, found.values, strict=True
        ):
            self.counts[user, cell] = n
            self.sums[user, cell] = n * min(max(value / self.noise, -3.0), 3.0)
            self.means[user, cell] = value + policy.mean_rewards.flat[cell]

    def own_actions(self, centre: np.ndarray) -> list[int]:
        """Return the best action of each context for those who differ by a centre."""
        table = self.policy.mean_rewards + self.noise * centre.reshape(-1, self.n_actions)
        return [
            int(np.nanargmax(row)) if np.isfinite(row).any() else int(common)
            for row, common in zip(table, self.policy.actions, strict=True)
        ]

    def gains(self, centres: np.ndarray, level: float) -> list[float]:
        """Return a lower bound on what each candidate's users of the odd half gain."""
        judges = range(1, self.n_users, 2)
        own, common = [self.own_actions(centre) for centre in centres], self.policy.actions
        n_contexts = len(common)
        n_folds = min(n_contexts, 10)
        totals: dict[tuple[int, int], list[float]] = {}
        for fold in range(n_folds):
            for user in judges:
                cells = [
                    context * self.n_actions + action
                    for context in range(n_contexts)
                    for action in range(self.n_actions)
                    if context % n_folds != fold
                ]
                asked = (self.counts[user][cells], self.sums[user][cells])
                (k,) = literal_labels(asked[0][None], asked[1][None], centres[:, cells])
                for context in range(fold, n_contexts, n_folds):
                    mine, theirs = (
                        context * self.n_actions + actions[context] for actions in (own[k], common)
                    )
                    n, m = self.counts[user, mine], self.counts[user, theirs]
                    if mine != theirs and n and m:
                        weight = n * m / (n + m)
                        sums = totals.setdefault((user, k), [0.0, 0.0])
                        sums[0] += weight * (self.means[user, mine] - self.means[user, theirs])
                        sums[1] += weight
        logarithm, expected = math.log(1 / level), self.alpha * len(judges)
        n_bad = int(expected + math.sqrt(expected * logarithm) + logarithm / 3)
        result = []
        for k in range(len(centres)):
            points = [total / weight for (_, of), (total, weight) in totals.items() if of == k]
            low, _ = mean_intervals(
                np.array(points),
                np.zeros(len(points), np.int64),
                1,
                n_bad=np.array([min(n_bad, len(points)) if self.alpha else 0]),
                failure_probability=level,
            )
            result.append(float(low[0]))
        return result

    def assigned(self, centres: np.ndarray, gains: list[float]) -> tuple[list[int], list[float]]:
        """Return everybody's group, and the gains of the groups."""
        labels = []
        for counts, sums in zip(self.counts, self.sums, strict=True):
            ranked = sorted((literal_likelihood(counts, sums, c), k) for k, c in enumerate(centres))
            labels.append(ranked[-1][1] if ranked[-1][0] - ranked[-2][0] >= 1.0 else -1)
        most = int(self.alpha * self.n_users)
        kept = [k for k, gain in enumerate(gains) if gain > 0.0 and labels.count(k) > most]
        members = [kept.index(label) if label in kept else -1 for label in labels]
        return members, [gains[k] for k in kept]

    def found(self, sizes: range) -> tuple[list[int], list[float]]:
        """Return the groups that are worth most to all their members together."""
        best: tuple[list[int], list[float]] = ([-1] * self.n_users, [])
        largest = 0.0
        for size in sizes:
            level = 0.01 / (len(sizes) * size)
            centres = literal_cluster(
                self.counts[::2], self.sums[::2], size, generator(0, "groups", size)
            )
            members, gains = self.assigned(centres, self.gains(centres, level))
            worth = sum(gain * members.count(group) for group, gain in enumerate(gains))
            if worth > largest:
                best, largest = (members, gains), worth
        return best
