"""The OpenAPI document, made from the routes themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

import unswayed
from unswayed.service.calls import Endpoint

_REFERENCE = "#/components/schemas/{name}"

#: Statuses that any route may answer with an error.
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
}


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
        return {"application/vnd.apache.parquet": {"schema": {}}}
    if type_ is str:
        return {"text/plain": {"schema": {"type": "string"}}}
    if _is_struct(type_):
        return {"application/json": {"schema": {"$ref": _REFERENCE.format(name=type_.__name__)}}}
    return {"application/json": {"schema": {"type": "object"}}}


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)
