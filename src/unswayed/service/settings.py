"""Settings of a campaign: its labels, how it decides, and when rewards count."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
import pyarrow as pa

from unswayed.errors import InputError
from unswayed.events import Labels
from unswayed.events.events import LARGEST_REWARD
from unswayed.events.known import read_known
from unswayed.learners.methods import DEFAULT_METHOD, method_named
from unswayed.learners.unknown_fraction import check_fraction_or_auto
from unswayed.names import find
from unswayed.policy import Policy

Mode = Literal["learn", "serve", "shadow"]
Aggregation = Literal["first", "sum", "max"]

LONGEST_LABEL = 256  # Ours: maximum bytes of a label, so that a token stays short
MOST_LABELS = 100_000  # Ours: maximum number of labels of one kind
_MOST_INTERACTIONS = 10**9  # Ours: maximum cap on the interactions of a user
_SHORTEST_RETENTION = 60.0  # Ours: minimum seconds between the end of a reward window and deletion
MOST_FEATURES = 32  # Ours: maximum number of attributes of a campaign
MOST_EDGES = 15  # Ours: maximum number of inner bin edges of a numeric feature

SCHEMA = pa.schema(
    [
        ("decision", pa.string()),
        ("time_ms", pa.int64()),
        ("user", pa.string()),
        ("context", pa.string()),
        ("action", pa.string()),
        ("reward", pa.float64()),
        ("propensity", pa.float64()),
        ("mode", pa.string()),
        ("mode_propensity", pa.float64()),
        ("n_rewards", pa.int64()),
        ("plan", pa.int64()),
        ("planned_action", pa.string()),
        ("planned_propensity", pa.float64()),
        ("eligible", pa.list_(pa.string())),
    ]
)
"""Columns of an export.

``propensity`` is the probability of the action over random secrets, ``mode_propensity`` the same
given the mode. In shadow mode both are the caller's propensity, or null if it gave none.
``n_rewards`` is 0 if the default reward was used. ``eligible`` lists the eligible actions, or is
null if the caller listed none. With features there are further columns: one for each feature, and
``partition``, the SHA-256 of the partition in which ``context`` is a leaf.
"""

EXPORTED = frozenset((*SCHEMA.names, "partition"))
"""Names that features cannot have, because they are columns of exports."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
RESERVED_NAMES = frozenset({"campaigns", "keys", "signing-keys", "openapi.json"})

#: Allowed ranges of numeric settings. The control group is limited to half of the users, and the
#: reward window to a year.
_RANGES = (
    ("explore_share", 0.0, 1.0),
    ("control_share", 0.0, 0.5),
    ("webhook_share", 0.0, 1.0),
    ("reward_window", 0.001, 366 * 86400.0),
    ("learn_every", 0.0, 1e12),
    ("retention", 0.0, 1e12),
    ("target", 1e-12, 1e6),
)


class FeatureSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An attribute of users or visits from which contexts are learned.

    Parameters
    ----------
    type
        "category", or "number".
    levels
        Values of a category; any other value counts as "(other)". By default, all values.
    bins
        Increasing inner bin edges of a number. By default, quantiles over users.
    trusted
        Whether your own server sets the value, so that accounts cannot choose it.
    """

    type: Literal["category", "number"] = "category"
    levels: tuple[str, ...] = ()
    bins: tuple[float, ...] = ()
    trusted: bool = False

    def check(self, name: str) -> None:
        """Raise an error if the declaration is invalid."""
        check_label("feature", name)
        if name in EXPORTED:
            raise InputError(f"feature {name!r} has the name of a column of exports; rename it.")
        for level in self.levels:
            check_label(f"level of feature {name!r}", level)
        if self.bins if self.type == "category" else self.levels:
            raise InputError(
                f"feature {name!r} is a {self.type}; levels are for categories, and bins for "
                "numbers."
            )
        is_good = all(map(math.isfinite, self.bins)) and list(self.bins) == sorted(set(self.bins))
        if not is_good or len(self.bins) > MOST_EDGES:
            raise InputError(
                f"the bins of feature {name!r} must be at most {MOST_EDGES} increasing numbers."
            )


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a campaign: the fields of its TOML table and of its JSON.

    ``docs/service-reference.md`` describes each of them.
    """

    actions: tuple[str, ...]
    contexts: tuple[str, ...] = ()
    features: dict[str, FeatureSettings] = {}
    alpha: float | Literal["auto"] = 0.1
    method: str = DEFAULT_METHOD
    mode: Mode = "learn"
    explore_share: float = 0.1
    control_share: float = 0.0
    baseline: str = ""
    reward_window: float = 3600.0
    default_reward: float = 0.0
    aggregation: Aggregation = "first"
    is_deferred: bool = False
    lowest_reward: float = -LARGEST_REWARD
    highest_reward: float = LARGEST_REWARD
    max_interactions_per_user: int | None = None
    activate_learned: bool = True
    learn_every: float = 0.0
    retention: float = 0.0
    target: float = 0.05
    daily_report: bool = False
    webhook: str = ""
    webhook_share: float = 0.05

    def checked(self) -> Settings:
        """Return the settings, or raise an error that names an invalid one."""
        if self.features and self.contexts:
            raise InputError("give contexts or features, not both: contexts are learned from them.")
        if len(self.features) > MOST_FEATURES:
            raise InputError(f"there are {len(self.features)} features; {MOST_FEATURES} at most.")
        for name, feature in self.features.items():
            feature.check(name)
        for kind, labels, least in (
            ("context", self.contexts, 0 if self.features else 1),
            ("action", self.actions, 2),
        ):
            if not least <= len(labels) <= MOST_LABELS:
                raise InputError(
                    f"there are {len(labels)} {kind}s; give between {least} and {MOST_LABELS:,}."
                )
            for label, times in Counter(labels).items():
                check_label(kind, label)
                if times > 1:
                    raise InputError(f"the {kind} {label!r} is given twice; give each once.")
        check_fraction_or_auto(self.alpha, name="alpha")
        method_named(self.method)
        for name, low, high in _RANGES:
            if not low <= getattr(self, name) <= high:
                raise InputError(
                    f"{name} is {getattr(self, name)}: it must lie between {low:g} and {high:g}."
                )
        if self.baseline and self.baseline not in self.actions:
            raise InputError(f"baseline {self.baseline!r} is not one of the actions.")
        if self.retention and not self.retention >= self.reward_window + _SHORTEST_RETENTION:
            raise InputError(
                f"retention is {self.retention}: keep decisions for at least "
                f"{_SHORTEST_RETENTION:g} seconds longer than reward_window, or 0 for no limit."
            )
        if not -LARGEST_REWARD <= self.lowest_reward < self.highest_reward <= LARGEST_REWARD:
            raise InputError("lowest_reward must be below highest_reward, both within ±1e30.")
        self.check_reward(self.default_reward, "default_reward")
        is_address = self.webhook.startswith(("http://", "https://")) and self.webhook.isprintable()
        if self.webhook and not is_address:
            raise InputError("webhook must be an address that begins with http:// or https://.")
        cap = self.max_interactions_per_user
        if cap is not None and not 1 <= cap <= _MOST_INTERACTIONS:
            raise InputError(
                f"max_interactions_per_user is {cap}: it must lie between 1 and "
                f"{_MOST_INTERACTIONS:,}; leave it out for no cap."
            )
        return self

    def forgotten_before(self, now_ms: int) -> int:
        """Return the time before which decisions are deleted."""
        return int(now_ms - 1000.0 * self.retention) if self.retention else 0

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The range of rewards, or None unless both of its ends are set."""
        low, high = self.lowest_reward, self.highest_reward
        return None if low == -LARGEST_REWARD or high == LARGEST_REWARD else (low, high)

    @property
    def held_action(self) -> str:
        """The action of the control group."""
        return self.baseline or self.actions[0]

    @property
    def explorer_share(self) -> float:
        """The share of users who explore in this mode."""
        return 1.0 if self.mode == "learn" else self.explore_share

    def check_reward(self, value: float, name: str = "reward") -> float:
        """Return a reward, or raise an error if it is out of range."""
        if not math.isfinite(value) or not self.lowest_reward <= value <= self.highest_reward:
            raise InputError(
                f"{name} is {value:g}: it must lie between {self.lowest_reward:g} and "
                f"{self.highest_reward:g}."
            )
        return value

    def with_labels(self, *, contexts: Sequence[str] = (), actions: Sequence[str] = ()) -> Settings:
        """Return the settings with additional labels; existing labels are kept once."""
        return msgspec.structs.replace(
            self,
            contexts=tuple(dict.fromkeys((*self.contexts, *contexts))),
            actions=tuple(dict.fromkeys((*self.actions, *actions))),
        ).checked()


def check_label(kind: str, label: str) -> str:
    """Return a label, or raise an error if it is invalid."""
    try:
        n_bytes = len(label.encode())
    except UnicodeEncodeError:
        raise InputError(f"the {kind} {label!r} is not valid Unicode text.") from None
    if not 1 <= n_bytes <= LONGEST_LABEL or "\0" in label:
        raise InputError(
            f"{kind} has {n_bytes} bytes: give between 1 and {LONGEST_LABEL}, without NUL."
        )
    return label


def check_name(name: str) -> str:
    """Return a campaign's name, or raise an error if it is invalid."""
    if not _NAME.fullmatch(name) or name in RESERVED_NAMES:
        raise InputError(
            f"{name[:80]!r} cannot name a campaign: use up to 64 characters from a-z, 0-9, - and "
            f"_; reserved names are {', '.join(sorted(RESERVED_NAMES))}."
        )
    return name


@contextmanager
def _within(where: str) -> Iterator[None]:
    """Prefix errors with their location in the configuration."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def parsed_settings(value: Mapping[str, Any], where: str) -> Settings:
    """Convert plain values to settings; errors name the invalid setting."""
    features = value.get("features") if isinstance(value, Mapping) else None
    for name, feature in features.items() if isinstance(features, Mapping) else ():
        with _within(f"{where}, feature {name!r}"):
            _converted(feature, FeatureSettings)
    with _within(where):
        return _converted(value, Settings).checked()


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def _converted(value: Any, kind: type[_Struct]) -> _Struct:
    """Convert plain values to a struct; errors name the invalid field."""
    if isinstance(value, Mapping):
        fields = dict.fromkeys(kind.__struct_fields__)
        for name in value:
            find(str(name), fields, kind="setting")
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        at = f"{place.rstrip('`')}: " if place else ""
        raise InputError(f"{at}{text[0].lower()}{text[1:]}.") from None


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[server]`` of the configuration; ``docs/service-reference.md`` describes it."""

    max_request_bytes: int = 1_000_000
    max_batch: int = 1_000
    requests_per_second: float = 20_000.0
    decide_without_store: bool = False
    max_header_bytes: int = 65_536
    request_seconds: float = 20.0
    keep_alive_seconds: int = 5
    max_connections: int = 1_000
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"
    log_requests: bool = False
    known: str = ""

    def checked(self) -> ServerSettings:
        """Return the settings, or raise an error if a limit is below 1 or ``known`` is invalid."""
        for name, value in msgspec.structs.asdict(self).items():
            if type(value) in (int, float) and not value >= 1:
                raise InputError(f"{name} is {value}: it must be at least 1.")
        if self.known:
            read_known(self.known)
        return self


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a TOML file: ``[server]``, and ``[campaigns.NAME]`` for each campaign.

    ``policies`` are the initial policies of campaigns with ``policy = "FILE"``.
    """

    server: ServerSettings = ServerSettings()
    campaigns: dict[str, Settings] = {}
    policies: dict[str, Policy] = {}


#: The configuration used if none is given.
DEMO = Configuration(
    campaigns={
        "demo": Settings(
            contexts=("breakfast", "lunch", "dinner"),
            actions=("porridge", "soup", "curry", "cola"),
            reward_window=60.0,
        )
    }
)


def load_configuration(path: Path) -> Configuration:
    """Read a configuration, or raise an error that names the invalid setting."""
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"cannot read the configuration {path}: {error.strerror}; name an existing file."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not TOML: it is not UTF-8 text.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    return _configuration(value, path)


def policy_configuration(path: Path) -> Configuration:
    """Return a configuration with one campaign, named after the policy file that it serves."""
    return _configuration({"campaigns": {path.stem.lower(): {"policy": path.name}}}, path)


def _configuration(value: Mapping[str, Any], path: Path) -> Configuration:
    with _within(str(path)):
        for name in value:
            find(name, {"server": None, "campaigns": None}, kind="table")
        server = _converted(value.get("server", {}), ServerSettings).checked()
    campaigns = value.get("campaigns", {})
    if not isinstance(campaigns, Mapping):
        raise InputError(f"{path}: campaigns is not a table; write [campaigns.NAME] for each.")
    found, policies = {}, {}
    for name, table in campaigns.items():
        where = f"{path}, campaign {name!r}"
        with _within(where):
            check_name(name)
            if isinstance(table, Mapping) and "policy" in table:
                policies[name], table = _with_policy(table, path.parent)
        found[name] = parsed_settings(table, where)
    return Configuration(server=server, campaigns=found, policies=policies)


def _with_policy(table: Mapping[str, Any], folder: Path) -> tuple[Policy, dict[str, Any]]:
    """Return the initial policy of a campaign, and the campaign's other settings."""
    path = folder / str(table["policy"])
    policy = Policy.load(path)
    # Requests carry labels as text.
    contexts, actions = (
        [str(one) for one in of] for of in (policy.context_labels, policy.action_labels)
    )
    policy = replace(policy, context_labels=Labels.of(contexts), action_labels=Labels.of(actions))
    learned = {"contexts": contexts, "actions": actions, "alpha": policy.alpha, "mode": "serve"}
    if policy.partition is not None:
        del learned["contexts"]
        learned["features"] = {
            one.name: {"type": "number" if one.is_number else "category", "trusted": one.is_trusted}
            for one in policy.partition.features
        }
    return policy, {**learned, **{name: one for name, one in table.items() if name != "policy"}}


def with_known(configuration: Configuration, path: Path) -> Configuration:
    """Return the configuration with a file of reviewed accounts for learning and audits."""
    server = msgspec.structs.replace(configuration.server, known=str(path.absolute())).checked()
    return msgspec.structs.replace(configuration, server=server)
