"""Routes of campaigns: their labels, plans and policies, and learning."""

from __future__ import annotations

from typing import Any

import msgspec

from unswayed.service import catalogue
from unswayed.service.calls import Call
from unswayed.service.database import Connection
from unswayed.service.errors import bad_request
from unswayed.service.jobs import add_job, job_of, jobs_of, start_learner
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

    found = shown(await call.change(make))
    if call.campaign in call.runtime.configured:
        found["note"] = "the configuration file has this campaign, and wins at the next start."
    return found


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


async def show_policy(call: Call) -> dict[str, Any]:
    """Return the plan and the policy that are served."""
    return await call.read(lambda c: _policy(c, call.campaign, None))


async def list_policies(call: Call) -> dict[str, Any]:
    """Return the versions there are."""
    return {"versions": await call.read(lambda c: catalogue.policy_versions(c, call.campaign))}


async def show_version(call: Call) -> dict[str, Any]:
    """Return one version."""
    version = _version(call)
    return await call.read(lambda c: _policy(c, call.campaign, version))


def _policy(connection: Connection, name: str, version: int | None) -> dict[str, Any]:
    there = catalogue.campaign(connection, name)
    chosen = there.policy_version if version is None else version
    policy = catalogue.policy_of(connection, name, chosen)
    plan, _ = catalogue.plan_of(connection, name, there.plan_version)
    return {
        "campaign": name,
        "version": chosen,
        "is_active": chosen == there.policy_version,
        "plan_version": there.plan_version,
        "plan": plan.to_json(),
        "policy": None if policy is None else policy.to_json(),
    }


async def activate_version(call: Call) -> dict[str, Any]:
    """Serve a version: a new one, or an older one to roll back."""
    version = _version(call)
    return shown(await call.change(lambda c: catalogue.activate_policy(c, call.campaign, version)))


def _version(call: Call) -> int:
    text = call.path["version"]
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise bad_request("a version is a number such as 3.")
    return int(text)


async def learn(call: Call) -> dict[str, Any]:
    """Start to learn in a process of its own, if nobody does."""
    job, is_new = await call.change(lambda c: add_job(c, call.campaign), refresh=False)
    if is_new:
        start_learner(call.runtime.store_url, call.campaign, job.id)
    found: dict[str, Any] = job.to_json()
    return found


async def list_jobs(call: Call) -> dict[str, Any]:
    """Return the jobs of a campaign."""
    found = await call.read(lambda c: jobs_of(c, call.campaign))
    return {"jobs": [job.to_json() for job in found]}


async def show_job(call: Call) -> dict[str, Any]:
    """Return a job and its progress."""
    job = await call.read(lambda c: job_of(c, call.campaign, call.path["job"]))
    found: dict[str, Any] = job.to_json()
    return found
