"""An OpenFeature provider: campaigns are flags, and actions are their values.

The flag's key names the campaign, the targeting key the user, and the attribute ``context`` the
context. Without that attribute, all attributes are sent as those of a campaign with features. The
flag's metadata contain the token, the propensity and the mode; ``track`` reports a reward.
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

#: Fields of a decision that the flag's metadata contain.
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
    """Resolves flags with a running service; a flag that cannot be resolved gets its default.

    Parameters
    ----------
    address
        Address of the service, such as ``http://127.0.0.1:8321``.
    key
        A key of role decide for the campaigns; ``track`` needs an admin's key.

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
        """Report the value of an event as the reward of the decision in its attribute ``token``.

        The event's name is the campaign.
        """
        given = tracking_event_details or TrackingEventDetails()
        token = given.attributes.get("token")
        if not isinstance(token, str):
            raise ServiceError(0, "no_token", "give the attribute 'token', from flag_metadata.")
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
            return _failed(
                default_value, ErrorCode.TARGETING_KEY_MISSING, "the targeting key names the user."
            )
        attributes = asked.attributes
        more: dict[str, Any] = {name: attributes[name] for name in _FIELDS if name in attributes}
        context: Any = {name: one for name, one in attributes.items() if name not in _FIELDS}
        if "context" in attributes:
            context = str(attributes["context"])
        if not context:
            message = "give the attribute 'context', or the values of the campaign's features."
            return _failed(default_value, ErrorCode.INVALID_CONTEXT, message)
        try:
            decision = self._client(flag_key).decide(asked.targeting_key, context, **more)
        except ServiceError as error:
            return _failed(default_value, _CODES.get(error.code, ErrorCode.GENERAL), str(error))
        try:
            value = read(decision.action)
        except (ValueError, KeyError):
            message = f"the action {decision.action!r} does not have the type of the flag."
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
