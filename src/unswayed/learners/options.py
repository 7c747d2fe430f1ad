"""How to learn from a log: one set of options for Python, the command line and a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

from unswayed.errors import InputError, option
from unswayed.events import Columns, OnBadRows
from unswayed.events.known import KnownAccounts, read_known
from unswayed.events.thinning import check_cap, parsed_half_life
from unswayed.learners.design import DesignName
from unswayed.learners.flips import Certify, check_certify
from unswayed.learners.methods import DEFAULT_METHOD, known_method
from unswayed.learners.reward_range import RewardRange, parsed_reward_range, reward_bound
from unswayed.learners.tastes import check_groups
from unswayed.learners.unknown_fraction import Auto, check_fraction_or_auto
from unswayed.names import known_keywords
from unswayed.tallies import MIN_PROPENSITY
from unswayed.tallies.log_data import check_min_propensity

MAX_LEAVES = 32
"""Ours: contexts that are learned from features, by default."""

MOST_LEAVES = 1000
"""Ours: contexts that may be asked for."""


def listed_names(given: Sequence[str] | str) -> tuple[str, ...]:
    """Return names from a list, or from text that separates them by commas."""
    names = given.split(",") if isinstance(given, str) else given
    return tuple(name.strip() for name in names if name.strip())


@known_keywords(adversarial_fraction="alpha")
@dataclass(frozen=True, slots=True, kw_only=True)
class LearnOptions:
    """Options of ``learn_log`` and ``learn_on_cluster``; checked when they are made.

    Parameters
    ----------
    alpha, method
        As ``RobustMCB`` takes them.
    design
        How actions were chosen; as ``RobustMCB.fit`` takes it.
    columns, query, memory
        As ``read_events`` takes them. A cluster takes neither a query nor a memory budget.
    on_bad_rows
        What to do with rows that cannot be used: "error", "drop" or "quarantine=FILE".
    max_interactions_per_user
        Down-sample users with more interactions to this many.
    min_propensity
        Smaller propensities are raised to this one.
    tallies
        A folder of tallies: this log is added to those in it, and the policy is learned from all.
        One run at a time changes a folder; others wait for it. On a cluster this machine and all
        workers must see the folder under the same name.
    certify
        As ``RobustMCB`` takes it. A cluster cannot attack: that needs all tallies in one place.
    reward_range
        Smallest and largest reward that there can be: a pair, or text such as "1,5". Worst-case
        intervals need it, or ``reward_deviation``. A log with rewards beyond it is refused.
    reward_deviation
        Largest standard deviation that an honest user's reward can have in a context and action,
        users' tastes included.
    allow_unplayed
        Whether to go on when actions have no support in some contexts: they stay undecided there.
    half_life
        Forget: an event as old as this is kept with probability one half, one twice as old with
        one quarter. Seconds, or text such as "7d"; a number counts in the unit of a numeric time
        column. Needs a time column, and not on a cluster. A folder of tallies that begins with one
        keeps events, and the half-life may then change from log to log.
    groups
        Look for so many groups of users with a taste of their own, or for as many as show
        ("auto"); each that gains on held-out plays gets a policy. Not with ``personal``, and not on
        a cluster.
    known
        A file of reviewed accounts, as ``read_known`` takes it. Fake ones do not count, honest ones
        are never flagged, and a group is what most of its reviewed members are. Dates are not
        used. Only with the default method.
    features
        Attributes to learn the contexts from, instead of context columns: a list, or text such as
        "country,age". Numbers are cut into bins; anything else is a category. See
        ``docs/features.md``. Not with ``tallies``, and not on a cluster.
    max_leaves
        Most contexts that are learned from features.
    honest
        Whether intervals come from a half of the users who had no say in the contexts.
    trusted
        Features that the server sets, so that no account can claim them.
    advice
        Which model advises the contexts: "auto" for a linear one, "off", or a column with the
        choices of another model, which then is one more feature.
    personal
        Whether to learn decisions of users whose taste differs from the common one, too. Not on a
        cluster.
    """

    alpha: float | Auto = 0.1
    method: str = DEFAULT_METHOD
    design: DesignName = "auto"
    columns: Columns = field(default_factory=Columns)
    query: str | None = None
    memory: int | None = None
    on_bad_rows: OnBadRows | str = "error"
    max_interactions_per_user: int | None = None
    min_propensity: float = MIN_PROPENSITY
    tallies: str | Path | None = None
    certify: Certify = "bounds"
    reward_range: RewardRange | str | None = None
    reward_deviation: float | None = None
    allow_unplayed: bool = False
    half_life: float | str | None = None
    groups: int | str | None = None
    known: str | Path | KnownAccounts | None = None
    features: Sequence[str] = ()
    max_leaves: int = MAX_LEAVES
    honest: bool = False
    trusted: Sequence[str] = ()
    advice: str = "auto"
    personal: bool = False

    def __post_init__(self) -> None:
        fraction = check_fraction_or_auto(self.alpha)
        object.__setattr__(self, "alpha", fraction)
        object.__setattr__(self, "method", known_method(self.method))
        designs = get_args(DesignName)
        if self.design not in designs:
            raise InputError(
                f"{option('--design')} is {' or '.join(designs)}, not {self.design!r}."
            )
        OnBadRows.parsed(self.on_bad_rows)
        check_certify(self.certify)
        check_min_propensity(self.min_propensity)
        if self.max_interactions_per_user is not None:
            check_cap(self.max_interactions_per_user)
        if self.reward_range is not None:
            object.__setattr__(self, "reward_range", parsed_reward_range(self.reward_range))
        reward_bound(self.reward_range, self.reward_deviation)
        if self.known is not None:
            if self.method != DEFAULT_METHOD:
                default = option("--method", DEFAULT_METHOD)
                raise InputError(f"{option('--known')} works with {default} only.")
            if not isinstance(self.known, KnownAccounts):
                object.__setattr__(self, "known", read_known(self.known))
        if self.half_life is not None:
            object.__setattr__(self, "half_life", parsed_half_life(self.half_life))
        self._check_features()
        if self.groups is not None:
            object.__setattr__(self, "groups", check_groups(self.groups))
            if self.personal:
                raise InputError(
                    f"{option('--groups')} and {option('--personal')} exclude each other: a user "
                    "gets the policy of a group or one of their own."
                )

    def _check_features(self) -> None:
        """Add the features to the columns; refuse options that need them, or that they exclude."""
        for name in ("features", "trusted"):
            object.__setattr__(self, name, listed_names(getattr(self, name)))
        if not self.features:
            defaults = {"max_leaves": MAX_LEAVES, "honest": False, "trusted": (), "advice": "auto"}
            for name, default in defaults.items():
                if getattr(self, name) != default:
                    flag = option(f"--{name.replace('_', '-')}")
                    raise InputError(f"{flag} needs {option('--features')}.")
            return
        if not 1 <= self.max_leaves <= MOST_LEAVES:
            raise InputError(
                f"{option('--max-leaves')} is {self.max_leaves}; it is from 1 to {MOST_LEAVES}."
            )
        for name in self.trusted:
            if name not in self.features:
                raise InputError(
                    f"{option('--trusted')} names {name!r}, which is not among the features "
                    f"({', '.join(self.features)})."
                )
        if self.tallies is not None:
            raise InputError(
                f"{option('--features')} cannot be used with {option('--tallies')}: contexts are "
                "learned from the events of one log. Give all days at once, as a folder or pattern."
            )
        columns = tuple(self.features)
        if self.advice not in ("auto", "off", *columns):
            columns = (*columns, self.advice)
        object.__setattr__(self, "columns", replace(self.columns, features=columns))

    def changed(self, **changes: Any) -> LearnOptions:
        """Return the same options with some changed; names of columns may be given directly.

        >>> LearnOptions().changed(alpha=0.2, user="account_id").columns.user
        'account_id'
        """
        if "adversarial_fraction" in changes:  # the former name
            old = LearnOptions(adversarial_fraction=changes.pop("adversarial_fraction"))  # type: ignore[call-arg]
            changes["alpha"] = old.alpha
        if "features" in changes:  # those of the options before are columns by now
            columns = replace(changes.get("columns", self.columns), features=())
            changes["columns"] = columns
        own = [field.name for field in fields(LearnOptions)]
        names = {name: changes.pop(name) for name in changes.keys() - set(own)}
        if names:
            columns = changes.get("columns", self.columns)
            changes["columns"] = columns.renamed(names, others=own)
        return replace(self, **changes)
