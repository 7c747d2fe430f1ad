"""What every worker process knows of the store, refreshed within a second of any change."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from unswayed.policy import Decider
from unswayed.service.catalogue import (
    campaigns,
    change_number,
    plan_of,
    policy_of,
    unknown_campaign,
)
from unswayed.service.database import Connection, Database, StoreError
from unswayed.service.deciding import Serving
from unswayed.service.forgetting import forgotten_of
from unswayed.service.keys import Key, all_keys, had_keys
from unswayed.service.secret_file import Secrets, signing_keys
from unswayed.service.tokens import Signer

#: Ours: how often the store is asked whether anything changed; a look takes microseconds.
POLL_SECONDS = 0.25

logger = logging.getLogger("unswayed.service")


@dataclass(frozen=True, slots=True)
class State:
    """Campaigns with their plans, and keys, all of one moment.

    ``had_keys`` says that there is or was a key: without one nobody has access.
    """

    change: int = -1
    campaigns: Mapping[str, Serving] = field(default_factory=dict)
    keys: Mapping[str, Key] = field(default_factory=dict)
    had_keys: bool = False

    def campaign(self, name: str) -> Serving:
        """Return a campaign, or refuse its name."""
        try:
            return self.campaigns[name]
        except KeyError:
            raise unknown_campaign(name) from None


class Watcher:
    """Keeps the state and the signing keys of a process up to date.

    Attributes
    ----------
    state
        Replaced as a whole: a request sees one moment.
    """

    def __init__(self, database: Database, secrets: Secrets) -> None:
        self._database = database
        self.secrets = secrets
        self.signer: Signer
        self.state = State()
        self.is_connected = True
        self._connection: Connection | None = None
        self._lock = threading.Lock()
        self._is_stopping = threading.Event()
        self.refresh()
        self._thread = threading.Thread(target=self._run, name="store-watcher", daemon=True)
        self._thread.start()

    def refresh(self) -> None:
        """Look for changes now; ``StoreError`` if the store cannot be read."""
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._database.connect()
                change = change_number(self._connection)
                if change != self.state.change:
                    self.state = self._loaded(self._connection, change)
            except StoreError:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                self.is_connected = False
                raise
            self.is_connected = True

    def signer_for(self, token: str) -> Signer:
        """Return the signer; it looks into the store first if it does not know a token's key."""
        if not self.signer.knows(token) and self.is_connected:
            with contextlib.suppress(StoreError):
                self.refresh()
        return self.signer

    def stop(self) -> None:
        """End the thread and close its connection."""
        self._is_stopping.set()
        self._thread.join(timeout=5)
        if self._connection is not None:
            self._connection.close()

    def _run(self) -> None:
        while not self._is_stopping.wait(POLL_SECONDS):
            try:
                self.refresh()
            except StoreError:
                continue  # the last state stays
            except Exception:  # a thread that dies would leave the process behind for ever
                logger.exception("the state could not be refreshed")
                time.sleep(POLL_SECONDS)

    def _loaded(self, connection: Connection, change: int) -> State:
        found: dict[str, Serving] = {}
        for campaign in campaigns(connection):
            old = self.state.campaigns.get(campaign.name)
            if old is not None and (old.created_ms, old.plan_version) == (
                campaign.created_ms,
                campaign.plan_version,
            ):
                decider = old.decider  # with the users' digests that it keeps
                policy = old.ranking.policy
            else:
                plan, _ = plan_of(connection, campaign.name, campaign.plan_version)
                decider = Decider(plan, self.secrets.assignment)
                decider.decide("", campaign.settings.contexts[0])  # compiles, before anybody waits
                policy = policy_of(connection, campaign.name, campaign.policy_version)
            forgotten = forgotten_of(connection, campaign.name)
            found[campaign.name] = Serving.of(campaign, decider, policy, forgotten)
        self.signer = Signer(signing_keys(connection, self.secrets))
        return State(change, found, all_keys(connection), had_keys(connection))
