"""An OpenFeature provider: campaigns are flags, decisions are their values.

The flag's key names the campaign, the targeting key the user, and the attribute ``context`` the
context; without it, all attributes are those of a campaign with features. The value is the action;
token, propensity and mode are in the metadata of the flag, and ``track`` reports the reward of a
token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, partialmethod
from typing import Any

try:
    from openfeature.evaluation_context import EvaluationContext
    from openfeature.exception import ErrorCode
    from openfeature.flag_evaluation import FlagResolutionDetails, Reason
    from openfeature.provider import AbstractProvider, Metadata
    from openfeature.track import TrackingEventDetails
except ImportError as error:  # pragma: no cover  # tested in an environment without it
    from unswayed.errors import InputError

    raise InputError(
        "the OpenFeature provider needs its SDK: install unswayed with the extra 'openfeature'."
    ) from error

from unswayed.service.client import Client, ServiceError

_FIELDS = ("actions", "is_deferred", "idempotency_key")  # Attributes that are part of the request

#: Fields of a decision that are in the metadata of its flag.
_METADATA = ("id", "token", "propensity", "mode", "plan", "leaf", "is_known")

_CODES = {
    "unknown_campaign": ErrorCode.FLAG_NOT_FOUND,
    "unknown_context": ErrorCode.INVALID_CONTEXT,
    "unknown_action": ErrorCode.INVALID_CONTEXT,
    "bad_attributes": ErrorCode.INVALID_CONTEXT,
    "bad_body": ErrorCode.INVALID_CONTEXT,
    "unreachable": ErrorCode.PROVIDER_NOT_READY,
}

_TRUTHS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}


class UnswayedProvider(AbstractProvider):
    """Resolves flags by a running service; a flag that cannot be resolved gets its default.

    Parameters
    ----------
    address
        Such as ``http://127.0.0.1:8321``.
    key
        A key of role decide for the campaigns that are asked for; with ``track`` also of role
        reward, so an admin's.

    Examples
    --------
    ::

        from openfeature import api
        from openfeature.evaluation_context import EvaluationContext
        from openfeature.track import TrackingEventDetails

        api.set_provider(UnswayedProvider("http://127.0.0.1:8321"))
        flags, ann = api.get_client(), EvaluationContext("ann", {"context": "lunch"})
        shown = flags.get_string_details("shop", "soup", ann)
        bought = TrackingEventDetails(1.0, {"token": shown.flag_metadata["token"]})
        flags.track("shop", ann, bought)
    """

    def __init__(self, address: str, *, key: str | None = None, timeout: float = 5.0) -> None:
        super().__init__()
        self._new_client = partial(Client, address, key=key, timeout=timeout)
        self._clients: dict[str, Client] = {}

    def get_metadata(self) -> Metadata:
        """Return the provider's name."""
        return Metadata("unswayed")

    def shutdown(self) -> None:
        """Close the connections."""
        while self._clients:
            self._clients.popitem()[1].close()

    def track(
        self,
        tracking_event_name: str,
        evaluation_context: EvaluationContext | None = None,  # noqa: ARG002  # the token has it
        tracking_event_details: TrackingEventDetails | None = None,
    ) -> None:
        """Report a reward to the campaign of this name: the value, and the attribute ``token``."""
        given = tracking_event_details or TrackingEventDetails()
        token = given.attributes.get("token")
        if not isinstance(token, str):
            raise ServiceError(0, "no_token", "a reward needs the attribute 'token' of its flag.")
        reward = 1.0 if given.value is None else float(given.value)
        self._client(tracking_event_name).reward(token, reward)

    def _client(self, campaign: str) -> Client:
        return self._clients.setdefault(campaign, self._new_client(campaign))

    def _resolved(
        self,
        read: Callable[[str], Any],
        flag_key: str,
        default_value: Any,
        evaluation_context: EvaluationContext | None = None,
    ) -> FlagResolutionDetails[Any]:
        """Resolve a flag; ``read`` converts an action to a value of the flag's type."""
        asked = evaluation_context
        if asked is None or not asked.targeting_key:
            return _failed(default_value, ErrorCode.TARGETING_KEY_MISSING, "name the user.")
        attributes = asked.attributes
        more: dict[str, Any] = {name: attributes[name] for name in _FIELDS if name in attributes}
        context: Any = {name: one for name, one in attributes.items() if name not in _FIELDS}
        if "context" in attributes:
            context = str(attributes["context"])
        if not context:
            message = "give the attribute 'context', or those of a campaign with features."
            return _failed(default_value, ErrorCode.INVALID_CONTEXT, message)
        try:
            decision = self._client(flag_key).decide(asked.targeting_key, context, **more)
        except ServiceError as error:
            return _failed(default_value, _CODES.get(error.code, ErrorCode.GENERAL), str(error))
        try:
            value = read(decision.action)
        except (ValueError, KeyError):
            message = f"the action {decision.action!r} is of another type."
            return _failed(default_value, ErrorCode.TYPE_MISMATCH, message)
        found = {name: getattr(decision, name) for name in _METADATA}
        told = {name: value for name, value in found.items() if value is not None}
        return FlagResolutionDetails(
            value, reason=Reason.SPLIT, variant=decision.action, flag_metadata=told
        )

    resolve_string_details: Any = partialmethod(_resolved, str)
    resolve_boolean_details: Any = partialmethod(_resolved, lambda text: _TRUTHS[text.lower()])
    resolve_integer_details: Any = partialmethod(_resolved, int)
    resolve_float_details: Any = partialmethod(_resolved, float)

    def resolve_object_details(
        self, flag_key: str, default_value: Any, evaluation_context: EvaluationContext | None = None
    ) -> FlagResolutionDetails[Any]:
        """Return the action and its metadata as one object."""
        found = self._resolved(str, flag_key, "", evaluation_context)
        shown = {"action": found.value, **found.flag_metadata}
        return replace(found, value=default_value if found.error_code else shown)


def _failed(default: Any, code: ErrorCode, message: str) -> FlagResolutionDetails[Any]:
    return FlagResolutionDetails(
        default, error_code=code, error_message=message, reason=Reason.ERROR
    )
