"""`unswayed reward`: report the reward of a decision to a running service."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from unswayed.cli.options import Address, Json, KeyVariable, asking
from unswayed.reports.tables import print_json, print_line


def reward(
    campaign: Annotated[str, typer.Argument(help="Name of the campaign.")],
    token: str,
    reward: float,
    reward_id: str | None = None,
    address: Address = "http://127.0.0.1:8321",
    key_variable: KeyVariable = "UNSWAYED_KEY",
    json: Json = False,
) -> None:
    """Report the reward of a decision to a running service; durable once this returns.

    token: Token that `unswayed decide` printed.
    reward: Reward of the decision.
    reward_id: Distinguishes several rewards of one decision.
    """
    with asking(address, campaign, os.environ.get(key_variable)) as client:
        taken = client.reward(token, reward, reward_id=reward_id or "")
    if json:
        print_json(taken)
    else:
        print_line(f"recorded: {taken['reward']:g} for decision {taken['id']}")
