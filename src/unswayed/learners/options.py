"""Options of learning from a log: the same for Python, the command line and a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

from unswayed.defaults import DEFAULT_METHOD, MAX_LEAVES, MIN_PROPENSITY
from unswayed.errors import InputError, option
from unswayed.events import Columns
from unswayed.events.columns import check_bad_rows
from unswayed.events.known import KnownAccounts, read_known
from unswayed.events.thinning import check_cap, parsed_half_life
from unswayed.learners.design import (
    DesignName,
    RewardBound,
    RewardRange,
    parsed_reward_range,
    reward_bound,
)
from unswayed.learners.methods import known_method
from unswayed.learners.unknown_fraction import Auto, check_fraction_or_auto
from unswayed.names import known_keywords
from unswayed.policy.partition import Partition
from unswayed.tallies.log_data import check_min_propensity

MOST_LEAVES = 1000  # Ours: maximum number of contexts


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
    alpha
        Share of users that may collude, below 0.5; "auto" takes an upper estimate from the data.
    method
        How to learn: "bounded", "paper" or "paper-literal".
    design
        How actions were chosen: "uniform", "sticky" (a fixed action per user and context), or
        "auto" to infer it.
    columns, query
        As ``read_events`` takes them; a query not on a cluster.
    on_bad_rows
        What to do with rows that cannot be used: "error" or "drop".
    max_interactions_per_user
        Down-sample users with more interactions to this many. Not with ``tallies``, and not on a
        cluster.
    min_propensity
        Smaller propensities are raised to this one.
    tallies
        Folder of per-user sums: add this log to it, and learn from all of it. One run at a time
        changes a folder; others wait. Not on a cluster.
    reward_range
        Smallest and largest reward that there can be, such as "1,5". Worst-case intervals need it
        or ``reward_deviation``. A log with rewards beyond it is refused.
    reward_deviation
        Largest standard deviation of an honest user's reward in a context and action, tastes
        included.
    allow_unplayed
        Learn even if some actions were never played in some contexts; they stay undecided there.
    half_life
        Keep half of the events this old (such as "7d" or "12h"), a quarter of those twice as old,
        and test whether mean rewards changed. A number counts in the unit of a numeric time column.
        Needs a time column. Not with ``tallies``, and not on a cluster.
    known
        CSV of reviewed accounts (user, status honest or fake): fake ones do not count, honest ones
        are never flagged, and a group is cleared or flagged if its reviewed members show that most
        are honest or fake. Only with the default method.
    features
        Attributes to learn the contexts from, such as "country,age", instead of context columns.
        Numbers are cut into bins; anything else is a category. The first log of a folder of
        ``tallies`` fixes the contexts.
    max_leaves
        Most contexts that ``features`` may become.
    honest
        Take intervals from a half of the users who had no say in the contexts.
    trusted
        Features that the server sets, such as "hour", so that no account can claim them.
    advice
        Which model advises the contexts: a linear one ("auto"), none ("off"), or the column with
        the choices of your own model, which then is one more feature.
    partition
        Partition that was learned before, whose leaves are the contexts. Rows without a leaf are
        left out.
    """

    alpha: float | Auto = 0.1
    method: str = DEFAULT_METHOD
    design: DesignName = "auto"
    columns: Columns = field(default_factory=Columns)
    query: str | None = None
    on_bad_rows: str = "error"
    max_interactions_per_user: int | None = None
    min_propensity: float = MIN_PROPENSITY
    tallies: str | Path | None = None
    reward_range: RewardRange | str | None = None
    reward_deviation: float | None = None
    allow_unplayed: bool = False
    half_life: float | str | None = None
    known: str | Path | KnownAccounts | None = None
    features: Sequence[str] = ()
    max_leaves: int = MAX_LEAVES
    honest: bool = False
    trusted: Sequence[str] = ()
    advice: str = "auto"
    partition: Partition | None = None

    def __post_init__(self) -> None:
        checked: dict[str, Any] = {
            "alpha": check_fraction_or_auto(self.alpha),
            "method": known_method(self.method),
            "features": listed_names(self.features),
            "trusted": listed_names(self.trusted),
        }
        if self.reward_range is not None:
            checked["reward_range"] = parsed_reward_range(self.reward_range)
        if self.half_life is not None:
            checked["half_life"] = parsed_half_life(self.half_life)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        designs = get_args(DesignName)
        if self.design not in designs:
            raise InputError(
                f"{option('--design')} is {' or '.join(designs)}, not {self.design!r}."
            )
        check_bad_rows(self.on_bad_rows)
        check_min_propensity(self.min_propensity)
        if self.max_interactions_per_user is not None:
            check_cap(self.max_interactions_per_user)
        _ = self.rewards  # raises if a deviation is invalid
        if self.known is not None:
            if self.method != DEFAULT_METHOD:
                default = option("--method", DEFAULT_METHOD)
                raise InputError(f"{option('--known')} works with {default} only.")
            if not isinstance(self.known, KnownAccounts):
                object.__setattr__(self, "known", read_known(self.known))
        for name in ("half_life", "max_interactions_per_user"):
            if self.tallies is not None and getattr(self, name) is not None:
                raise InputError(
                    f"{option('--' + name.replace('_', '-'))} cannot be used with "
                    f"{option('--tallies')}: it needs the events of all days. Give these at "
                    "once, as a folder or pattern."
                )
        self._check_features()

    @property
    def rewards(self) -> RewardBound:
        """The given bound on rewards."""
        return reward_bound(self.reward_range, self.reward_deviation)

    def _check_features(self) -> None:
        """Add the features to the columns; raise if other options require or exclude features."""
        if self.partition is not None:
            if self.features not in ((), self.partition.names) or self.honest:
                raise InputError("a given partition fixes the features, and cannot be honest.")
            object.__setattr__(self, "features", self.partition.names)
        if not self.features:
            defaults = {"max_leaves": MAX_LEAVES, "honest": False, "trusted": (), "advice": "auto"}
            for name, default in defaults.items():
                if getattr(self, name) != default:
                    flag = option(f"--{name.replace('_', '-')}")
                    raise InputError(f"{flag} needs {option('--features')}.")
            return
        if not 1 <= self.max_leaves <= MOST_LEAVES:
            raise InputError(
                f"{option('--max-leaves')} is {self.max_leaves};"
                f" it must be from 1 to {MOST_LEAVES}."
            )
        for name in self.trusted:
            if name not in self.features:
                raise InputError(
                    f"{option('--trusted')} names {name!r}, which is not among the features "
                    f"({', '.join(self.features)})."
                )
        if self.tallies is not None and self.honest:
            raise InputError(
                f"{option('--honest')} cannot be used with {option('--tallies')}: a folder does "
                "not record which users shaped the contexts."
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
        if "adversarial_fraction" in changes:  # the old name of alpha
            old = LearnOptions(adversarial_fraction=changes.pop("adversarial_fraction"))  # type: ignore[call-arg]
            changes["alpha"] = old.alpha
        if "features" in changes:  # the columns contain the previous features
            columns = replace(changes.get("columns", self.columns), features=())
            changes["columns"] = columns
        own = [field.name for field in fields(LearnOptions)]
        names = {name: changes.pop(name) for name in changes.keys() - set(own)}
        if names:
            columns = changes.get("columns", self.columns)
            changes["columns"] = columns.renamed(names, others=own)
        return replace(self, **changes)
