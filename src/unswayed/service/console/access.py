"""Access to the console: with an admin's key, or from this machine while there is no key."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from unswayed.service.calls import Runtime, check_origin
from unswayed.service.errors import Refusal
from unswayed.service.keys import Key, key_of

COOKIE = "unswayed_console"

#: Ours: one signs in again after this long.
SESSION_SECONDS = 12 * 3600


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who may look; ``key`` is None on this machine while there is no key."""

    key: Key | None

    def may_see(self, campaign: str) -> bool:
        """Whether a campaign's pages are open to them."""
        return self.key is None or self.key.may((), campaign)


def viewer_of(request: Request) -> Viewer | None:
    """Return who asks; None for those who have to sign in first."""
    runtime: Runtime = request.app.state.runtime
    keys = runtime.service.watcher.state.keys
    if not runtime.needs_keys:
        check_origin(dict(request.scope["headers"]))
        return Viewer(None)
    key = _key_of_session(request.cookies.get(COOKIE, ""), keys, _secret(runtime))
    if key is None:
        return None
    runtime.rates.take(key.id)
    return Viewer(key)


def check_same_origin(request: Request) -> None:
    """Reject forms sent from other sites; browsers always send the origin."""
    origin = request.headers.get("origin", "")
    if not origin.partition("://")[2] or origin.partition("://")[2] != request.headers.get("host"):
        raise Refusal(403, "cross_site", "this form was not sent from a page of this service.")


def sign_in(request: Request, presented: str, response: Response) -> None:
    """Begin a session with an admin's key, or refuse it; the key itself is not kept."""
    runtime: Runtime = request.app.state.runtime
    key = key_of(presented, runtime.service.watcher.state.keys)
    if key.role != "admin":
        raise Refusal(403, "forbidden", "the console needs an admin's key.")
    expires = str(int(time.time()) + SESSION_SECONDS)
    response.set_cookie(
        COOKIE,
        f"{key.id}.{expires}.{_tag(key, expires, _secret(runtime))}",
        max_age=SESSION_SECONDS,
        httponly=True,
        samesite="strict",
        # Behind a proxy only the browser knows whether the way to it is encrypted.
        secure=request.headers.get("origin", "").startswith("https://"),
    )


def sign_out(response: Response) -> None:
    """End the session of a browser."""
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")


def _key_of_session(cookie: str, keys: Mapping[str, Key], secret: bytes) -> Key | None:
    """Return the key a session was begun with; None if it is over, forged, or the key removed."""
    key_id, _, rest = cookie.partition(".")
    expires, _, tag = rest.partition(".")
    key = keys.get(key_id)
    if key is None or not (expires.isascii() and expires.isdigit() and len(expires) <= 12):
        return None
    expected = _tag(key, expires, secret)
    if not hmac.compare_digest(tag.encode(), expected.encode()) or int(expires) < time.time():
        return None
    return key if key.role == "admin" else None


def _secret(runtime: Runtime) -> bytes:
    return runtime.service.watcher.secrets.assignment


def _tag(key: Key, expires: str, secret: bytes) -> str:
    # The name in front keeps these tags apart from all else that the secret is used for.
    said = f"unswayed console session {key.id} {expires} {key.hash}"
    return hmac.new(secret, said.encode(), hashlib.sha256).hexdigest()
