"""Routes of campaigns and their labels."""

from __future__ import annotations

from typing import Any

import msgspec

from unswayed.service import catalogue
from unswayed.service.calls import Call
from unswayed.service.database import Connection
from unswayed.service.errors import bad_request
from unswayed.service.settings import Settings, parsed_settings


class NewCampaign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A campaign to create."""

    name: str
    settings: Settings


class NewLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels to add."""

    labels: list[str]


async def list_campaigns(call: Call) -> dict[str, Any]:
    """Return all campaigns."""
    found = await call.read(catalogue.campaigns)
    return {"campaigns": [shown(campaign) for campaign in found]}


async def create_campaign(call: Call) -> dict[str, Any]:
    """Create a campaign; the same one again is no error."""
    body: NewCampaign = call.body
    settings = body.settings.checked()
    return shown(await call.change(lambda c: catalogue.create_campaign(c, body.name, settings)))


async def show_campaign(call: Call) -> dict[str, Any]:
    """Return a campaign."""
    return shown(await call.read(lambda c: catalogue.campaign(c, call.campaign)))


async def change_campaign(call: Call) -> dict[str, Any]:
    """Change some settings of a campaign."""

    def make(connection: Connection) -> catalogue.Campaign:
        there = catalogue.campaign(connection, call.campaign)
        merged = {**msgspec.to_builtins(there.settings), **call.body}
        return catalogue.change_settings(
            connection, call.campaign, parsed_settings(merged, "settings")
        )

    return shown(await call.change(make))


async def delete_campaign(call: Call) -> dict[str, Any]:
    """Delete a campaign, if its name is repeated."""
    if call.query.get("confirm") != call.campaign:
        raise bad_request(
            "this deletes all records of the campaign; repeat its name as ?confirm=NAME.",
            "not_confirmed",
        )
    await call.change(lambda c: catalogue.delete_campaign(c, call.campaign))
    return {"deleted": call.campaign}


async def archive_campaign(call: Call) -> dict[str, Any]:
    """Stop deciding; rewards of open decisions are still recorded."""
    return shown(
        await call.change(lambda c: catalogue.set_state(c, call.campaign, catalogue.ARCHIVED))
    )


async def restore_campaign(call: Call) -> dict[str, Any]:
    """Resume deciding."""
    return shown(
        await call.change(lambda c: catalogue.set_state(c, call.campaign, catalogue.ACTIVE))
    )


async def add_contexts(call: Call) -> dict[str, Any]:
    """Add contexts."""
    return await _add_labels(call, contexts=call.body.labels, actions=[])


async def add_actions(call: Call) -> dict[str, Any]:
    """Add actions."""
    return await _add_labels(call, contexts=[], actions=call.body.labels)


async def _add_labels(call: Call, *, contexts: list[str], actions: list[str]) -> dict[str, Any]:
    def make(connection: Connection) -> catalogue.Campaign:
        there = catalogue.campaign(connection, call.campaign)
        return catalogue.change_settings(
            connection,
            call.campaign,
            there.settings.with_labels(contexts=contexts, actions=actions),
        )

    return shown(await call.change(make))


def shown(campaign: catalogue.Campaign) -> dict[str, Any]:
    """Return a campaign as plain values."""
    return {
        "name": campaign.name,
        "state": campaign.state,
        "created_ms": campaign.created_ms,
        "plan": campaign.plan_version,
        "policy": campaign.policy_version,
        "settings": campaign.settings,
    }
