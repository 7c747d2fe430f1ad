"""Settings of a campaign: its labels, how it decides, and when rewards count."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from unswayed.errors import InputError
from unswayed.events.events import LARGEST_REWARD
from unswayed.events.known import read_known
from unswayed.learners.methods import DEFAULT_METHOD, method_named
from unswayed.learners.unknown_fraction import check_fraction_or_auto
from unswayed.names import find

Mode = Literal["learn", "serve", "shadow"]
Aggregation = Literal["first", "sum", "max"]

#: Ours: bytes of a label, so that a token stays short.
LONGEST_LABEL = 256

#: Ours: labels of one kind.
MOST_LABELS = 100_000

#: Ours: seconds that decisions are kept after their window at least.
_SHORTEST_RETENTION = 60.0

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
RESERVED_NAMES = frozenset({"campaigns", "keys", "signing-keys", "openapi.json"})

#: What some settings must lie between: a control group is at most half of the users, and a reward
#: comes within a year.
_RANGES = (
    ("explore_share", 0.0, 1.0),
    ("control_share", 0.0, 0.5),
    ("webhook_share", 0.0, 1.0),
    ("reward_window", 0.001, 366 * 86400.0),
    ("learn_every", 0.0, 1e12),
    ("target", 1e-12, 1e6),
)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings of a campaign; the fields of its TOML table and of its JSON.

    Parameters
    ----------
    contexts, actions
        Labels. More can be added while the service runs; none can be removed.
    alpha
        Share of users that may collude, or "auto".
    method
        How to learn, as ``unswayed learn --method``.
    mode
        "learn": all users explore as planned. "serve": the policy is played, and a share
        ``explore_share`` of the users explores. "shadow": the caller's own action is returned, and
        the action that the plan would have chosen is recorded.
    explore_share
        Share of users who explore in serve mode.
    control_share
        Share of users in the control group, who get the baseline; at most a half.
    baseline
        The action of the control group, and of all users before anything was learned; the first
        action if empty.
    reward_window
        Seconds after a decision within which its reward is accepted.
    default_reward
        What a decision without a reward counts as when its window closes.
    aggregation
        How several rewards of one decision become one: "first", "sum" or "max".
    is_deferred
        Whether decisions count only once they are activated.
    lowest_reward, highest_reward
        Rewards outside are rejected. Stated both, they are the range that learning rests on: see
        ``unswayed learn --reward-range``.
    max_interactions_per_user
        Cap on the interactions of a user that count; further ones are served and recorded.
    activate_learned
        Whether a policy is served as soon as it is learned.
    learn_every
        Seconds between automatic learning jobs; 0: only on request.
    retention
        Seconds for which decisions and rewards are kept and used; 0: no limit.
    target
        Target loss per decision; the status reports the progress towards it.
    daily_report
        Whether to store a report every day.
    webhook, webhook_share
        Where a report is sent if its audit estimates a share of colluders above this one.
    """

    contexts: tuple[str, ...]
    actions: tuple[str, ...]
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
        for kind, labels, least in (("context", self.contexts, 1), ("action", self.actions, 2)):
            if not least <= len(labels) <= MOST_LABELS:
                raise InputError(
                    f"there are {len(labels)} {kind}s; give between {least} and {MOST_LABELS:,}."
                )
            for label in labels:
                check_label(kind, label)
            for label, times in Counter(labels).items():
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
        if self.webhook and not self.webhook.startswith(("http://", "https://")):
            raise InputError("webhook is an address that begins with http:// or https://.")
        if self.max_interactions_per_user is not None and self.max_interactions_per_user < 1:
            raise InputError("max_interactions_per_user is at least 1, or left out.")
        return self

    def forgotten_before(self, now_ms: int) -> int:
        """Return the time before which decisions are deleted."""
        return int(now_ms - 1000.0 * self.retention) if self.retention else 0

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The range of rewards if both of its ends were stated."""
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

    def with_labels(self, *, contexts: list[str], actions: list[str]) -> Settings:
        """Return the settings with labels added that are not there yet."""
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
            f"{name[:80]!r} cannot name a campaign: use up to 64 of a-z, 0-9, - and _, not one of "
            f"{', '.join(sorted(RESERVED_NAMES))}."
        )
    return name


def parsed_settings(value: Mapping[str, Any], where: str) -> Settings:
    """Return the settings of plain values, or a sentence that names the wrong one."""
    try:
        return _converted(value, Settings).checked()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


_Struct = TypeVar("_Struct", bound=msgspec.Struct)


def _converted(value: Any, kind: type[_Struct], what: str = "setting") -> _Struct:
    """Return plain values as a struct, or a sentence that names the wrong one."""
    if isinstance(value, Mapping):
        fields = dict.fromkeys(kind.__struct_fields__)
        for name in value:
            find(str(name), fields, kind=what)
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        text, _, place = str(error).partition(" - at `$.")
        at = f"{place.rstrip('`')}: " if place else ""
        raise InputError(f"{at}{text[0].lower()}{text[1:]}.") from None


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The table ``[server]`` of the configuration.

    Parameters
    ----------
    max_request_bytes, max_batch
        Larger requests get 413.
    requests_per_second
        For each key, or each address without keys, and each worker process; beyond it 429.
    decide_without_store
        Whether to keep deciding by the last plan while the store is unavailable. Decisions are
        recorded once it is back; beyond 200,000 the oldest are lost unless their reward comes.
    max_header_bytes
        Longer headers get 431.
    request_seconds
        A request that is not complete by then gets 408, and a client that does not read its
        response is cut off.
    keep_alive_seconds
        How long a connection may idle between requests.
    max_connections
        Of each worker process; beyond it the connection that has been waited for longest is closed.
    log_level, log_format
        What is logged to standard error: debug, info, warning or error, as text or json.
    log_requests
        Whether to log a line for each request, with its id.
    known
        CSV of reviewed accounts (user, status honest or fake), read by every learning and audit of
        campaigns with the default method: see ``unswayed learn --known``.
    """

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
        """Return the settings, or raise an error if they would reject every request."""
        for name in (
            "max_request_bytes",
            "max_batch",
            "requests_per_second",
            "max_header_bytes",
            "request_seconds",
            "keep_alive_seconds",
            "max_connections",
        ):
            if not getattr(self, name) >= 1:
                raise InputError(f"{name} is {getattr(self, name)}: it must be at least 1.")
        if self.known:
            read_known(self.known)
        return self


class Configuration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A TOML file: ``[server]``, and ``[campaigns.NAME]`` for each campaign."""

    server: ServerSettings = ServerSettings()
    campaigns: dict[str, Settings] = {}


#: What is served without a configuration.
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
    """Read a configuration, or raise an error that names what is wrong with it."""
    try:
        value = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"cannot read the configuration {path}: {error.strerror}; name one that is there."
        ) from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not TOML: it is not UTF-8 text.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not TOML: {error}.") from error
    tables = dict.fromkeys(Configuration.__struct_fields__)
    try:
        for name in value:
            find(name, tables, kind="table")
        server = _converted(value.get("server", {}), ServerSettings).checked()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    campaigns = value.get("campaigns", {})
    if not isinstance(campaigns, Mapping):
        raise InputError(f"{path}: campaigns is not a table; write [campaigns.NAME] for each.")
    found = {}
    for name, settings in campaigns.items():
        where = f"{path}, campaign {name!r}"
        try:
            check_name(name)
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        found[name] = parsed_settings(settings, where)
    return Configuration(server=server, campaigns=found)


def with_known(configuration: Configuration, path: Path) -> Configuration:
    """Return a configuration whose learnings and audits use a file of reviewed accounts."""
    server = msgspec.structs.replace(configuration.server, known=str(path.absolute())).checked()
    return msgspec.structs.replace(configuration, server=server)
