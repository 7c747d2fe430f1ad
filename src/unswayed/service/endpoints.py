"""What each route does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool

import unswayed
from unswayed.service import catalogue, keys
from unswayed.service.calls import Call, Endpoint, Reply, Streamed
from unswayed.service.database import Connection
from unswayed.service.deciding import DecideAnswer, DecideRequest, PlainRequest
from unswayed.service.errors import Refusal, bad_request
from unswayed.service.explaining import explain
from unswayed.service.jobs import (
    add_job,
    job_of,
    jobs_of,
    offline_command,
    start_learner,
)
from unswayed.service.openapi import openapi_document
from unswayed.service.recent import assignments, recent_decisions
from unswayed.service.secret_file import Secrets
from unswayed.service.service import (
    ActivateAnswer,
    ActivateRequest,
    RewardAnswer,
    RewardRequest,
)
from unswayed.service.settings import Settings, check_label, parsed_settings
from unswayed.service.status import status as status_of
from unswayed.service.writing import Counted, CountKey

Result = TypeVar("Result")

_PIECE = 1 << 16


class DecideBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many decisions in one request."""

    decisions: list[DecideRequest]


class PlainBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many decisions about which there is nothing else to say."""

    decisions: list[PlainRequest]


class RewardBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many rewards in one request."""

    rewards: list[RewardRequest]


class NewCampaign(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A campaign to create."""

    name: str
    settings: Settings


class NewLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Labels to add."""

    labels: list[str]


class NewKey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A key to make."""

    role: Literal["decide", "reward", "admin"]


class NewGlobalKey(NewKey, frozen=True, forbid_unknown_fields=True):
    """A key to make for any campaign, or with ``*`` for all."""

    campaign: str = keys.EVERY_CAMPAIGN


# Decisions and rewards


async def decide(call: Call) -> Reply:
    """Answer one decision."""
    (answer,), counts = await call.service.decide(call.campaign, (call.body,))
    if isinstance(answer, Refusal):
        raise answer
    _count_decisions(call, counts)
    return Reply(answer)


async def decide_batch(call: Call) -> Reply:
    """Answer many decisions, each with its own error."""
    asked = _checked_batch(call, call.body.decisions)
    if isinstance(call.body, PlainBatch):
        found = call.service.decide_at_once(call.campaign, asked)
        if found is not None:
            _count_decisions(call, found[1])
            return Reply(b'{"decisions":' + found[0] + b"}")
        asked = [DecideRequest(one.user, one.context) for one in asked]
    answers, counts = await call.service.decide(call.campaign, asked)
    _count_decisions(call, counts)
    rows = [row.body() if isinstance(row, Refusal) else row for row in answers]
    return Reply(b'{"decisions":[' + b",".join(rows) + b"]}")


def _count_decisions(call: Call, counts: dict[CountKey, Counted]) -> None:
    for key, n in counts.items():
        call.runtime.metrics.count(
            "unswayed_decisions_total", n.decisions, campaign=key.campaign, mode=key.mode
        )


async def activate(call: Call) -> ActivateAnswer:
    """Take in that a decision was shown."""
    (answer,) = await call.service.activate(call.campaign, (call.body,))
    if isinstance(answer, Refusal):
        raise answer
    return answer


async def reward(call: Call) -> RewardAnswer:
    """Take in one reward."""
    (answer,) = await call.service.reward(call.campaign, (call.body,))
    if isinstance(answer, Refusal):
        raise answer
    call.runtime.metrics.count("unswayed_rewards_total", campaign=call.campaign)
    return answer


async def reward_batch(call: Call) -> dict[str, Any]:
    """Take in many rewards, each with its own error."""
    answers = await call.service.reward(call.campaign, _checked_batch(call, call.body.rewards))
    taken = sum(isinstance(answer, RewardAnswer) for answer in answers)
    call.runtime.metrics.count("unswayed_rewards_total", taken, campaign=call.campaign)
    return {"rewards": _each(answers)}


def _checked_batch(call: Call, rows: list[Any]) -> list[Any]:
    most = call.service.server.max_batch
    if not 1 <= len(rows) <= most:
        raise Refusal(413, "too_large", f"a batch has between 1 and {most:,} rows.")
    return rows


def _each(answers: Sequence[Any]) -> list[Any]:
    return [
        {"error": {"code": answer.code, "message": answer.message}}
        if isinstance(answer, Refusal)
        else answer
        for answer in answers
    ]


# Campaigns


async def list_campaigns(call: Call) -> dict[str, Any]:
    """Return all campaigns."""
    found = await _read(call, catalogue.campaigns)
    return {"campaigns": [_shown(campaign) for campaign in found]}


async def create_campaign(call: Call) -> dict[str, Any]:
    """Create a campaign; the same one again is no error."""
    body: NewCampaign = call.body
    settings = body.settings.checked()
    return _shown(await _change(call, lambda c: catalogue.create_campaign(c, body.name, settings)))


async def show_campaign(call: Call) -> dict[str, Any]:
    """Return a campaign."""
    return _shown(await _read(call, lambda c: catalogue.campaign(c, call.campaign)))


async def change_campaign(call: Call) -> dict[str, Any]:
    """Change some settings of a campaign."""

    def change(connection: Connection) -> catalogue.Campaign:
        there = catalogue.campaign(connection, call.campaign)
        merged = {**msgspec.to_builtins(there.settings), **call.body}
        return catalogue.change_settings(
            connection, call.campaign, parsed_settings(merged, "settings")
        )

    return _shown(await _change(call, change))


async def delete_campaign(call: Call) -> dict[str, Any]:
    """Delete a campaign, if its name is repeated."""
    if call.query.get("confirm") != call.campaign:
        raise bad_request(
            "deleting takes everything that was recorded; repeat the name as ?confirm=NAME.",
            "not_confirmed",
        )
    await _change(call, lambda c: catalogue.delete_campaign(c, call.campaign))
    return {"deleted": call.campaign}


async def archive_campaign(call: Call) -> dict[str, Any]:
    """Stop deciding; rewards of decisions that are out are taken."""
    return _shown(
        await _change(call, lambda c: catalogue.set_state(c, call.campaign, catalogue.ARCHIVED))
    )


async def restore_campaign(call: Call) -> dict[str, Any]:
    """Decide again."""
    return _shown(
        await _change(call, lambda c: catalogue.set_state(c, call.campaign, catalogue.ACTIVE))
    )


async def add_contexts(call: Call) -> dict[str, Any]:
    """Add contexts."""
    return await _add_labels(call, contexts=call.body.labels, actions=[])


async def add_actions(call: Call) -> dict[str, Any]:
    """Add actions."""
    return await _add_labels(call, contexts=[], actions=call.body.labels)


async def _add_labels(call: Call, *, contexts: list[str], actions: list[str]) -> dict[str, Any]:
    def change(connection: Connection) -> catalogue.Campaign:
        there = catalogue.campaign(connection, call.campaign)
        return catalogue.change_settings(
            connection,
            call.campaign,
            there.settings.with_labels(contexts=contexts, actions=actions),
        )

    return _shown(await _change(call, change))


def _shown(campaign: catalogue.Campaign) -> dict[str, Any]:
    return {
        "name": campaign.name,
        "state": campaign.state,
        "created_ms": campaign.created_ms,
        "plan": campaign.plan_version,
        "policy": campaign.policy_version,
        "settings": campaign.settings,
    }


# Keys


async def list_keys(call: Call) -> dict[str, Any]:
    """Return the keys of a campaign, or of all; never what they are."""
    found = await _read(call, keys.all_keys)
    return {
        "keys": [
            {"id": key.id, "campaign": key.campaign, "role": key.role, "created_ms": key.created_ms}
            for key in found.values()
            if call.campaign in (key.campaign, keys.EVERY_CAMPAIGN)
        ]
    }


async def make_key(call: Call) -> dict[str, Any]:
    """Make a key, which is shown once."""
    name = getattr(call.body, "campaign", call.campaign)
    return {"key": await _change(call, lambda c: keys.make_key(c, name, call.body.role))}


async def remove_key(call: Call) -> dict[str, Any]:
    """Remove a key."""
    key_id = call.path["key"]
    await _change(call, lambda c: keys.remove_key(c, call.campaign, key_id))
    return {"removed": key_id}


async def list_signing_keys(call: Call) -> dict[str, Any]:
    """Return the ids of the signing keys, the newest last."""
    return {"signing_keys": list(call.service.watcher.signer.key_ids)}


async def rotate_signing_key(call: Call) -> dict[str, Any]:
    """Sign with a new key from now on; tokens of the old ones stay good."""
    return await _change_secrets(call, lambda secrets: secrets.rotated())


async def retire_signing_key(call: Call) -> dict[str, Any]:
    """Refuse tokens of an old key from now on."""
    return await _change_secrets(call, lambda secrets: secrets.without(call.path["key"]))


async def _change_secrets(call: Call, change: Callable[[Secrets], Secrets]) -> dict[str, Any]:
    path = Path(call.runtime.secret_path)

    def apply() -> None:
        change(Secrets.load(path)).save(path)
        call.service.watcher.refresh()

    await run_in_threadpool(apply)
    return await list_signing_keys(call)


# Policies and learning


async def show_policy(call: Call) -> dict[str, Any]:
    """Return the plan and the policy that are served."""
    return await _read(call, lambda c: _policy(c, call.campaign, None))


async def list_policies(call: Call) -> dict[str, Any]:
    """Return the versions there are."""
    return {"versions": await _read(call, lambda c: catalogue.policy_versions(c, call.campaign))}


async def show_version(call: Call) -> dict[str, Any]:
    """Return one version."""
    version = _version(call)
    return await _read(call, lambda c: _policy(c, call.campaign, version))


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
    return _shown(
        await _change(call, lambda c: catalogue.activate_policy(c, call.campaign, version))
    )


def _version(call: Call) -> int:
    text = call.path["version"]
    if not text.isascii() or not text.isdigit() or len(text) > 12:
        raise bad_request("a version is a number such as 3.")
    return int(text)


async def learn(call: Call) -> dict[str, Any]:
    """Start to learn in a process of its own, if nobody does."""
    job, is_new = await _change(call, lambda c: add_job(c, call.campaign), refresh=False)
    if is_new:
        start_learner(call.runtime.store_url, call.campaign, job.id)
    shown: dict[str, Any] = job.to_json()
    return shown


async def list_jobs(call: Call) -> dict[str, Any]:
    """Return the jobs of a campaign."""
    found = await _read(call, lambda c: jobs_of(c, call.campaign))
    return {"jobs": [job.to_json() for job in found]}


async def show_job(call: Call) -> dict[str, Any]:
    """Return a job and its progress."""
    job = await _read(call, lambda c: job_of(c, call.campaign, call.path["job"]))
    shown: dict[str, Any] = job.to_json()
    return shown


# Looking at it


async def status(call: Call) -> dict[str, Any]:
    """Return how far a campaign is."""
    return await _read(call, lambda c: status_of(c, call.campaign))


async def report(call: Call) -> Reply:
    """Return what a campaign brought, worked out in a process of its own."""
    return Reply(await _worked_out(call, "report"))


async def audit(call: Call) -> dict[str, Any]:
    """Return whether a campaign was attacked, worked out in a process of its own."""
    found: dict[str, Any] = json.loads(await _worked_out(call, "audit"))
    if "refused" in found:
        raise Refusal(422, "nothing_to_audit", found["refused"])
    return found


async def _worked_out(call: Call, task: str) -> bytes:
    """Return all that a process of its own prints."""
    call.service.watcher.state.campaign(call.campaign)
    parts: list[bytes] = []

    async def keep(data: bytes) -> None:
        parts.append(data)

    await _offline(call, task, {}, keep)
    return b"".join(parts)


async def export(call: Call) -> Streamed:
    """Stream the learnable decisions as Parquet."""
    call.service.watcher.state.campaign(call.campaign)
    between: dict[str, int] = {}
    for name in ("since_ms", "until_ms"):
        if name in call.query:
            text = call.query[name]
            if not text.isascii() or not text.isdigit() or len(text) > 14:
                raise bad_request(f"{name} is milliseconds since 1970.")
            between[name] = int(text)

    async def produce(piece: Callable[[bytes], Awaitable[None]]) -> None:
        await _offline(call, "export", between, piece)

    return Streamed(produce, b"application/vnd.apache.parquet", f"{call.campaign}.parquet")


async def explain_decision(call: Call) -> dict[str, Any]:
    """Return who was asked what, under which plan and policy, and why."""
    secret = Secrets.load(Path(call.runtime.secret_path)).assignment
    return await _read(call, lambda c: explain(c, call.campaign, call.path["decision"], secret))


async def list_decisions(call: Call) -> dict[str, Any]:
    """Return the latest decisions; of one user also what the user gets now."""
    user = call.query.get("user")

    def look(connection: Connection) -> dict[str, Any]:
        found = recent_decisions(connection, call.campaign, user)
        if user is None:
            return found
        secret = Secrets.load(Path(call.runtime.secret_path)).assignment
        return {
            "user": user,
            "now": assignments(connection, call.campaign, user, secret),
            **found,
        }

    if user is not None:
        check_label("user", user)
    return await _read(call, look)


async def _offline(
    call: Call,
    task: str,
    between: dict[str, int],
    piece: Callable[[bytes], Awaitable[None]],
) -> None:
    """Hand over what a process of its own prints; 503 if it fails before anything is sent."""
    process = await asyncio.create_subprocess_exec(
        *offline_command(task),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    told = {"store": call.runtime.store_url, "campaign": call.campaign, "between": between}
    try:
        process.stdin.write(json.dumps(told).encode())
        process.stdin.close()
        while data := await process.stdout.read(_PIECE):
            await piece(data)
        if await process.wait():
            raise Refusal(503, "unavailable", f"the {task} could not be made; try again.")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


# The server itself


async def index(_: Call) -> dict[str, Any]:
    """Say what this is; pages for people take this place."""
    return {
        "service": "unswayed",
        "version": unswayed.__version__,
        "documentation": "/openapi.json",
    }


async def healthz(_: Call) -> dict[str, str]:
    """Say that the process answers."""
    return {"status": "ok"}


async def readyz(call: Call) -> dict[str, str]:
    """Say whether rewards can be taken in."""
    service = call.service
    if not service.writer.is_healthy or not service.watcher.is_connected:
        raise Refusal(503, "not_ready", "the store cannot be used now.")
    return {"status": "ready"}


async def metrics(call: Call) -> Reply:
    """Return the numbers for Prometheus."""
    refresh_gauges(call)
    text = await run_in_threadpool(call.runtime.metrics.text)
    return Reply(text.encode(), content_type=b"text/plain; version=0.0.4; charset=utf-8")


def refresh_gauges(call: Call) -> None:
    """Look up what is not counted as it happens."""
    writer, found = call.service.writer, call.runtime.metrics
    found.gauges["unswayed_store_healthy"] = float(writer.is_healthy)
    found.gauges["unswayed_decisions_waiting"] = float(writer.n_waiting)
    found.counts["unswayed_store_commits_total"] = float(writer.n_commits)
    found.counts["unswayed_decisions_dropped_total"] = float(writer.n_dropped)


async def openapi(_: Call) -> dict[str, Any]:
    """Return the description of this interface."""
    return openapi_document(ENDPOINTS)


async def _read(call: Call, look: Callable[[Connection], Result]) -> Result:
    """Read from the store, beside the event loop."""

    def run() -> Result:
        with call.service.database.connected() as connection:
            return look(connection)

    return await run_in_threadpool(run)


async def _change(
    call: Call, change: Callable[[Connection], Result], *, refresh: bool = True
) -> Result:
    """Change the store in one transaction; this process knows of it at once."""

    def run() -> Result:
        with call.service.database.connected() as connection, connection.transaction():
            result = change(connection)
        if refresh:
            call.service.watcher.refresh()
        return result

    return await run_in_threadpool(run)


_V1 = "/v1/{campaign}"

ENDPOINTS: tuple[Endpoint, ...] = (
    # The busiest first: they are looked for in this order.
    Endpoint(
        "POST",
        f"{_V1}/decide",
        decide,
        "Which action to show a user in a context, with a token for its reward.",
        roles=("decide",),
        body=DecideRequest,
        answers=DecideAnswer,
    ),
    Endpoint(
        "POST",
        f"{_V1}/decide/batch",
        decide_batch,
        "Many decisions; each has its own error.",
        roles=("decide",),
        body=DecideBatch,
        plain_body=PlainBatch,
    ),
    Endpoint(
        "POST",
        f"{_V1}/activate",
        activate,
        "Say that a deferred decision was shown.",
        roles=("decide", "reward"),
        body=ActivateRequest,
        answers=ActivateAnswer,
    ),
    Endpoint(
        "POST",
        f"{_V1}/reward",
        reward,
        "The reward of a token's decision; durable when it is answered.",
        roles=("reward",),
        body=RewardRequest,
        answers=RewardAnswer,
    ),
    Endpoint(
        "POST",
        f"{_V1}/reward/batch",
        reward_batch,
        "Many rewards; each has its own error.",
        roles=("reward",),
        body=RewardBatch,
    ),
    Endpoint("GET", "/", index, "What this is.", roles=None),
    Endpoint("GET", "/healthz", healthz, "Whether the process answers.", roles=None),
    Endpoint("GET", "/readyz", readyz, "Whether rewards can be taken in.", roles=None),
    Endpoint("GET", "/openapi.json", openapi, "This document.", roles=None),
    Endpoint("GET", "/metrics", metrics, "Numbers for Prometheus.", answers=str),
    Endpoint("GET", "/v1/campaigns", list_campaigns, "All campaigns."),
    Endpoint("POST", "/v1/campaigns", create_campaign, "Create a campaign.", body=NewCampaign),
    Endpoint("GET", "/v1/keys", list_keys, "All keys, without their secrets."),
    Endpoint("POST", "/v1/keys", make_key, "Make a key for any campaign.", body=NewGlobalKey),
    Endpoint("DELETE", "/v1/keys/{key}", remove_key, "Remove a key that is for all campaigns."),
    Endpoint("GET", "/v1/signing-keys", list_signing_keys, "Ids of the signing keys."),
    Endpoint("POST", "/v1/signing-keys", rotate_signing_key, "Sign with a new key from now on."),
    Endpoint(
        "DELETE", "/v1/signing-keys/{key}", retire_signing_key, "Refuse tokens of an old key."
    ),
    Endpoint("GET", _V1, show_campaign, "A campaign and its settings."),
    Endpoint("PATCH", _V1, change_campaign, "Change some settings.", body=dict[str, Any]),
    Endpoint(
        "DELETE",
        _V1,
        delete_campaign,
        "Delete a campaign and all that it recorded.",
        query={"confirm": "The campaign's name once more."},
    ),
    Endpoint("POST", f"{_V1}/archive", archive_campaign, "Stop deciding."),
    Endpoint("POST", f"{_V1}/restore", restore_campaign, "Decide again."),
    Endpoint("POST", f"{_V1}/contexts", add_contexts, "Add contexts.", body=NewLabels),
    Endpoint("POST", f"{_V1}/actions", add_actions, "Add actions.", body=NewLabels),
    Endpoint("GET", f"{_V1}/keys", list_keys, "The campaign's keys, without their secrets."),
    Endpoint("POST", f"{_V1}/keys", make_key, "Make a key of the campaign.", body=NewKey),
    Endpoint("DELETE", f"{_V1}/keys/{{key}}", remove_key, "Remove a key of the campaign."),
    Endpoint("GET", f"{_V1}/policy", show_policy, "The plan and policy that are served."),
    Endpoint("GET", f"{_V1}/policy/versions", list_policies, "The versions there are."),
    Endpoint("GET", f"{_V1}/policy/{{version}}", show_version, "One version of the policy."),
    Endpoint(
        "POST",
        f"{_V1}/policy/{{version}}/activate",
        activate_version,
        "Serve a version; an older one to roll back.",
    ),
    Endpoint("POST", f"{_V1}/learn", learn, "Learn from all closed windows, beside.", status=202),
    Endpoint("GET", f"{_V1}/learn", list_jobs, "Jobs of learning, the newest first."),
    Endpoint("GET", f"{_V1}/learn/{{job}}", show_job, "A job and its progress."),
    Endpoint("GET", f"{_V1}/status", status, "How far exploration is."),
    Endpoint("GET", f"{_V1}/report", report, "Uplift over the users held back; shadow matches."),
    Endpoint("GET", f"{_V1}/audit", audit, "Whether explorers lied, who, and what it changes."),
    Endpoint(
        "GET",
        f"{_V1}/export",
        export,
        "Decisions whose windows are closed, as Parquet.",
        query={
            "since_ms": "Decisions from this time on, in milliseconds since 1970.",
            "until_ms": "Decisions before this time.",
        },
        answers=bytes,
    ),
    Endpoint(
        "GET",
        f"{_V1}/decisions",
        list_decisions,
        "The latest decisions and their rewards.",
        query={"user": "Those of one user, and what the user gets now."},
    ),
    Endpoint(
        "GET",
        f"{_V1}/decisions/{{decision}}/explain",
        explain_decision,
        "Who was asked what, under which plan and policy, and why.",
    ),
)
