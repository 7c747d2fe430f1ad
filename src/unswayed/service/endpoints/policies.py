"""Routes of plans, policies and learning."""

from __future__ import annotations

from typing import Any

from unswayed.service import catalogue
from unswayed.service.calls import Call
from unswayed.service.database import Connection
from unswayed.service.endpoints.campaigns import shown
from unswayed.service.errors import bad_request
from unswayed.service.jobs import add_job, job_of, jobs_of, start_learner


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
