"""All routes, and the OpenAPI document made from them."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

import unswayed
from unswayed.service import catalogue, jobs, keys, records, tokens
from unswayed.service.calls import Call, Endpoint, Handler, Reply
from unswayed.service.catalogue import Campaign
from unswayed.service.database import Connection, StoreError
from unswayed.service.deciding import DecideRequest, DecideResponse
from unswayed.service.errors import Refusal, bad_request
from unswayed.service.service import (
    ActivateRequest,
    ActivateResponse,
    RewardRequest,
    RewardResponse,
)
from unswayed.service.settings import Settings, check_label, parsed_settings

_PIECE = 1 << 16  # Ours: bytes per piece of an export
_SETTLED_SECONDS = 1.0  # Ours: time until all processes know a change and have written their queues

#: A transparent GIF of one pixel.
_DOT = bytes.fromhex(
    "47494638396101000100800000000000ffffff21f90401000000002c00000000010001000002024401003b"
)

HandlerT = TypeVar("HandlerT", bound=Handler)

ENDPOINTS: list[Endpoint] = []
"""All routes, in the order in which they are matched: the busiest first."""


def _full(path: str) -> str:
    """Return a path; without a leading slash it is relative to ``/v1/{campaign}``."""
    return path if path.startswith("/") else f"/v1/{{campaign}}/{path}".rstrip("/")


def _route(
    method: str, path: str, summary: str = "", **more: Any
) -> Callable[[HandlerT], HandlerT]:
    """Return a decorator that adds a route; the default summary is the function's first line."""

    def add(handler: HandlerT) -> HandlerT:
        text = summary or (handler.__doc__ or "").partition("\n")[0]
        ENDPOINTS.append(Endpoint(method, _full(path), handler, text, **more))
        return handler

    return add


_get, _post, _patch, _delete = (
    partial(_route, method) for method in ("GET", "POST", "PATCH", "DELETE")
)


def _of_store(
    method: str, name: str, path: str, summary: str, work: Callable[..., Any], field: str = ""
) -> Handler:
    """Add a route that calls a function with a connection and the parameters of the path.

    If ``field`` is given, the response is an object with the result in this field. Methods other
    than GET run in a transaction.
    """
    names = re.findall(r"{(\w+)}", _full(path))

    async def handler(call: Call) -> Any:
        call_store = call.read if method == "GET" else call.change
        found = await call_store(work, *(call.path[name] for name in names))
        return {field: found} if field else found

    handler.__name__ = name  # used to make the route's id
    return _route(method, path, summary)(handler)


_reads, _changes = partial(_of_store, "GET"), partial(_of_store, "POST")


class DecideBatch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Many decisions in one request."""

    decisions: list[DecideRequest]


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


@_post("decide", roles=("decide",), body=DecideRequest, returns=DecideResponse)
async def decide(call: Call) -> Reply:
    """Choose an action for a user in a context, and return a token for its reward."""
    (response,) = await call.service.decide(call.campaign, (call.body,))
    if isinstance(response, Refusal):
        raise response
    return Reply(response)


@_post("decide/batch", roles=("decide",), body=DecideBatch, row=DecideRequest)
async def decide_batch(call: Call) -> Reply:
    """Make many decisions; each row gets its own result or error."""
    asked = _checked_batch(call, call.body.decisions)
    responses = await call.service.decide(call.campaign, asked)
    rows = [row.body() if isinstance(row, Refusal) else row for row in responses]
    return Reply(b'{"decisions":[' + b",".join(rows) + b"]}")


@_post("activate", roles=("decide", "reward"), body=ActivateRequest, returns=ActivateResponse)
async def activate(call: Call) -> ActivateResponse:
    """Report that a deferred decision was shown."""
    return await call.service.activate(call.campaign, call.body)


@_get("shown.gif", roles=None, query={"token": "The decision's token."}, returns=bytes)
async def shown(call: Call) -> Reply:
    """Report that a decision was shown by loading an image, which needs no key."""
    await call.service.activate(call.campaign, ActivateRequest(call.query.get("token", "")))
    return Reply(_DOT, content_type=b"image/gif", headers=((b"cache-control", b"no-store"),))


@_post("reward", roles=("reward",), body=RewardRequest, returns=RewardResponse)
async def reward(call: Call) -> RewardResponse:
    """Report the reward of a decision; durable once the response is sent."""
    (response,) = await call.service.reward(call.campaign, (call.body,))
    if isinstance(response, Refusal):
        raise response
    return response


@_post("reward/batch", roles=("reward",), body=RewardBatch, row=RewardRequest)
async def reward_batch(call: Call) -> dict[str, Any]:
    """Report many rewards; each row gets its own result or error."""
    asked = _checked_batch(call, call.body.rewards)
    responses = await call.service.reward(call.campaign, asked)
    return {"rewards": [msgspec.Raw(r.body()) if isinstance(r, Refusal) else r for r in responses]}


def _checked_batch(call: Call, rows: list[Any]) -> list[Any]:
    most = call.service.server.max_batch
    if not 1 <= len(rows) <= most:
        raise Refusal(413, "too_large", f"a batch has between 1 and {most:,} rows.")
    return rows


@_get("/", roles=None)
async def index(_: Call) -> dict[str, Any]:
    """Name and version."""
    return {
        "service": "unswayed",
        "version": unswayed.__version__,
        "documentation": "/openapi.json",
    }


@_get("/healthz", roles=None)
async def healthz(_: Call) -> dict[str, str]:
    """Whether the process is alive."""
    return {"status": "ok"}


@_get("/readyz", roles=None)
async def readyz(call: Call) -> dict[str, str]:
    """Whether rewards can be recorded."""
    if not call.service.writer.is_healthy or not call.service.watcher.is_connected:
        raise Refusal(503, "not_ready", "the store cannot be used now.")
    return {"status": "ready"}


@_get("/openapi.json", roles=None)
async def openapi(_: Call) -> dict[str, Any]:
    """Return this document."""
    return openapi_document(ENDPOINTS)


@_get("/metrics", returns=str)
async def metrics(call: Call) -> Reply:
    """Metrics for Prometheus."""
    try:
        of_store = await call.read(jobs.store_numbers)
    except StoreError:  # the other metrics are still available
        of_store = {}
    await run_in_threadpool(call.service.save_metrics)
    text = await run_in_threadpool(call.service.metrics.text, of_store)
    return Reply(text.encode(), content_type=b"text/plain; version=0.0.4; charset=utf-8")


list_campaigns = _reads(
    "list_campaigns", "/v1/campaigns", "List all campaigns.", catalogue.campaigns, "campaigns"
)


@_post("/v1/campaigns", body=NewCampaign)
async def create_campaign(call: Call) -> Campaign:
    """Create a campaign."""
    settings = call.body.settings.checked()
    return await call.change(catalogue.create_campaign, call.body.name, settings)


@_get("keys", "List the campaign's keys, without their secrets.")
@_get("/v1/keys", "List all keys, without their secrets.")
async def list_keys(call: Call) -> dict[str, Any]:
    """Return the keys of one or all campaigns, without their secrets."""
    found = await call.read(keys.all_keys)
    return {
        "keys": [
            {"id": key.id, "campaign": key.campaign, "role": key.role, "created_ms": key.created_ms}
            for key in found.values()
            if call.campaign in (key.campaign, keys.EVERY_CAMPAIGN)
        ]
    }


@_post("keys", "Create a key of the campaign.", body=NewKey)
@_post("/v1/keys", "Create a key for any campaign.", body=NewGlobalKey)
async def make_key(call: Call) -> dict[str, Any]:
    """Make a key, which is shown once."""
    name = getattr(call.body, "campaign", call.campaign)
    return {"key": await call.change(keys.make_key, name, call.body.role)}


@_delete("keys/{key}", "Remove a key of the campaign.")
@_delete("/v1/keys/{key}", "Remove a key for all campaigns.")
async def remove_key(call: Call) -> dict[str, Any]:
    """Remove a key."""
    await call.change(keys.remove_key, call.campaign, call.path["key"])
    return {"removed": call.path["key"]}


@_get("/v1/signing-keys")
async def list_signing_keys(call: Call) -> dict[str, Any]:
    """List the ids of the signing keys."""
    return {"signing_keys": list(call.service.watcher.signer.keys)}


@_post("/v1/signing-keys")
async def rotate_signing_key(call: Call) -> dict[str, Any]:
    """Sign with a new key from now on."""
    await call.change(tokens.rotate)
    return await list_signing_keys(call)


@_delete("/v1/signing-keys/{key}")
async def retire_signing_key(call: Call) -> dict[str, Any]:
    """Reject tokens of an old key."""
    await call.change(tokens.retire, call.path["key"])
    return await list_signing_keys(call)


show_campaign = _reads("show_campaign", "", "Show a campaign and its settings.", catalogue.campaign)


@_patch("", body=dict[str, Any])
async def change_campaign(call: Call) -> Any:
    """Change some settings."""

    def change(settings: Settings) -> Settings:
        return parsed_settings({**msgspec.to_builtins(settings), **call.body}, "settings")

    found = await call.change(_with_settings, call.campaign, change)
    if call.campaign not in call.service.configured:
        return found
    note = "the configuration file has this campaign, and overrides it at the next start."
    return {**msgspec.to_builtins(found), "note": note}


def _with_settings(
    connection: Connection, name: str, change: Callable[[Settings], Settings]
) -> Campaign:
    settings = change(catalogue.locked(connection, name).settings)
    return catalogue.change_settings(connection, name, settings)


@_delete("", query={"confirm": "The campaign's name, to confirm."})
async def delete_campaign(call: Call) -> dict[str, Any]:
    """Delete a campaign and all its records."""
    if call.query.get("confirm") != call.campaign:
        raise bad_request(
            "this deletes all records of the campaign; repeat its name as ?confirm=NAME.",
            "not_confirmed",
        )
    await call.change(catalogue.delete_campaign, call.campaign)
    return {"deleted": call.campaign}


archive_campaign = _changes(
    "archive_campaign", "archive", "Stop making decisions.", catalogue.archive
)
restore_campaign = _changes(
    "restore_campaign", "restore", "Resume making decisions.", catalogue.restore
)


def _adds(kind: str) -> None:
    """Add the route that adds contexts or actions."""

    async def handler(call: Call) -> Campaign:
        def change(settings: Settings) -> Settings:
            return settings.with_labels(**{kind: call.body.labels})

        return await call.change(_with_settings, call.campaign, change)

    handler.__name__ = f"add_{kind}"
    _post(kind, f"Add {kind}.", body=NewLabels)(handler)


_adds("contexts")
_adds("actions")


def _policy(connection: Connection, name: str, version: str | None = None) -> dict[str, Any]:
    asked = None if version is None else _version(version)
    there = catalogue.campaign(connection, name)
    chosen = there.policy_version if asked is None else asked
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


def _number(text: str, meaning: str, most_digits: int = 12) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > most_digits:
        raise bad_request(meaning)
    return int(text)


def _version(text: str) -> int:
    return _number(text, "a version is a number such as 3.")


show_policy = _reads("show_policy", "policy", "Show the served plan and policy.", _policy)
list_policies = _reads(
    "list_policies",
    "policy/versions",
    "List all versions of the policy.",
    catalogue.policy_versions,
    "versions",
)
show_version = _reads("show_version", "policy/{version}", "One version of the policy.", _policy)


activate_version = _changes(
    "activate_version",
    "policy/{version}/activate",
    "Serve a version; choose an older one to roll back.",
    lambda store, name, version: catalogue.activate_policy(store, name, _version(version)),
)


@_post("learn", status=202)
async def learn(call: Call) -> jobs.Job:
    """Learn in the background."""
    job, is_new = await call.change(jobs.add_job, call.campaign)
    if is_new:
        call.service.start("learn", call.campaign, job=job.id)
    return job


list_jobs = _reads("list_jobs", "learn", "List learning jobs, newest first.", jobs.jobs_of, "jobs")
show_job = _reads("show_job", "learn/{job}", "Show a job and its progress.", jobs.job_of)
status = _reads("status", "status", "Show the progress of exploration.", jobs.status)


@_get(
    "report",
    query={"policy": "Version of the policy; by default the one that is served."},
    is_slow=True,
)
async def report(call: Call) -> Reply:
    """Compare the policy with the control group and with shadow decisions."""
    pieces = _offline(call, "report", _numbers(call, policy="a version such as 3"))
    return Reply(b"".join([piece async for piece in pieces]))


list_reports = _reads(
    "list_reports", "reports", "List daily reports, newest first.", jobs.reports_of, "reports"
)
show_report = _reads("show_report", "reports/{day}", "Show the report of a day.", jobs.report_of)


@_get("audit", is_slow=True)
async def audit(call: Call) -> dict[str, Any]:
    """Audit explored decisions: whether they were attacked, and by which accounts."""
    text = b"".join([piece async for piece in _offline(call, "audit", {})])
    found: dict[str, Any] = json.loads(text)
    if "refused" in found:
        raise Refusal(422, "nothing_to_audit", found["refused"])
    return found


def _numbers(call: Call, **meanings: str) -> dict[str, Any]:
    """Parse the numeric query parameters that were given."""
    return {
        name: _number(call.query[name], f"{name} is {meaning}.", 14)
        for name, meaning in meanings.items()
        if name in call.query
    }


@_get(
    "export",
    query={
        "since_ms": "Decisions from this time on, in milliseconds since 1970.",
        "until_ms": "Decisions before this time.",
        "pseudonyms": "true: replace users by pseudonyms that are keyed with the secret.",
    },
    returns=bytes,
    is_slow=True,
)
async def export(call: Call) -> StreamingResponse:
    """Export the decisions whose reward windows are closed, as Parquet."""
    since = "milliseconds since 1970"
    between = _numbers(call, since_ms=since, until_ms=since)
    if call.query.get("pseudonyms", "false") not in ("true", "false"):
        raise bad_request("pseudonyms must be true or false.")
    if call.query.get("pseudonyms") == "true":
        between["secret"] = call.service.watcher.secrets.assignment.hex()
    pieces = _offline(call, "export", between)
    first = await anext(pieces)  # raises 503 if there is none

    async def whole() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    headers = {"content-disposition": f'attachment; filename="{call.campaign}.parquet"'}
    return StreamingResponse(whole(), media_type="application/vnd.apache.parquet", headers=headers)


@_get("decisions", query={"user": "List one user's decisions and current actions."})
async def list_decisions(call: Call) -> dict[str, Any]:
    """List the latest decisions and their rewards."""
    user = call.query.get("user")
    if user is None:
        return await call.read(records.recent_decisions, call.campaign, None)
    check_label("user", user)
    found = await call.read(records.recent_decisions, call.campaign, user)
    secret = call.service.watcher.secrets.assignment
    now = await call.read(records.assignments, call.campaign, user, secret)
    return {"user": user, "now": now, **found}


@_delete("users", query={"user": "The user."})
async def forget_user(call: Call) -> dict[str, Any]:
    """Delete all records of a user."""
    user = check_label("user", call.query.get("user", ""))
    database, secret = call.service.database, call.service.watcher.secrets.assignment
    await call.change(records.refuse_tokens, call.campaign, user, secret)
    # By then all processes know the change and have written their queues.
    await asyncio.sleep(_SETTLED_SECONDS)
    deleted = await run_in_threadpool(records.delete_user, database, call.campaign, user)
    return {"user": user, "deleted": deleted}


@_get("decisions/{decision}/explain")
async def explain_decision(call: Call) -> dict[str, Any]:
    """Explain what was decided, under which plan and policy, and why."""
    secret = call.service.watcher.secrets.assignment
    return await call.read(records.explain, call.campaign, call.path["decision"], secret)


async def _offline(call: Call, task: str, between: dict[str, Any]) -> AsyncIterator[bytes]:
    """Run a task in a separate process and yield its output; raise if it fails."""
    call.service.watcher.state.campaign(call.campaign)
    process = await asyncio.create_subprocess_exec(
        *jobs.offline_command(task),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,  # errors go to the log
    )
    assert process.stdin is not None
    assert process.stdout is not None
    request = {**call.service.request(call.campaign), "between": between}
    try:
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        while data := await process.stdout.read(_PIECE):
            yield data
        if await process.wait():
            raise Refusal(503, "unavailable", f"the {task} failed; try again.")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


_REFERENCE = "#/components/schemas/{name}"

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {"code": {"type": "string"}, "message": {"type": "string"}},
        }
    },
}

#: Responses that any route may return instead of its result.
_ERRORS = {
    status: {
        "description": "Rejected; see the code.",
        "content": {"application/json": {"schema": {"$ref": _REFERENCE.format(name="Error")}}},
    }
    for status in ("400", "401", "403", "404", "409", "410", "413", "422", "429", "503")
}

_PATTERNS = {
    "campaign": "^[a-z0-9][a-z0-9_-]{0,63}$",
    "version": "^[0-9]{1,9}$",
    "decision": "^[0-9a-f]{32}$",
    "day": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
}


def openapi_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI document of some routes."""
    listed = list(endpoints)
    types = [*(one.body for one in listed), *(one.returns for one in listed)]
    structs = dict.fromkeys(filter(_is_struct, types))
    _, schemas = msgspec.json.schema_components(structs, ref_template=_REFERENCE)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in listed:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "unswayed",
            "version": unswayed.__version__,
            "description": "Decisions that a coalition of fake users cannot sway.",
        },
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": _ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    path, summary = endpoint.path, endpoint.summary
    # Routes for all campaigns share their functions with those for one.
    of_all = "_of_all" if path.startswith("/v1") and "{campaign}" not in path else ""
    parameters: list[dict[str, Any]] = []
    for name in re.findall(r"{(\w+)}", path):
        schema = {"type": "string", "pattern": _PATTERNS.get(name, "^[^/]+$")}
        parameters.append({"name": name, "in": "path", "required": True, "schema": schema})
    for name, text in endpoint.query.items():
        schema = {"type": "string"}
        parameters.append({"name": name, "in": "query", "description": text, "schema": schema})
    result = {"description": summary, "content": _content(endpoint.returns)}
    operation: dict[str, Any] = {
        "summary": summary,
        "operationId": f"{endpoint.handler.__name__}{of_all}",
        "parameters": parameters,
        "responses": {str(endpoint.status): result, **_ERRORS},
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(endpoint.body)}
    if endpoint.roles is None:
        operation["security"] = []
    return operation


def _content(type_: Any) -> dict[str, Any]:
    if type_ is bytes:
        return {"application/octet-stream": {"schema": {}}}
    if type_ is str:
        return {"text/plain": {"schema": {"type": "string"}}}
    is_struct = _is_struct(type_)
    schema = {"$ref": _REFERENCE.format(name=type_.__name__)} if is_struct else {"type": "object"}
    return {"application/json": {"schema": schema}}


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)
