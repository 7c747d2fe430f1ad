"""All routes: what each needs, does and documents, and the OpenAPI document made from them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

import unswayed
from unswayed.service.calls import Call, Endpoint
from unswayed.service.deciding import DecideRequest, DecideResponse
from unswayed.service.endpoints import campaigns, decisions, looking, server
from unswayed.service.service import (
    ActivateRequest,
    ActivateResponse,
    RewardRequest,
    RewardResponse,
)

_REFERENCE = "#/components/schemas/{name}"

#: Statuses that any route may return with an error.
_ERRORS = ("400", "401", "403", "404", "409", "410", "413", "422", "429", "503")

_ERROR_SCHEMA = {
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

_PATTERNS = {
    "campaign": "^[a-z0-9][a-z0-9_-]{0,63}$",
    "version": "^[0-9]{1,9}$",
    "decision": "^[0-9a-f]{32}$",
    "day": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
}


async def openapi(_: Call) -> dict[str, Any]:
    """Return the description of this interface."""
    return openapi_document(ENDPOINTS)


_V1 = "/v1/{campaign}"
_get, _post, _patch, _delete = (
    partial(Endpoint, method) for method in ("GET", "POST", "PATCH", "DELETE")
)

ENDPOINTS: tuple[Endpoint, ...] = (
    # The busiest first: routes are matched in this order.
    _post(
        f"{_V1}/decide",
        decisions.decide,
        "Which action to show a user in a context, with a token for its reward.",
        roles=("decide",),
        body=DecideRequest,
        returns=DecideResponse,
    ),
    _post(
        f"{_V1}/decide/batch",
        decisions.decide_batch,
        "Many decisions; each has its own error.",
        roles=("decide",),
        body=decisions.DecideBatch,
        plain_body=decisions.PlainBatch,
        row=DecideRequest,
    ),
    _post(
        f"{_V1}/activate",
        decisions.activate,
        "Report that a deferred decision was shown.",
        roles=("decide", "reward"),
        body=ActivateRequest,
        returns=ActivateResponse,
    ),
    _get(
        f"{_V1}/shown.gif",
        decisions.shown,
        "The same for pages: an image that reports it when it is loaded.",
        roles=None,
        query={"token": "The decision's token."},
        returns=bytes,
    ),
    _post(
        f"{_V1}/reward",
        decisions.reward,
        "Report the reward of a decision; durable once the response is sent.",
        roles=("reward",),
        body=RewardRequest,
        returns=RewardResponse,
    ),
    _post(
        f"{_V1}/reward/batch",
        decisions.reward_batch,
        "Many rewards; each has its own error.",
        roles=("reward",),
        body=decisions.RewardBatch,
        row=RewardRequest,
    ),
    _get("/", server.index, "Name and version.", roles=None),
    _get("/healthz", server.healthz, "Whether the process is alive.", roles=None),
    _get("/readyz", server.readyz, "Whether rewards can be recorded.", roles=None),
    _get("/openapi.json", openapi, "This document.", roles=None),
    _get("/metrics", server.metrics, "Metrics for Prometheus.", returns=str),
    _get("/v1/campaigns", campaigns.list_campaigns, "All campaigns."),
    _post(
        "/v1/campaigns", campaigns.create_campaign, "Create a campaign.", body=campaigns.NewCampaign
    ),
    _get("/v1/keys", server.list_keys, "All keys, without their secrets."),
    _post("/v1/keys", server.make_key, "Create a key for any campaign.", body=server.NewGlobalKey),
    _delete("/v1/keys/{key}", server.remove_key, "Remove a key for all campaigns."),
    _get("/v1/signing-keys", server.list_signing_keys, "Ids of the signing keys."),
    _post("/v1/signing-keys", server.rotate_signing_key, "Sign with a new key from now on."),
    _delete("/v1/signing-keys/{key}", server.retire_signing_key, "Reject tokens of an old key."),
    _get(_V1, campaigns.show_campaign, "A campaign and its settings."),
    _patch(_V1, campaigns.change_campaign, "Change some settings.", body=dict[str, Any]),
    _delete(
        _V1,
        campaigns.delete_campaign,
        "Delete a campaign and all its records.",
        query={"confirm": "The campaign's name, to confirm."},
    ),
    _post(f"{_V1}/archive", campaigns.archive_campaign, "Stop deciding."),
    _post(f"{_V1}/restore", campaigns.restore_campaign, "Resume deciding."),
    _post(f"{_V1}/contexts", campaigns.add_contexts, "Add contexts.", body=campaigns.NewLabels),
    _post(f"{_V1}/actions", campaigns.add_actions, "Add actions.", body=campaigns.NewLabels),
    _get(f"{_V1}/keys", server.list_keys, "The campaign's keys, without their secrets."),
    _post(f"{_V1}/keys", server.make_key, "Create a key of the campaign.", body=server.NewKey),
    _delete(f"{_V1}/keys/{{key}}", server.remove_key, "Remove a key of the campaign."),
    _get(f"{_V1}/policy", campaigns.show_policy, "The served plan and policy."),
    _get(f"{_V1}/policy/versions", campaigns.list_policies, "All versions of the policy."),
    _get(f"{_V1}/policy/{{version}}", campaigns.show_version, "One version of the policy."),
    _post(
        f"{_V1}/policy/{{version}}/activate",
        campaigns.activate_version,
        "Serve a version; an older one to roll back.",
    ),
    _post(
        f"{_V1}/learn",
        campaigns.learn,
        "Learn in the background.",
        status=202,
    ),
    _get(f"{_V1}/learn", campaigns.list_jobs, "Learning jobs, newest first."),
    _get(f"{_V1}/learn/{{job}}", campaigns.show_job, "A job and its progress."),
    _get(f"{_V1}/status", looking.status, "Progress of exploration."),
    _get(
        f"{_V1}/report",
        looking.report,
        "Uplift over the control group; shadow matches.",
        query={"policy": "Version of the policy; the one that is served by default."},
    ),
    _get(f"{_V1}/reports", looking.list_reports, "Daily reports, newest first."),
    _get(f"{_V1}/reports/{{day}}", looking.show_report, "The report of a day."),
    _get(
        f"{_V1}/audit",
        looking.audit,
        "Whether explored decisions were attacked, and by whom.",
    ),
    _get(
        f"{_V1}/export",
        looking.export,
        "Decisions whose windows are closed, as Parquet.",
        query={
            "since_ms": "Decisions from this time on, in milliseconds since 1970.",
            "until_ms": "Decisions before this time.",
            "pseudonyms": "true: users get names that say nothing without the secret.",
        },
        returns=bytes,
    ),
    _get(
        f"{_V1}/decisions",
        looking.list_decisions,
        "The latest decisions and their rewards.",
        query={"user": "Those of one user, and the user's current actions."},
    ),
    _delete(
        f"{_V1}/users",
        looking.forget_user,
        "Delete all that was recorded of a user.",
        query={"user": "The user."},
    ),
    _get(
        f"{_V1}/decisions/{{decision}}/explain",
        looking.explain_decision,
        "What was decided, under which plan and policy, and why.",
    ),
)


def openapi_document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """Return the document of some routes."""
    listed = list(endpoints)
    bodies = [endpoint.body for endpoint in listed if _is_struct(endpoint.body)]
    results = [endpoint.returns for endpoint in listed if _is_struct(endpoint.returns)]
    types = list(dict.fromkeys([*bodies, *results]))
    _, schemas = msgspec.json.schema_components(types, ref_template=_REFERENCE)
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
            "schemas": {**schemas, "Error": _ERROR_SCHEMA},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": f"{endpoint.handler.__name__}{_suffix(endpoint.path)}",
        "parameters": [
            {
                "name": name,
                "in": "path",
                "required": True,
                "schema": {"type": "string", "pattern": _PATTERNS.get(name, "^[^/]+$")},
            }
            for name in re.findall(r"{(\w+)}", endpoint.path)
        ]
        + [
            {"name": name, "in": "query", "description": text, "schema": {"type": "string"}}
            for name, text in endpoint.query.items()
        ],
        "responses": {
            str(endpoint.status): {
                "description": endpoint.summary,
                "content": _content(endpoint.returns),
            },
            **{
                status: {
                    "description": "Rejected; see the code.",
                    "content": {
                        "application/json": {"schema": {"$ref": "#/components/schemas/Error"}}
                    },
                }
                for status in _ERRORS
            },
        },
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": _content(endpoint.body)}
    if endpoint.roles is None:
        operation["security"] = []
    return operation


def _suffix(path: str) -> str:
    """Return what tells routes of the same function apart."""
    return "" if "{campaign}" in path else "_of_all" if path.startswith("/v1") else ""


def _content(type_: Any) -> dict[str, Any]:
    if type_ is bytes:
        return {"application/octet-stream": {"schema": {}}}
    if type_ is str:
        return {"text/plain": {"schema": {"type": "string"}}}
    if _is_struct(type_):
        return {"application/json": {"schema": {"$ref": _REFERENCE.format(name=type_.__name__)}}}
    return {"application/json": {"schema": {"type": "object"}}}


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)
