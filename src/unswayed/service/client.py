"""Clients of the service; retries are idempotent."""

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

#: Ours: attempts per request, and the first wait in seconds; each wait doubles.
TRIES = 5
_FIRST_WAIT = 0.1

#: Statuses after which a request is retried.
_LATER = (429, 502, 503, 504)


class ServiceError(Exception):
    """An error response of the service, with a machine-readable ``code`` and a message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class ServedDecision:
    """A decision of the service; its token goes with the reward, and ``mode`` is the reason."""

    id: str
    action: str
    propensity: float
    mode: str
    plan: int
    token: str
    ranked: list[str] | None = None


#: A request: method, path and body.
_Ask = tuple[str, str, Any]


class _Requests:
    """The requests of both clients; decisions have idempotency keys, so they can be retried."""

    def __init__(self, campaign: str) -> None:
        self._campaign = campaign

    def _decide(self, user: str, context: str, key: str | None, more: Mapping[str, Any]) -> _Ask:
        body = {
            "user": user,
            "context": context,
            "idempotency_key": secrets.token_hex(16) if key is None else key,
            **more,
        }
        return ("POST", f"/v1/{self._campaign}/decide", body)

    def _decide_many(self, rows: Iterable[tuple[str, str]], key: str | None) -> _Ask:
        key = secrets.token_hex(16) if key is None else key
        decisions = [
            {"user": user, "context": context, "idempotency_key": f"{key}-{number}"}
            for number, (user, context) in enumerate(rows)
        ]
        return ("POST", f"/v1/{self._campaign}/decide/batch", {"decisions": decisions})

    def _reward(self, token: str, reward: float, reward_id: str) -> _Ask:
        body = {"token": token, "reward": reward, "reward_id": reward_id}
        return ("POST", f"/v1/{self._campaign}/reward", body)

    def _reward_many(self, rows: Iterable[tuple[str, float]]) -> _Ask:
        rewards = [{"token": token, "reward": reward} for token, reward in rows]
        return ("POST", f"/v1/{self._campaign}/reward/batch", {"rewards": rewards})

    def _activate(self, token: str) -> _Ask:
        return ("POST", f"/v1/{self._campaign}/activate", {"token": token})

    def pixel(self, token: str) -> str:
        """Return the address of an image that reports a decision as shown when a page loads it.

        It needs no key; put the address at which browsers reach the service in front of it.
        """
        return f"/v1/{self._campaign}/shown.gif?token={token}"


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _waits() -> Iterable[float]:
    """Yield the seconds before each retry, with jitter."""
    for number in range(TRIES - 1):
        yield _FIRST_WAIT * 2**number * random.uniform(0.5, 1.5)


def _checked(response: httpx.Response) -> Any:
    if response.is_success:
        return response.json()
    try:
        error = response.json()["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        code, message = "no_service", f"{response.url} returned status {response.status_code}."
    raise ServiceError(response.status_code, code, message)


def _decisions(found: Any) -> list[ServedDecision | ServiceError]:
    return [
        ServiceError(422, row["error"]["code"], row["error"]["message"])
        if "error" in row
        else ServedDecision(**row)
        for row in found["decisions"]
    ]


def _unreachable(address: object, error: httpx.TransportError) -> ServiceError:
    reason = str(error).removesuffix(".")
    return ServiceError(0, "unreachable", f"the service at {address} cannot be reached ({reason}).")


class Client(_Requests):
    """A client of the service: requests decisions and reports rewards.

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
    A request without a response, or with status 429 or 503, is retried up to five times within
    about two seconds. Nothing counts twice: every decision has an idempotency key, also in a
    batch, and every reward a token.

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
        """Return a decision; ``more`` holds further fields of the request, such as ``actions``."""
        return ServedDecision(**self._ask(self._decide(user, context, idempotency_key, more)))

    def decide_many(
        self, rows: Iterable[tuple[str, str]], *, idempotency_key: str | None = None
    ) -> list[ServedDecision | ServiceError]:
        """Return a decision, or an error, for each (user, context); the key is for all of them."""
        return _decisions(self._ask(self._decide_many(rows, idempotency_key)))

    def reward(self, token: str, reward: float, *, reward_id: str = "") -> dict[str, Any]:
        """Report a reward; it is durable when this returns."""
        found: dict[str, Any] = self._ask(self._reward(token, reward, reward_id))
        return found

    def reward_many(self, rows: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
        """Report a reward for each (token, reward); return a result or an error for each."""
        found: list[dict[str, Any]] = self._ask(self._reward_many(rows))["rewards"]
        return found

    def activate(self, token: str) -> dict[str, Any]:
        """Report that a deferred decision was shown."""
        found: dict[str, Any] = self._ask(self._activate(token))
        return found

    def get(self, path: str) -> Any:
        """Return the result of a route of the campaign, such as ``status`` or ``learn``."""
        return self._ask(("GET", f"/v1/{self._campaign}/{path}", None))

    def post(self, path: str, body: Any = None) -> Any:
        """Post to a route of the campaign, such as ``learn``."""
        return self._ask(("POST", f"/v1/{self._campaign}/{path}", body))

    def patch(self, settings: Mapping[str, Any]) -> Any:
        """Change some settings of the campaign."""
        return self._ask(("PATCH", f"/v1/{self._campaign}", settings))

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
                response = self._http.request(ask[0], ask[1], json=ask[2])
            except httpx.TransportError as error:
                if wait is None:
                    raise _unreachable(self._http.base_url, error) from error
            else:
                if wait is None or response.status_code not in _LATER:
                    return _checked(response)
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
        """Return a decision."""
        return ServedDecision(**await self._ask(self._decide(user, context, idempotency_key, more)))

    async def decide_many(
        self, rows: Iterable[tuple[str, str]], *, idempotency_key: str | None = None
    ) -> list[ServedDecision | ServiceError]:
        """Return a decision, or an error, for each (user, context); the key is for all of them."""
        return _decisions(await self._ask(self._decide_many(rows, idempotency_key)))

    async def reward(self, token: str, reward: float, *, reward_id: str = "") -> dict[str, Any]:
        """Report a reward; it is durable when this returns."""
        found: dict[str, Any] = await self._ask(self._reward(token, reward, reward_id))
        return found

    async def reward_many(self, rows: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
        """Report a reward for each (token, reward); return a result or an error for each."""
        found: list[dict[str, Any]] = (await self._ask(self._reward_many(rows)))["rewards"]
        return found

    async def activate(self, token: str) -> dict[str, Any]:
        """Report that a deferred decision was shown."""
        found: dict[str, Any] = await self._ask(self._activate(token))
        return found

    async def get(self, path: str) -> Any:
        """Return the result of a route of the campaign."""
        return await self._ask(("GET", f"/v1/{self._campaign}/{path}", None))

    async def post(self, path: str, body: Any = None) -> Any:
        """Post to a route of the campaign."""
        return await self._ask(("POST", f"/v1/{self._campaign}/{path}", body))

    async def patch(self, settings: Mapping[str, Any]) -> Any:
        """Change some settings of the campaign."""
        return await self._ask(("PATCH", f"/v1/{self._campaign}", settings))

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
                response = await self._http.request(ask[0], ask[1], json=ask[2])
            except httpx.TransportError as error:
                if wait is None:
                    raise _unreachable(self._http.base_url, error) from error
            else:
                if wait is None or response.status_code not in _LATER:
                    return _checked(response)
            await asyncio.sleep(wait)
        raise AssertionError
