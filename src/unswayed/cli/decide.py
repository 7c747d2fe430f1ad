"""`unswayed decide`: request a decision from a running service."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import Annotated

import typer

from unswayed.cli.options import Address, Json, KeyVariable, asking
from unswayed.reports.tables import print_json, print_line


def decide(
    campaign: Annotated[str, typer.Argument(help="Name of the campaign.")],
    user: Annotated[str, typer.Option(help="User to decide for.")],
    context: Annotated[str, typer.Option(help="Context the user is in.")],
    address: Address = "http://127.0.0.1:8321",
    key_variable: KeyVariable = "UNSWAYED_KEY",
    idempotency_key: Annotated[
        str | None,
        typer.Option(help="Repeating a request with the same key returns the same decision."),
    ] = None,
    json: Json = False,
) -> None:
    """Request a decision from a running service, with the token for its reward."""
    with asking(address, campaign, os.environ.get(key_variable)) as client:
        decision = client.decide(user, context, idempotency_key=idempotency_key)
    if json:
        print_json(asdict(decision))
        return
    print_line(f"{decision.action} ({decision.mode}, propensity {decision.propensity:.4g})")
    print_line(f"token: {decision.token}", wrap=False)  # it is copied whole
