"""Inconspicuous attacks: shifts from best to runner-up, lies spread over accounts, hiding urns.

Shifts are sized to evade filters or trimming, or to incriminate honest users.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy import special

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.estimators.trimming import DEFAULT_FAILURE_PROBABILITY, trim_count
from unswayed.learners.exploration import next_plays
from unswayed.limits import RewardUrns, one_sided_adversary, two_sided_adversaries
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knowledge,
    PlayedRound,
    Replaying,
    Turn,
    at_least,
    fraction,
    knob,
    one_of,
    positive,
)


class Shifting(Attack):
    """Honest draws, except that shifted rewards have no noise; binary ones have a shifted mean."""

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        signs = np.zeros((briefing.n_contexts, briefing.n_actions))
        np.put_along_axis(signs, briefing.ranking[:, :2], np.array([[-1.0, 1.0]]), axis=1)
        self.direction = signs * briefing.reward_deviations
        # Shifts of accounts in contexts, in standard deviations of a reward.
        self.sizes: FloatArray = np.zeros((briefing.n_accounts, briefing.n_contexts))

    def shifts(self, turn: Turn) -> list[FloatArray]:
        """Return shifts to apply one after another, shape (n, n_actions); 0 keeps the reward."""
        sizes = self.sizes[turn.accounts, turn.contexts]
        return [sizes[:, None] * self.direction[turn.contexts]]

    def rewards(self, turn: Turn) -> FloatArray:
        rewards = self.honest(turn)
        for shifts in self.shifts(turn):
            moved = self.briefing.mean_rewards[turn.contexts] + shifts
            if self.briefing.is_binary:
                moved = self.briefing.honest_rewards(moved, self.rng)
            rewards = np.where(shifts != 0.0, moved, rewards)
        return rewards


class HideInCovariance(Shifting):
    """Shift from best to runner-up just below an eigenvalue threshold, over k directions.

    Under uniform play, a user's summed residuals along the direction "runner-up up, best down, in
    every context" have variance sigma² m over its m = 2 N / A plays there. Accounts without noise
    that all lie D from the mean add alpha (1 - alpha) D², so the variance is T times the honest one
    for D = sigma sqrt(m) sqrt((T - 1 + alpha) / (alpha (1 - alpha))), that is, a shift of D / m per
    play. With k directions the coalition splits into k parts, each with its own share of the
    contexts; each part is smaller, so its shift may be larger. The threshold T is the largest top
    eigenvalue that is not detected, relative to the honest one.
    """

    knows = Knowledge.BANDIT | Knowledge.ALGORITHM
    threshold: float = knob(1.2, lambda value: value > 1.0, "it must be above 1")
    directions: int = at_least(1, 1)  # k

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        parts = min(self.directions, briefing.n_contexts, max(briefing.n_accounts, 1))
        part_of_context = rng.permutation(briefing.n_contexts) % parts
        is_own = np.arange(briefing.n_accounts)[:, None] % parts == part_of_context
        part = briefing.alpha / parts
        plays = 2.0 * briefing.interactions_per_user / briefing.n_actions
        inflation = (self.threshold - 1.0 + part) / max(part * (1.0 - part), 1e-12)
        # A part lies only in its own contexts, with 1 / parts of the plays.
        self.sizes += np.sqrt(inflation * parts / plays) * is_own


class VarianceShell(Shifting):
    """Accounts at a good user's distance from the centre, all on the same side.

    A good user's residuals over N plays have norm sigma sqrt(N). Each account reaches that norm
    without any noise, by a shift of sigma A sqrt(S / (2 N)) on the 2 S cells of best and runner-up
    with N / (S A) plays each. Their norms are ordinary, but not their directions.
    """

    knows = Knowledge.BANDIT
    radius: float = positive(1.0)  # distance relative to that of a typical good user

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        plays_per_context = briefing.interactions_per_user / briefing.n_contexts
        self.sizes += self.radius * briefing.n_actions / np.sqrt(2.0 * plays_per_context)


class Subtractive(Attack):
    """Honest draws without one tail: the best of k for the target, the worst for the rival.

    Every reward is one that a good user may give; only the other tail is missing.
    """

    knows = Knowledge.BANDIT
    draws: int = at_least(1, 4)  # number of honest draws to choose from; 1 means honest

    def rewards(self, turn: Turn) -> FloatArray:
        briefing = self.briefing
        rewards = self.honest(turn)
        rows = np.arange(turn.contexts.size)
        for wanted, choose in ((self.target(turn), np.max), (self.rival(turn), np.min)):
            means = briefing.mean_rewards[turn.contexts, wanted]
            tries = np.broadcast_to(means, (self.draws, rows.size))
            rewards[rows, wanted] = choose(briefing.honest_rewards(tries, self.rng), axis=0)
        return rewards


class Framing(Shifting):
    """Shifts too small to change decisions, designed to incriminate honest users.

    A method that looks for two populations finds them. Only the wrong one of the two hypotheses
    changes decisions: that the colluders are the users who favour the best action most. Accounts
    have no noise, so that honest users appear to have long tails. Decoys are far on the other side,
    so that users who favour the best action do not appear to be the majority.
    """

    knows = Knowledge.BANDIT | Knowledge.ALGORITHM
    strength: float = positive(0.7)  # effect on the mean of all users, in gaps; 1 changes decisions
    decoys: float = fraction(0.0)  # share of the accounts that shift the other way
    reach: float = positive(3.0)  # shift of a decoy, relative to that of other accounts

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decoys * (1.0 + self.reach) >= 1.0:
            raise InputError(
                f"decoys is {self.decoys}: decoys that reach {self.reach:g} times as far cancel "
                f"the effect of all others; give fewer than {1.0 / (1.0 + self.reach):.3g}."
            )

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        self._is_decoy = np.zeros(briefing.n_accounts, dtype=np.bool_)
        n_decoys = round(self.decoys * briefing.n_accounts)
        self._is_decoy[rng.permutation(briefing.n_accounts)[:n_decoys]] = True
        ranked = np.sort(briefing.mean_rewards, axis=1)
        gaps = ranked[:, -1] - ranked[:, -2]
        net = 1.0 - self.decoys * (1.0 + self.reach)
        # Half of the shift lowers the best action, half raises the runner-up.
        pull = self.strength * gaps / (2.0 * max(briefing.alpha, 1e-12) * net)
        self._pull = pull[:, None] * np.sign(self.direction)

    def shifts(self, turn: Turn) -> list[FloatArray]:
        """Shift towards the runner-up; decoys shift the other way."""
        is_decoy = self._is_decoy[turn.accounts, None]
        return [
            factor * self._pull[turn.contexts] * who
            for who, factor in ((~is_decoy, 1.0), (is_decoy, -self.reach))
        ]


class Scapegoats(Framing):
    """Shifts that change decisions, with a few accounts far on the other side.

    These are meant to be flagged in place of the others, or to make the others look like the
    majority.
    """

    strength: float = positive(1.5)
    decoys: float = fraction(0.1)


class HidingOneSided(Attack):
    """The paper's E^(n): histories that make the best action look like the runner-up.

    Rewards of contested actions come from urns whose counts hide which action is best. Every
    account has an urn of ``plays`` rewards for each context. Each visit of the context draws from
    it, even if the contested action is not played: the order of draws is uniformly random, so any
    subset of them is hidden as well as the first ones.
    """

    name = "hiding"
    knows = Knowledge.BANDIT
    is_two_sided: ClassVar[bool] = False
    plays: int = at_least(0, 0)  # length n of the histories; 0 for a context's expected visits

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        if not briefing.is_binary:
            raise InputError(
                f"attack {self.name} hides in counts of ones and zeros: it requires Bernoulli "
                "rewards."
            )
        self._ranking = briefing.ranking
        if briefing.n_accounts:
            self._urns = [self._filled(context) for context in range(briefing.n_contexts)]

    def rewards(self, turn: Turn) -> FloatArray:
        rewards = self.honest(turn)
        for context in np.unique(turn.contexts):
            rows = np.flatnonzero(turn.contexts == context)
            for action, urns in zip(self._ranking[context], self._urns[context], strict=False):
                rewards[rows, action] = urns.draw(turn.accounts[rows], self.rng)
        return rewards

    def _filled(self, context: int) -> list[RewardUrns]:
        briefing = self.briefing
        best, runner_up = briefing.mean_rewards[context, self._ranking[context, :2]]
        if best <= runner_up:
            return []  # ties need no hiding
        visits = briefing.interactions_per_user * briefing.context_probabilities[context]
        plays = self.plays or max(1, round(visits))
        arguments = (best - runner_up, plays, briefing.alpha)
        if self.is_two_sided:
            pair = two_sided_adversaries(*arguments, base=runner_up)
            adversaries = [pair.better, pair.ordinary]
        else:
            adversaries = [one_sided_adversary(*arguments, base=runner_up)]
        return [adversary.start(briefing.n_accounts, self.rng) for adversary in adversaries]


class HidingTwoSided(HidingOneSided):
    """The pair of hiding coalitions: best and runner-up get identically distributed histories."""

    is_two_sided: ClassVar[bool] = True


class Focus(Attack):
    """Honest except on target and rival in a few contexts, the same for all accounts.

    So few coordinates change that the spectrum does not reveal the attack. In rare contexts,
    methods that search frequent contexts first miss it.
    """

    knows = Knowledge.BANDIT
    share: float = fraction(0.1)  # share of contexts that are attacked, at least one
    mode: str = one_of(("frequent", "rare", "random"), "frequent", kind="mode of focus")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        order = rng.permutation(briefing.n_contexts)
        if self.mode != "random":
            # Equally frequent contexts stay in random order, because the sort is stable.
            frequencies = briefing.context_probabilities[order]
            sign = -1.0 if self.mode == "frequent" else 1.0
            order = order[np.argsort(sign * frequencies, kind="stable")]
        self._is_attacked = np.zeros(briefing.n_contexts, dtype=np.bool_)
        self._is_attacked[order[: max(1, round(self.share * order.size))]] = True

    def rewards(self, turn: Turn) -> FloatArray:
        rewards = self.honest(turn)
        rows = np.flatnonzero(self._is_attacked[turn.contexts])
        rewards[rows, self.target(turn)[rows]] = self.briefing.highest
        rewards[rows, self.rival(turn)[rows]] = self.briefing.lowest
        return rewards


class Ladder(Shifting):
    """Shifts from best to runner-up of all sizes, so that each account is similar to the next.

    Single-linkage clustering then puts everybody into one cluster: the first rung is similar to a
    good user, each rung to the next, and the accounts at the top can shift arbitrarily far.
    Accounts have no noise in the cells where they lie, so that neighbours remain similar.
    """

    knows = Knowledge.BANDIT | Knowledge.ALGORITHM
    height: float = positive(8.0)  # shift of the top rung, in deviations of a reward
    # share of the accounts on evenly spaced rungs; all others are on the top rung
    rungs: float = fraction(0.5)

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        n_rungs = round(self.rungs * briefing.n_accounts)
        places = np.minimum((1.0 + np.arange(briefing.n_accounts)) / (1.0 + n_rungs), 1.0)
        self.sizes += self.height * rng.permutation(places)[:, None]


# Ours: finite edge for coalitions so large that trimming does not remove them
FARTHEST_EDGE = 5.0
# Ours: maximum number of cells over all accounts that are kept in memory (0.6 GB)
LARGEST_MEMORY = 50_000_000


def trim_edge(*, alpha: float, trim: float) -> float:
    """Return the position of colluders' means, in standard deviations of good users' means.

    With a share ``trim`` cut at each end, x* = Phi^-1(1 - (trim - alpha) / (1 - alpha)): the good
    users beyond x* and the coalition together are exactly the share that is trimmed. The bias is
    then as large as with infinite rewards, but the rewards look ordinary.

    >>> round(trim_edge(alpha=0.1, trim=0.2), 4)
    1.2206
    """
    beyond = (trim - alpha) / (1.0 - alpha)
    if beyond <= 0.0:
        return FARTHEST_EDGE
    return float(np.clip(-special.ndtri(beyond), 0.0, FARTHEST_EDGE))


class TrimEdge(Replaying):
    """Account means exactly where trimming stops: high for the target, low for the rival.

    Means and deviations of good users are estimated from the histories. Each reward tops up the
    account's total in that (context, action) to n mu + x* sigma sqrt(n), so that its mean over n
    plays lies x* deviations of such a mean from mu. Binary totals are rounded. In each round, an
    account's first visit to a context compensates the whole deficit, and the other visits add their
    own part. For other actions, good histories are replayed.
    """

    knows = Knowledge.ALGORITHM | Knowledge.HISTORIES
    # Share trimmed at each end; 0 for the package's rule for L / A users
    trim: float = fraction(0.0)

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        super().begin(briefing, rng)
        trim = self.trim
        if trim == 0.0:
            group = max(briefing.n_users // briefing.n_actions, 1)
            n_trimmed = trim_count(
                group,
                alpha=briefing.assumed_fraction,
                failure_probability=DEFAULT_FAILURE_PROBABILITY,
            )
            trim = n_trimmed / group
        self.edge = trim_edge(alpha=briefing.alpha, trim=trim)
        shape = (briefing.n_contexts, briefing.n_actions)
        if briefing.n_accounts * shape[0] * shape[1] > LARGEST_MEMORY:
            raise InputError(
                f"attack {self.name} keeps a total for every account, context and action, which "
                "needs too much memory here: use fewer users, contexts or actions."
            )
        self._account_of_user = np.full(briefing.n_users, -1)
        self._account_of_user[briefing.accounts] = np.arange(briefing.n_accounts)
        self._counts = np.zeros((briefing.n_accounts, *shape), dtype=np.int32)
        self._sums = np.zeros((briefing.n_accounts, *shape))
        self._good_moments = np.zeros((3, *shape))  # counts, sums, sums of squares

    def rewards(self, turn: Turn) -> FloatArray:
        rewards = self.replayed(turn.contexts)
        self._steer(rewards, turn, self.target(turn), self.edge)
        self._steer(rewards, turn, self.rival(turn), -self.edge)
        return rewards

    def observe(self, played: PlayedRound) -> None:
        super().observe(played)
        account = self._account_of_user[played.users]
        ours, theirs = np.flatnonzero(account >= 0), np.flatnonzero(account < 0)
        places = (account[ours], played.contexts[ours], played.actions[ours])
        np.add.at(self._counts, places, 1)
        np.add.at(self._sums, places, played.rewards[ours])
        cells = (played.contexts[theirs], played.actions[theirs])
        rewards = played.rewards[theirs]
        for moment, values in zip(
            self._good_moments, (np.ones_like(rewards), rewards, rewards**2), strict=True
        ):
            np.add.at(moment, cells, values)

    def _steer(self, table: FloatArray, turn: Turn, actions: IntArray, edge: float) -> None:
        counts, sums, squares = self._good_moments[:, turn.contexts, actions]
        seen = np.flatnonzero(counts >= 2)
        if not seen.size:
            return
        means = sums[seen] / counts[seen]
        deviations = np.sqrt(np.maximum(squares[seen] / counts[seen] - means**2, 0.0))
        places = (turn.accounts[seen], turn.contexts[seen], actions[seen])
        visits = turn.accounts * self.briefing.n_contexts + turn.contexts
        earlier = next_plays(np.zeros(int(visits.max()) + 1, np.int64), visits[seen])
        plays = self._counts[places] + earlier

        def total(n: IntArray) -> FloatArray:
            result: FloatArray = n * means + edge * deviations * np.sqrt(n)
            return result

        # If every visit of a round compensated the whole deficit, totals would overshoot more and
        # more.
        rewards = total(plays + 1) - np.where(earlier == 0, self._sums[places], total(plays))
        if self.briefing.is_binary:
            rewards = (rewards > 0.5).astype(np.float64)
        table[seen, actions[seen]] = rewards


# Signs of the lies on target and rival
DIRECTIONS = {"up": (1.0, 0.0), "down": (0.0, -1.0), "both": (1.0, -1.0)}


class ShiftedReplay(Replaying):
    """Replays good users' rewards, raised for the target and lowered for the rival."""

    # relative to the range of rewards; for binary rewards, the probability of a lie
    magnitude: float = fraction(0.3)
    direction: str = one_of(DIRECTIONS, "both", kind="direction")

    def rewards(self, turn: Turn) -> FloatArray:
        rewards = self.replayed(turn.contexts)
        rows = np.arange(turn.contexts.size)
        aimed_at = (self.target(turn), self.rival(turn))
        for chosen, sign in zip(aimed_at, DIRECTIONS[self.direction], strict=True):
            moved = rewards[rows, chosen] + sign * self._steps(rows.size)
            rewards[rows, chosen] = np.clip(moved, self.briefing.lowest, self.briefing.highest)
        return rewards

    def _steps(self, n: int) -> FloatArray:
        if self.briefing.is_binary:
            return (self.rng.random(n) < self.magnitude).astype(np.float64)
        return np.full(n, self.magnitude * (self.briefing.highest - self.briefing.lowest))
