"""Quiet shifts from best to runner-up, and the hiding coalitions of the lower bound.

Shifts are sized to evade filters or to incriminate honest users.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.limits import HidingAdversary, RewardUrns, one_sided_adversary, two_sided_adversaries
from unswayed.simulation.attacks.base import (
    Attack,
    Briefing,
    Knowledge,
    Turn,
    check_positive,
    check_share,
    honest_table,
)


@dataclass(kw_only=True)
class HideInCovariance(Attack):
    """Shift each account as far as the covariance of all users still looks honest.

    Under uniform play, a user's summed residuals along the direction "runner-up up, best down, in
    every context" have variance sigma² m over its m = 2 N / A plays there. Accounts without noise
    that all lie D from the mean add alpha (1 - alpha) D², so the variance is T times the honest
    one for D = sigma sqrt(m) sqrt((T - 1 + alpha) / (alpha (1 - alpha))): a shift of D / m a play.
    With k directions the coalition splits into k parts, each with its own share of the contexts;
    each part is smaller, so it may shift farther.

    Parameters
    ----------
    threshold
        T, above 1: the top eigenvalue, relative to the honest one, that passes unseen.
    directions
        k.
    """

    name = "hide-in-covariance"
    summary = "best-to-runner-up shift just below an eigenvalue threshold, over k directions"
    knows = Knowledge.BANDIT | Knowledge.ALGORITHM
    threshold: float = 1.2
    directions: int = 1

    def __post_init__(self) -> None:
        if not self.threshold > 1.0:
            raise InputError(f"threshold is {self.threshold}: it must be above 1.")
        if self.directions < 1:
            raise InputError(f"directions is {self.directions}: at least 1 is needed.")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Size the shift and hand out contexts to the parts of the coalition."""
        super().begin(briefing, rng)
        self._parts = min(self.directions, briefing.n_contexts, max(briefing.n_accounts, 1))
        self._part_of_context = rng.permutation(briefing.n_contexts) % self._parts
        self._signs = best_to_runner_up(briefing)
        share = briefing.alpha / self._parts
        plays = 2.0 * briefing.interactions_per_user / briefing.n_actions
        inflation = (self.threshold - 1.0 + share) / max(share * (1.0 - share), 1e-12)
        # A part sees only its own contexts, 1 / parts of the plays.
        self.shift = np.sqrt(inflation * self._parts / plays)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, with the part's own contexts shifted and noise-free."""
        briefing = self.briefing
        rewards = honest_table(briefing, turn, self.rng)
        is_own = self._part_of_context[turn.contexts] == turn.accounts % self._parts
        shifts = self.shift * self._signs[turn.contexts] * is_own[:, None]
        return shifted(briefing, turn, rewards, shifts, self.rng)


@dataclass(kw_only=True)
class VarianceShell(Attack):
    """Put each account at a good user's distance from the centre, all on the same side.

    A good user's residuals over N plays have norm sigma sqrt(N). Each account reaches that norm
    without any noise, by a shift of sigma A sqrt(S / (2 N)) on the 2 S cells of best and runner-up
    with N / (S A) plays each. Norms look ordinary; directions do not.

    Parameters
    ----------
    radius
        The distance, in units of a good user's typical one.
    """

    name = "variance-shell"
    summary = "accounts at a good user's distance from the centre, all on the same side"
    knows = Knowledge.BANDIT
    radius: float = 1.0

    def __post_init__(self) -> None:
        check_positive(self.radius, "radius")

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Size the shift."""
        super().begin(briefing, rng)
        self._signs = best_to_runner_up(briefing)
        plays_per_context = briefing.interactions_per_user / briefing.n_contexts
        self.shift = self.radius * briefing.n_actions / np.sqrt(2.0 * plays_per_context)

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, shifted and noise-free on best and runner-up."""
        rewards = honest_table(self.briefing, turn, self.rng)
        shifts = self.shift * self._signs[turn.contexts]
        return shifted(self.briefing, turn, rewards, shifts, self.rng)


@dataclass(kw_only=True)
class Subtractive(Attack):
    """Withhold one tail of honest draws: give the best for the target, the worst for the rival.

    Every reward is one that a good user gives as well; what is missing is the other tail.

    Parameters
    ----------
    draws
        How many honest draws to choose from; 1 is honest.
    """

    name = "subtractive"
    summary = "honest draws with one tail withheld: best of k for the target, worst for the rival"
    knows = Knowledge.BANDIT
    draws: int = 4

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise InputError(f"draws is {self.draws}: at least 1 is needed.")

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, the chosen ones on target and rival."""
        briefing = self.briefing
        rewards = honest_table(briefing, turn, self.rng)
        rows = np.arange(turn.contexts.size)
        for actions, choose in ((briefing.aim.target, np.max), (briefing.aim.rival, np.min)):
            wanted = actions[turn.contexts]
            means = briefing.mean_rewards[turn.contexts, wanted]
            tries = np.broadcast_to(means, (self.draws, rows.size))
            rewards[rows, wanted] = choose(briefing.honest_rewards(tries, self.rng), axis=0)
        return rewards


def best_to_runner_up(briefing: Briefing) -> FloatArray:
    """Return the reward deviation, negative on the best and positive on the runner-up, else 0."""
    ranking = np.argsort(-briefing.mean_rewards, axis=1, kind="stable")
    contexts = np.arange(briefing.n_contexts)
    signs = np.zeros((briefing.n_contexts, briefing.n_actions))
    signs[contexts, ranking[:, 0]] = -1.0
    signs[contexts, ranking[:, 1]] = 1.0
    return signs * briefing.reward_deviations


def shifted(
    briefing: Briefing,
    turn: Turn,
    rewards: FloatArray,
    shifts: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Replace rewards where a shift applies by the shifted mean; binary ones are drawn with it.

    Parameters
    ----------
    rewards, shifts
        Shape (n, n_actions); a shift of 0 leaves the reward as it is.
    """
    moved = briefing.mean_rewards[turn.contexts] + shifts
    if briefing.is_binary:
        moved = briefing.honest_rewards(moved, rng)
    return np.where(shifts != 0.0, moved, rewards)


@dataclass(kw_only=True)
class Framing(Attack):
    """Pull every context from the best action to the runner-up, too little to change decisions.

    A search for two populations finds them, and only one of the two hypotheses changes decisions:
    the wrong one, by which the users who favour the best action most are the colluders. Accounts
    have no noise, so that honest users are the ones with long tails. Decoys go far to
    the other side, so that users who favour the best action do not look like the majority.

    Parameters
    ----------
    strength
        The pull on the means of all users, as a share of the gap; below 1 no decision changes.
    decoys
        Share of the accounts that pull the other way.
    reach
        How much farther a decoy pulls than other accounts.
    """

    name = "framing"
    summary = "pulls too little to change decisions, so that honest users are accused"
    knows = Knowledge.BANDIT | Knowledge.ALGORITHM
    strength: float = 0.7
    decoys: float = 0.0
    reach: float = 3.0

    def __post_init__(self) -> None:
        check_positive(self.strength, "strength")
        check_share(self.decoys, "decoys")
        check_positive(self.reach, "reach")
        if self.decoys * (1.0 + self.reach) >= 1.0:
            raise InputError(
                f"decoys is {self.decoys}: decoys that reach {self.reach:g} times as far undo the "
                f"pull of all others; give fewer than {1.0 / (1.0 + self.reach):.3g}."
            )

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Size the shift, and choose the decoys."""
        super().begin(briefing, rng)
        self._is_decoy = np.zeros(briefing.n_accounts, dtype=np.bool_)
        n_decoys = round(self.decoys * briefing.n_accounts)
        self._is_decoy[rng.permutation(briefing.n_accounts)[:n_decoys]] = True
        ranked = np.sort(briefing.mean_rewards, axis=1)
        gaps = ranked[:, -1] - ranked[:, -2]
        net = 1.0 - self.decoys * (1.0 + self.reach)
        # Best and runner-up are moved by half of it each.
        pull = self.strength * gaps / (2.0 * max(briefing.alpha, 1e-12) * net)
        self.shifts = pull[:, None] * np.sign(best_to_runner_up(briefing))

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, shifted and noise-free on best and runner-up."""
        rewards = honest_table(self.briefing, turn, self.rng)
        is_decoy = self._is_decoy[turn.accounts]
        for who, factor in ((~is_decoy, 1.0), (is_decoy, -self.reach)):
            shifts = factor * self.shifts[turn.contexts] * who[:, None]
            rewards = shifted(self.briefing, turn, rewards, shifts, self.rng)
        return rewards


@dataclass(kw_only=True)
class Scapegoats(Framing):
    """Change decisions, while some accounts lie far on the other side.

    They are there to be accused in the others' place, or to make the others look like the majority.
    """

    name = "scapegoats"
    summary = "changes decisions, while a few accounts lie far on the other side"
    strength: float = 1.5
    decoys: float = 0.1
    reach: float = 3.0


@dataclass(kw_only=True)
class Hiding(Attack):
    """Draw rewards of contested actions from urns whose counts hide which action is best.

    Every account has an urn of ``plays`` rewards for each context. It draws from it at each visit
    of the context, whether or not the contested action is then played: the order in an urn is
    uniformly random, so what is shown of it is hidden just as well as a beginning of it.

    Parameters
    ----------
    plays
        Length n of the histories to hide; 0 takes each context's expected visits per user.
    """

    knows = Knowledge.BANDIT
    plays: int = 0

    def __post_init__(self) -> None:
        if self.plays < 0:
            raise InputError(f"plays is {self.plays}: it cannot be negative.")

    @abstractmethod
    def adversaries(self, gap: float, plays: int, base: float) -> list[HidingAdversary]:
        """Return the adversary of the best action and, if contested, of the runner-up."""

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Fill the urns of every context."""
        super().begin(briefing, rng)
        if not briefing.is_binary:
            raise InputError(
                f"attack {self.name} hides in counts of ones and zeros: it needs Bernoulli rewards."
            )
        self._ranking: IntArray = np.argsort(-briefing.mean_rewards, axis=1, kind="stable")
        if briefing.n_accounts:
            self._urns = [self._filled(context) for context in range(briefing.n_contexts)]

    def rewards(self, turn: Turn) -> FloatArray:
        """Return honest draws, with contested actions from the urns."""
        rewards = honest_table(self.briefing, turn, self.rng)
        for context in np.unique(turn.contexts):
            rows = np.flatnonzero(turn.contexts == context)
            for action, urns in zip(self._ranking[context], self._urns[context], strict=False):
                rewards[rows, action] = urns.draw(turn.accounts[rows], self.rng)
        return rewards

    def _filled(self, context: int) -> list[RewardUrns]:
        briefing = self.briefing
        best, runner_up = briefing.mean_rewards[context, self._ranking[context, :2]]
        if best <= runner_up:
            return []  # a tie hides itself
        visits = briefing.interactions_per_user * briefing.context_probabilities[context]
        plays = self.plays or max(1, round(visits))
        return [
            adversary.start(briefing.n_accounts, self.rng)
            for adversary in self.adversaries(best - runner_up, plays, runner_up)
        ]


@dataclass(kw_only=True)
class HidingOneSided(Hiding):
    """The paper's E^(n): the best action looks like the runner-up in a world without colluders."""

    name = "hiding"
    summary = "the paper's E^(n): histories that make the best action look like the runner-up"

    def adversaries(self, gap: float, plays: int, base: float) -> list[HidingAdversary]:
        """Return the one-sided adversary of the best action."""
        return [one_sided_adversary(gap, plays, self.briefing.alpha, base=base)]


@dataclass(kw_only=True)
class HidingTwoSided(Hiding):
    """Best and runner-up look alike: the worlds in which either is the best are both poisoned."""

    name = "hiding-two-sided"
    summary = "the pair of hiding coalitions: best and runner-up get histories that look alike"

    def adversaries(self, gap: float, plays: int, base: float) -> list[HidingAdversary]:
        """Return the adversaries of the best action and of the runner-up."""
        share = self.briefing.alpha
        pair = two_sided_adversaries(gap, plays, share, base=base)
        return [pair.better, pair.ordinary]
