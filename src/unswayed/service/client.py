"""Clients of the service, which retry requests without counting anything twice."""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import httpx

TRIES = 5  # Ours: attempts per request
_FIRST_WAIT = 0.1  # Ours: seconds before the second attempt; each wait doubles
_LATER = (429, 502, 503, 504)  # Statuses after which a request is retried


class ServiceError(Exception):
    """An error response of the service, with a machine-readable ``code`` and a message."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


@dataclass(frozen=True, slots=True)
class ServedDecision:
    """A decision of the service; send its ``token`` with the reward.

    ``mode`` tells why the action was chosen.
    """

    id: str
    action: str
    propensity: float
    mode: str
    plan: int
    token: str
    ranked: list[str] | None = None
    leaf: str | None = None
    is_known: bool = True

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> ServedDecision:
        """Parse a response; fields that later versions of the service added are ignored."""
        return cls(**{one.name: found[one.name] for one in fields(cls) if one.name in found})


Context = str | Mapping[str, Any]  # A context's name, or attributes in a campaign with features


def _where(context: Context) -> dict[str, Any]:
    return {"context" if isinstance(context, str) else "attributes": context}


def _waits() -> list[float | None]:
    """Return the seconds to wait after each attempt, with jitter; None after the last one."""
    seconds = [_FIRST_WAIT * 2**number * random.uniform(0.5, 1.5) for number in range(TRIES - 1)]
    return [*seconds, None]


def _checked(response: httpx.Response) -> Any:
    try:
        found = response.json()
        if response.is_success:
            return found
        code, message = str(found["error"]["code"]), str(found["error"]["message"])
    except (ValueError, KeyError, TypeError):  # for example on a proxy's error page
        code, message = "no_service", f"{response.url} returned status {response.status_code}."
    raise ServiceError(response.status_code, code, message)


def _unreachable(address: object, error: httpx.TransportError) -> ServiceError:
    reason = str(error).removesuffix(".")
    return ServiceError(0, "unreachable", f"the service at {address} cannot be reached ({reason}).")


class Client:
    """A client of the service: requests decisions and reports rewards.

    Parameters
    ----------
    address
        Address of the service, such as ``http://127.0.0.1:8321``.
    campaign
        Name of the campaign.
    key
        A key of role decide, reward or admin, if the service needs one.
    timeout
        Timeout of each attempt, in seconds.

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

    _kind: type[httpx.Client] | type[httpx.AsyncClient] = httpx.Client

    def __init__(
        self, address: str, campaign: str, *, key: str | None = None, timeout: float = 5.0
    ) -> None:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._path = f"/v1/{campaign}"
        self._http: Any = self._kind(base_url=address, headers=headers, timeout=timeout)

    def decide(
        self, /, user: str, context: Context, *, idempotency_key: str | None = None, **more: Any
    ) -> ServedDecision:
        """Return a decision.

        ``context`` is the name of a context or, in a campaign with features, a mapping of
        attributes; ``more`` are further fields of the request, such as ``actions``.
        """
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        body = {"user": user, **_where(context), "idempotency_key": key, **more}
        return self._ask("POST", "/decide", body, ServedDecision.of)

    def decide_many(
        self, rows: Iterable[tuple[str, Context]], *, idempotency_key: str | None = None
    ) -> list[ServedDecision | ServiceError]:
        """Return a decision or an error for each (user, context); one key covers the batch."""
        key = secrets.token_hex(16) if idempotency_key is None else idempotency_key
        decisions = [
            {"user": user, **_where(context), "idempotency_key": f"{key}-{number}"}
            for number, (user, context) in enumerate(rows)
        ]

        return self._ask("POST", "/decide/batch", {"decisions": decisions}, _read_batch)

    def reward(self, token: str, reward: float, *, reward_id: str = "") -> dict[str, Any]:
        """Report a reward; it is durable when this returns."""
        return self._ask(
            "POST", "/reward", {"token": token, "reward": reward, "reward_id": reward_id}, dict
        )

    def reward_many(self, rows: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
        """Report a reward for each (token, reward); return a result or an error for each."""
        body = {"rewards": [{"token": token, "reward": reward} for token, reward in rows]}
        return self._ask("POST", "/reward/batch", body, lambda found: list(found["rewards"]))

    def activate(self, token: str) -> dict[str, Any]:
        """Report that a deferred decision was shown."""
        return self._ask("POST", "/activate", {"token": token}, dict)

    def get(self, path: str) -> Any:
        """Return the result of a route of the campaign, such as ``status`` or ``learn``."""
        return self._ask("GET", f"/{path}", None, _as_it_is)

    def post(self, path: str, body: Any = None) -> Any:
        """Post to a route of the campaign, such as ``learn``."""
        return self._ask("POST", f"/{path}", body, _as_it_is)

    def patch(self, settings: Mapping[str, Any]) -> Any:
        """Change some settings of the campaign."""
        return self._ask("PATCH", "", settings, _as_it_is)

    def pixel(self, token: str) -> str:
        """Return the address of an image that reports a decision as shown when a page loads it.

        It needs no key. Prepend the address at which browsers reach the service.
        """
        return f"{self._path}/shown.gif?token={token}"

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, method: str, path: str, body: Any, read: Callable[[Any], Result]) -> Result:
        """Send a request until there is a response, and return the parsed response."""
        for wait in _waits():
            try:
                response = self._http.request(method, self._path + path, json=body)
            except httpx.TransportError as error:
                if wait is None:
                    raise _unreachable(self._http.base_url, error) from error
            else:
                if wait is None or response.status_code not in _LATER:
                    return read(_checked(response))
            time.sleep(wait)
        raise AssertionError


def _as_it_is(found: Any) -> Any:
    return found


def _read_batch(found: Any) -> list[ServedDecision | ServiceError]:
    return [
        ServiceError(422, row["error"]["code"], row["error"]["message"])
        if "error" in row
        else ServedDecision.of(row)
        for row in found["decisions"]
    ]


Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")


def _awaited(
    method: Callable[Concatenate[Client, Parameters], Result],
) -> Callable[Concatenate[Any, Parameters], Awaitable[Result]]:
    """Cast a method of ``Client`` to a coroutine method, for use in ``AsyncClient``."""
    return cast("Callable[Concatenate[Any, Parameters], Awaitable[Result]]", method)


class AsyncClient:
    """``Client`` for asyncio: the same methods, awaited."""

    _kind = httpx.AsyncClient
    __init__ = Client.__init__
    decide = _awaited(Client.decide)
    decide_many = _awaited(Client.decide_many)
    reward = _awaited(Client.reward)
    reward_many = _awaited(Client.reward_many)
    activate = _awaited(Client.activate)
    get = _awaited(Client.get)
    post = _awaited(Client.post)
    patch = _awaited(Client.patch)
    pixel = Client.pixel
    _http: httpx.AsyncClient
    _path: str

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _ask(
        self, method: str, path: str, body: Any, read: Callable[[Any], Result]
    ) -> Result:
        """Send a request until there is a response, and return the parsed response."""
        for wait in _waits():
            try:
                response = await self._http.request(method, self._path + path, json=body)
            except httpx.TransportError as error:
                if wait is None:
                    raise _unreachable(self._http.base_url, error) from error
            else:
                if wait is None or response.status_code not in _LATER:
                    return read(_checked(response))
            await asyncio.sleep(wait)
        raise AssertionError
