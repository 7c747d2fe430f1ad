"""Clients of the service; whatever they send again is safe to send again."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import httpx

#: Ours: tries of a request, and seconds before the second one; each wait is twice the last.
TRIES = 5
_FIRST_WAIT = 0.1

#: Statuses that mean: later.
_LATER = (429, 502, 503, 504)


class ServiceError(Exception):
    """The service refused a request; ``code`` is for programs and the message for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class ServedDecision:
    """A decision of the service; its token goes with the reward."""

    id: str
    action: str
    propensity: float
    mode: str
    plan: int
    token: str


@dataclass(frozen=True, slots=True)
class _Ask:
    """One request."""

    method: str
    path: str
    body: Any = None


class _Requests:
    """What both clients ask; every decision has an idempotency key, so it can be asked again."""

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign

    def _decide(self, user: str, context: str, key: str | None, more: Mapping[str, Any]) -> _Ask:
        body = {
            "user": user,
            "context": context,
            "idempotency_key": secrets.token_hex(16) if key is None else key,
            **more,
        }
        return _Ask("POST", f"/v1/{self._campaign}/decide", body)

    def _decide_many(self, rows: Iterable[tuple[str, str]], key: str | None) -> _Ask:
        key = secrets.token_hex(16) if key is None else key
        decisions = [
            {"user": user, "context": context, "idempotency_key": f"{key}-{number}"}
            for number, (user, context) in enumerate(rows)
        ]
        return _Ask("POST", f"/v1/{self._campaign}/decide/batch", {"decisions": decisions})

    def _reward(self, token: str, reward: float, reward_id: str) -> _Ask:
        body = {"token": token, "reward": reward, "reward_id": reward_id}
        return _Ask("POST", f"/v1/{self._campaign}/reward", body)

    def _reward_many(self, rows: Iterable[tuple[str, float]]) -> _Ask:
        rewards = [{"token": token, "reward": reward} for token, reward in rows]
        return _Ask("POST", f"/v1/{self._campaign}/reward/batch", {"rewards": rewards})

    def _activate(self, token: str) -> _Ask:
        return _Ask("POST", f"/v1/{self._campaign}/activate", {"token": token})


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _waits() -> Iterable[float]:
    """Yield the seconds before each further try, with chance: clients must not come back as one."""
    for number in range(TRIES - 1):
        yield _FIRST_WAIT * 2**number * random.uniform(0.5, 1.5)


def _checked(answer: httpx.Response) -> Any:
    if answer.is_success:
        return answer.json()
    try:
        error = answer.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        code, message = "no_service", f"{answer.url} answered {answer.status_code}."
    raise ServiceError(answer.status_code, code, message)


def _unreachable(address: object, error: httpx.TransportError) -> ServiceError:
    reason = str(error).removesuffix(".")
    return ServiceError(0, "unreachable", f"the service at {address} cannot be reached ({reason}).")


class Client(_Requests):
    """Asks a service for decisions and tells it rewards.

    Parameters
    ----------
    address
        Such as ``http://127.0.0.1:8321``.
    campaign
        Its name.
    key
        A key of role decide, reward or admin, if the service needs one.
    timeout
        Seconds for each try.

    Notes
    -----
    A request that was not answered, or with 429 or 503, is sent again, up to five times in about
    two seconds. Nothing counts twice: decisions carry an idempotency key, each of its own in a
    batch, and rewards a token.

    Examples
    --------
    ::

        with Client("http://127.0.0.1:8321", "shop") as client:
            decision = client.decide("ann", "lunch")
            client.reward(decision.token, 1.0)
    """

    def __init__(
        self, address: str, campaign: str, *, key: str | None = None, timeout: float = 5.0
    ) -> None:
        super().__init__(campaign)
        self._http = httpx.Client(base_url=address, headers=_headers(key), timeout=timeout)

    def decide(
        self, user: str, context: str, *, idempotency_key: str | None = None, **more: Any
    ) -> ServedDecision:
        """Return the action to show a user in a context; ``more`` as the route takes it."""
        return ServedDecision(**self._ask(self._decide(user, context, idempotency_key, more)))

    def decide_many(
        self, rows: Iterable[tuple[str, str]], *, idempotency_key: str | None = None
    ) -> list[dict[str, Any]]:
        """Return a decision, or an error, for each (user, context); the key is for all of them."""
        asked = self._decide_many(rows, idempotency_key)
        found: list[dict[str, Any]] = self._ask(asked)["decisions"]
        return found

    def reward(self, token: str, reward: float, *, reward_id: str = "") -> dict[str, Any]:
        """Tell a reward; it is durable when this returns."""
        found: dict[str, Any] = self._ask(self._reward(token, reward, reward_id))
        return found

    def reward_many(self, rows: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
        """Tell a reward for each (token, reward), and return an answer or an error for each."""
        found: list[dict[str, Any]] = self._ask(self._reward_many(rows))["rewards"]
        return found

    def activate(self, token: str) -> dict[str, Any]:
        """Tell that a deferred decision was shown."""
        found: dict[str, Any] = self._ask(self._activate(token))
        return found

    def get(self, path: str) -> Any:
        """Return what a route of the campaign says, such as ``status`` or ``learn``."""
        return self._ask(_Ask("GET", f"/v1/{self._campaign}/{path}"))

    def post(self, path: str, body: Any = None) -> Any:
        """Ask a route of the campaign to do something, such as ``learn``."""
        return self._ask(_Ask("POST", f"/v1/{self._campaign}/{path}", body))

    def patch(self, settings: Mapping[str, Any]) -> Any:
        """Change some settings of the campaign."""
        return self._ask(_Ask("PATCH", f"/v1/{self._campaign}", settings))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, ask: _Ask) -> Any:
        for wait in (*_waits(), None):
            try:
                answer = self._http.request(ask.method, ask.path, json=ask.body)
            except httpx.TransportError as error:
                if wait is None:
                    raise _unreachable(self._http.base_url, error) from error
            else:
                if wait is None or answer.status_code not in _LATER:
                    return _checked(answer)
            time.sleep(wait)
        raise AssertionError


class AsyncClient(_Requests):
    """``Client`` for asyncio."""

    def __init__(
        self, address: str, campaign: str, *, key: str | None = None, timeout: float = 5.0
    ) -> None:
        super().__init__(campaign)
        self._http = httpx.AsyncClient(base_url=address, headers=_headers(key), timeout=timeout)

    async def decide(
        self, user: str, context: str, *, idempotency_key: str | None = None, **more: Any
    ) -> ServedDecision:
        """Return the action to show a user in a context."""
        return ServedDecision(**await self._ask(self._decide(user, context, idempotency_key, more)))

    async def decide_many(
        self, rows: Iterable[tuple[str, str]], *, idempotency_key: str | None = None
    ) -> list[dict[str, Any]]:
        """Return a decision, or an error, for each (user, context); the key is for all of them."""
        asked = self._decide_many(rows, idempotency_key)
        found: list[dict[str, Any]] = (await self._ask(asked))["decisions"]
        return found

    async def reward(self, token: str, reward: float, *, reward_id: str = "") -> dict[str, Any]:
        """Tell a reward; it is durable when this returns."""
        found: dict[str, Any] = await self._ask(self._reward(token, reward, reward_id))
        return found

    async def reward_many(self, rows: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
        """Tell a reward for each (token, reward)."""
        found: list[dict[str, Any]] = (await self._ask(self._reward_many(rows)))["rewards"]
        return found

    async def activate(self, token: str) -> dict[str, Any]:
        """Tell that a deferred decision was shown."""
        found: dict[str, Any] = await self._ask(self._activate(token))
        return found

    async def get(self, path: str) -> Any:
        """Return what a route of the campaign says."""
        return await self._ask(_Ask("GET", f"/v1/{self._campaign}/{path}"))

    async def post(self, path: str, body: Any = None) -> Any:
        """Ask a route of the campaign to do something."""
        return await self._ask(_Ask("POST", f"/v1/{self._campaign}/{path}", body))

    async def patch(self, settings: Mapping[str, Any]) -> Any:
        """Change some settings of the campaign."""
        return await self._ask(_Ask("PATCH", f"/v1/{self._campaign}", settings))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask(self, ask: _Ask) -> Any:
        for wait in (*_waits(), None):
            try:
                answer = await self._http.request(ask.method, ask.path, json=ask.body)
            except httpx.TransportError as error:
                if wait is None:
                    raise _unreachable(self._http.base_url, error) from error
            else:
                if wait is None or answer.status_code not in _LATER:
                    return _checked(answer)
            await asyncio.sleep(wait)
        raise AssertionError
