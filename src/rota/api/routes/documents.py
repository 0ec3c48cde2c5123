"""The OpenAPI document, and the same as an HTML page without scripts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from typing import Any, Final

from rota.api.headers import ACCEPT_PAGE
from rota.api.http import Request, Response, json_response
from rota.api.router import HTML, Route
from rota.core.access import Action

_STYLE: Final = """
:root { color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.45; }
body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
code, .path { font-family: ui-monospace, monospace; }
details { border: 1px solid #8886; border-radius: .4rem; margin: .4rem 0; padding: .4rem .7rem; }
summary { cursor: pointer; }
.method { display: inline-block; min-width: 4.5rem; font-weight: 600; }
.scope { float: right; opacity: .7; }
table { border-collapse: collapse; width: 100%; }
td, th { border-top: 1px solid #8884; padding: .25rem .5rem; text-align: left; vertical-align: top; }
"""
_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def docs_page(document: Mapping[str, Any]) -> str:
    """Render the OpenAPI document as HTML."""
    tags: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            tags.setdefault(operation["tags"][0], []).append(_operation(method, path, operation))
    schemas = document["components"]["schemas"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Rota API</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main>'
        f"<h1>Rota API</h1><p>{escape(document['info']['description'])}</p>"
        '<p>For programs: <a href="/openapi.json">openapi.json</a>.</p>'
        + "".join(f"<h2>{escape(tag)}</h2>{''.join(parts)}" for tag, parts in tags.items())
        + "<h2>Forms</h2>"
        + "".join(_form(name, schema) for name, schema in sorted(schemas.items()))
        + "</main></body></html>"
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    rows = [
        (
            f"<code>{escape(one['name'])}</code>",
            escape(one["in"]),
            _type(one["schema"]),
            "required" if one["required"] else "",
        )
        for one in operation.get("parameters", ())
    ]
    if "requestBody" in operation:
        (content,) = operation["requestBody"]["content"].values()
        rows.append(("body", "", _type(content["schema"]), "required" if operation["requestBody"]["required"] else ""))
    for status, response in operation["responses"].items():
        kinds = ", ".join(_type(one["schema"]) for one in response.get("content", {}).values())
        rows.append((escape(status), "response", kinds, escape(response["description"])))
    return (
        f'<details><summary><span class="method">{escape(method.upper())}</span> '
        f'<span class="path">{escape(path)}</span> <span class="scope">{escape(operation["x-rota-action"])}</span>'
        f"<br>{escape(operation['summary'])}</summary>{_table(rows)}</details>"
    )


def _form(name: str, schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        (f"<code>{escape(field)}</code>", _type(one), "required" if field in required else "")
        for field, one in schema.get("properties", {}).items()
    ]
    text = escape(schema.get("description", "")) or ", ".join(escape(str(one)) for one in schema.get("enum", ()))
    return f'<details id="{escape(name)}"><summary>{escape(name)}</summary><p>{text}</p>{_table(rows)}</details>'


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    return escape(str(schema.get("format") or schema.get("type") or "anything"))


def _table(rows: Iterable[tuple[str, ...]]) -> str:
    return "<table>" + "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows) + "</table>"


async def openapi(request: Request) -> Response:
    return json_response(request.context.document)


async def docs(request: Request) -> Response:
    text = docs_page(request.context.document)
    return Response(
        text.encode(),
        headers=[(b"content-security-policy", CONTENT_SECURITY_POLICY.encode())],
        media=f"{HTML}; charset=utf-8",
    )


_PAGE = Route(
    method="GET",
    path="/docs",
    action=Action.SYSTEM_READ,
    handler=docs,
    summary="The API documentation as an HTML page",
    tag="documents",
    responses={200: HTML},
)

ROUTES = (
    Route(
        method="GET",
        path="/openapi.json",
        action=Action.SYSTEM_READ,
        handler=openapi,
        summary="The OpenAPI 3.1 document",
        tag="documents",
        responses={200: dict[str, Any]},
    ),
    _PAGE,
    # For people who open the address that the server prints.
    _PAGE.at("/", headers=(ACCEPT_PAGE,), responses={200: HTML, 303: None}),
)
