"""The interface of attacks, and helpers for choosing contexts and rewards."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from enum import Flag
from typing import Any, ClassVar, TypeVar, cast, dataclass_transform

import numpy as np

from unswayed.arrays import FloatArray, IntArray
from unswayed.errors import InputError
from unswayed.names import find
from unswayed.simulation.instances import Instance, RewardLaw, draw_rewards

N = TypeVar("N", int, float)
Knob = float | int | str


class Knowledge(Flag):
    """What a coalition knows besides its own accounts, its aim and the size of the world.

    An oblivious attack knows nothing else; flags are combined with ``|``.
    """

    OBLIVIOUS = 0
    BANDIT = 1
    ALGORITHM = 2
    HISTORIES = 4

    @property
    def letters(self) -> str:
        """Return the short form: O, or the letters B, A and H of its knowledge.

        >>> (Knowledge.HISTORIES | Knowledge.ALGORITHM).letters
        'AH'
        """
        return "".join(flag.name[0] for flag in self if flag.name) or "O"


class ForbiddenKnowledgeError(RuntimeError):
    """Raised if an attack asks for something that it does not claim to know."""


# Ours: the "largest" of unbounded rewards is the top mean plus this many deviations
LOUD_DEVIATIONS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    """Goal of the coalition: in each context, one action to promote and one to demote.

    A goal is not knowledge: a seller knows which product to promote and which rival to harm without
    knowing the value of either. The arena chooses the best action as the rival.
    """

    target: IntArray  # shape (n_contexts,), the action to promote
    rival: IntArray  # shape (n_contexts,), the action to demote


@dataclass(frozen=True, slots=True, kw_only=True)
class Briefing:
    """The coalition's view of the world; reading more than ``knows`` raises.

    ``lowest`` and ``highest`` are the smallest and largest plausible reward: 0 and 1 for binary
    rewards, which every user can see, otherwise two deviations beyond means of 0 and 1.
    """

    knows: Knowledge
    n_users: int
    n_contexts: int
    n_actions: int
    interactions_per_user: int
    accounts: IntArray  # shape (n_accounts,), user codes of the coalition, ascending
    aim: Aim
    lowest: float
    highest: float
    is_binary: bool
    _instance: Instance = field(repr=False)
    _algorithm: str = field(repr=False)
    _assumed_fraction: float = field(repr=False)

    @property
    def n_accounts(self) -> int:
        """Return the number of accounts of the coalition."""
        return int(self.accounts.size)

    @property
    def alpha(self) -> float:
        """Return the coalition's true share of the users, which every coalition knows."""
        return self.n_accounts / self.n_users

    @property
    def context_probabilities(self) -> FloatArray:
        """Return the frequency of contexts among good users, shape (n_contexts,)."""
        return self._bandit("context_probabilities").context_probabilities

    @property
    def mean_rewards(self) -> FloatArray:
        """Return good users' mean rewards, shape (n_contexts, n_actions)."""
        return self._bandit("mean_rewards").mean_rewards

    @property
    def reward_deviations(self) -> FloatArray:
        """Return the standard deviation of good rewards, shape (n_contexts, n_actions)."""
        instance = self._bandit("reward_deviations")
        if instance.law is RewardLaw.BERNOULLI:
            return np.sqrt(instance.mean_rewards * (1.0 - instance.mean_rewards))
        return np.full_like(instance.mean_rewards, instance.deviation)

    @property
    def ranking(self) -> IntArray:
        """Return the actions of each context, the best first, shape (n_contexts, n_actions)."""
        return np.argsort(-self.mean_rewards, axis=1, kind="stable")

    def honest_rewards(self, means: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Draw rewards like good users with these means; same shape as ``means``."""
        instance = self._bandit("honest_rewards")
        return draw_rewards(means, law=instance.law, deviation=instance.deviation, rng=rng)

    @property
    def algorithm(self) -> str:
        """Return the name of the learner's algorithm."""
        self._check(Knowledge.ALGORITHM, "algorithm")
        return self._algorithm

    @property
    def assumed_fraction(self) -> float:
        """Return the share of colluders that the learner assumes."""
        self._check(Knowledge.ALGORITHM, "assumed_fraction")
        return self._assumed_fraction

    def _bandit(self, name: str) -> Instance:
        self._check(Knowledge.BANDIT, name)
        return self._instance

    def _check(self, needed: Knowledge, name: str) -> None:
        if needed not in self.knows:
            raise ForbiddenKnowledgeError(
                f"this attack asked for {name}, which takes knowledge {needed.letters}, "
                f"but it claims {self.knows.letters}."
            )


def reward_ends(instance: Instance) -> tuple[float, float]:
    """Return the smallest and largest plausible reward; see `Briefing`."""
    margin = 0.0 if instance.law is RewardLaw.BERNOULLI else LOUD_DEVIATIONS * instance.deviation
    return -margin, 1.0 + margin


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """The coalition's arrivals of one round, in order."""

    round_number: int  # number of the round, from 0; a round has about one arrival per user
    accounts: IntArray  # shape (n,), positions in `Briefing.accounts`; may contain duplicates
    contexts: IntArray  # shape (n,), drawn at random, or chosen by the accounts


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedRound:
    """What happened in one round, for attacks that see histories; all arrays (n_arrivals,)."""

    round_number: int
    users: IntArray
    contexts: IntArray
    actions: IntArray
    rewards: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What a coalition knows when it registers its accounts, before any arrivals."""

    n_users: int
    n_accounts: int
    n_contexts: int
    n_actions: int
    aim: Aim


@dataclass_transform(kw_only_default=True)
class Attack(ABC):
    """Base class of attacks. Its class defines its name, summary and knowledge.

    An object is used for one run: first `begin`, then for every round `contexts`, `rewards` and, if
    it knows histories, `observe`. Subclasses become dataclasses, and their fields are the knobs.
    The name defaults to that of the class (``TrimEdge`` is "trim-edge"), and the summary to the
    first line of its docstring.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    knows: Knowledge = Knowledge.OBLIVIOUS
    is_eager: bool = False
    """Whether the accounts are as active as the bound c_L on arrivals allows."""

    briefing: Briefing
    rng: np.random.Generator

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
        if "summary" not in vars(cls) and cls.__doc__:
            words = cls.__doc__.partition("\n")[0].rstrip(".")
            cls.summary = words[:1].lower() + words[1:]
        dataclass(kw_only=True)(cls)

    def __post_init__(self) -> None:
        for one in fields(cast(Any, self)):
            if "check" in one.metadata:
                one.metadata["check"](one.name, getattr(self, one.name))

    def enrol(self, offer: Offer, rng: np.random.Generator) -> IntArray | None:  # noqa: ARG002 - a hook
        """Return the user codes of the accounts, shape (n_accounts,), or None for random ones."""
        return None

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Store the briefing and the attack's own random generator."""
        if briefing.knows != self.knows:
            raise ForbiddenKnowledgeError(
                f"{self.name} claims {self.knows.letters} but was briefed {briefing.knows.letters}."
            )
        self.briefing = briefing
        self.rng = rng

    def contexts(self, turn: Turn) -> IntArray:
        """Return the contexts of the arrivals, shape (n,); by default those drawn at random."""
        return turn.contexts

    @abstractmethod
    def rewards(self, turn: Turn) -> FloatArray:
        """Return the reward of each action, shape (n, n_actions)."""

    def target(self, turn: Turn) -> IntArray:
        """Return the action to promote for each arrival, shape (n,)."""
        return self.briefing.aim.target[turn.contexts]

    def rival(self, turn: Turn) -> IntArray:
        """Return the action to demote for each arrival, shape (n,)."""
        return self.briefing.aim.rival[turn.contexts]

    def honest(self, turn: Turn) -> FloatArray:
        """Return good users' rewards, shape (n, n_actions); requires knowledge of the bandit."""
        return self.briefing.honest_rewards(self.briefing.mean_rewards[turn.contexts], self.rng)

    def coins(self, n_rows: int, n_columns: int) -> FloatArray:
        """Return uninformative rewards: either end of the range, with equal probability."""
        heads = self.rng.random((n_rows, n_columns)) < 0.5
        return np.where(heads, self.briefing.highest, self.briefing.lowest)

    def lie(self, rewards: FloatArray, actions: IntArray, value: float, *, strength: float) -> None:
        """Set the reward of one action in each row to a value, with probability ``strength``."""
        rows = np.arange(actions.size)
        if strength < 1.0:
            rows = np.flatnonzero(self.rng.random(actions.size) < strength)
        rewards[rows, actions[rows]] = value

    def observe(self, played: PlayedRound) -> None:  # noqa: B027 - most attacks see nothing
        """Observe a played round; called only for attacks that know histories."""


def fraction(default: float) -> float:
    """Return a dataclass field for a knob in [0, 1]."""
    return knob(default, lambda value: 0.0 <= value <= 1.0, "it must lie between 0 and 1")


def positive(default: float) -> float:
    """Return a dataclass field for a positive, finite knob."""
    return knob(default, lambda value: 0.0 < value < np.inf, "it must be positive and finite")


def at_least(lowest: int, default: int) -> int:
    """Return a dataclass field for a knob with a smallest value."""
    return knob(default, lambda value: value >= lowest, f"at least {lowest} is needed")


def one_of(choices: Iterable[str], default: str, *, kind: str) -> str:
    """Return a dataclass field for a knob with several choices."""
    names = dict.fromkeys(choices)
    return field(
        default=default, metadata={"check": lambda _, value: find(value, names, kind=kind)}
    )


def knob(default: N, is_valid: Callable[[N], bool], rule: str) -> N:
    """Return a dataclass field for a knob, with a rule for valid values."""

    def check(knob: str, value: N) -> None:
        if not is_valid(value):
            raise InputError(f"{knob} is {value}: {rule}.")

    return field(default=default, metadata={"check": check})


MEMORY_PER_CELL = 32  # Ours: number of past rewards per (context, action) that a replay draws from


class Replaying(Attack):
    """Base class of attacks that see histories and replay good users' past rewards as cover.

    Actions without history get an uninformative reward: a coin flip if rewards are binary,
    otherwise the middle of the range.
    """

    knows = Knowledge.HISTORIES

    def begin(self, briefing: Briefing, rng: np.random.Generator) -> None:
        """Reset the memory for a new run."""
        super().begin(briefing, rng)
        self._is_ours = np.zeros(briefing.n_users, dtype=np.bool_)
        self._is_ours[briefing.accounts] = True
        shape = (briefing.n_contexts, briefing.n_actions, MEMORY_PER_CELL)
        self._memory = np.full(shape, np.nan)

    def observe(self, played: PlayedRound) -> None:
        """Record the good users' rewards."""
        theirs = np.flatnonzero(~self._is_ours[played.users])
        contexts, actions = played.contexts[theirs], played.actions[theirs]
        rewards = played.rewards[theirs]
        is_new = np.isnan(self._memory[contexts, actions, 0])
        self._memory[contexts[is_new], actions[is_new]] = rewards[is_new, None]
        slots = self.rng.integers(0, MEMORY_PER_CELL, theirs.size)
        self._memory[contexts, actions, slots] = rewards

    def replayed(self, contexts: IntArray) -> FloatArray:
        """Return past rewards of each action in these contexts, shape (n, n_actions)."""
        shape = (contexts.size, self.briefing.n_actions)
        slots = self.rng.integers(0, MEMORY_PER_CELL, shape)
        found: FloatArray = self._memory[contexts[:, None], np.arange(shape[1]), slots]
        if not np.isnan(found).any():
            return found
        if self.briefing.is_binary:
            blank = self.coins(*shape)
        else:
            blank = np.full(shape, (self.briefing.lowest + self.briefing.highest) / 2.0)
        return np.where(np.isnan(found), blank, found)
