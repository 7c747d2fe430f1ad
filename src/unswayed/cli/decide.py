"""`unswayed decide`: request a decision from a running service."""

from __future__ import annotations

import os
from dataclasses import asdict
from json import loads
from typing import Annotated, Any

import typer

from unswayed.cli.options import Address, Json, KeyVariable, asking
from unswayed.errors import InputError
from unswayed.reports.tables import print_json, print_line


def decide(
    campaign: Annotated[str, typer.Argument(help="Name of the campaign.")],
    user: str,
    context: str | None = None,
    attributes: str | None = None,
    address: Address = "http://127.0.0.1:8321",
    key_variable: KeyVariable = "UNSWAYED_KEY",
    idempotency_key: str | None = None,
    json: Json = False,
) -> None:
    """Request a decision from a running service, with the token for its reward.

    user: User to decide for.
    context: Context the user is in.
    attributes ('{"age":31}'): Attributes as JSON, in a campaign with features.
    idempotency_key: Repeating a request with the same key returns the same decision.
    """
    where = _where(context, attributes)
    with asking(address, campaign, os.environ.get(key_variable)) as client:
        decision = client.decide(user, where, idempotency_key=idempotency_key)
    if json:
        print_json(asdict(decision))
        return
    print_line(f"{decision.action} ({decision.mode}, propensity {decision.propensity:.4g})")
    print_line(f"token: {decision.token}", wrap=False)  # meant to be copied, so not wrapped


def _where(context: str | None, attributes: str | None) -> Any:
    """Return the context or the attributes; raise unless exactly one is given."""
    if (context is None) == (attributes is None):
        raise InputError("give --context, or --attributes in a campaign with features.")
    if attributes is None:
        return context
    try:
        found = loads(attributes)
    except ValueError as error:
        raise InputError(f"--attributes is not JSON: {error}.") from None
    if not isinstance(found, dict):
        raise InputError('--attributes is a JSON object such as {"age": 31}.')
    return found
