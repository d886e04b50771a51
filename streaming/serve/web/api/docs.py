"""The page that describes the API: made from its OpenAPI description, without a script and without another site."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any


def page(openapi: Mapping[str, Any]) -> str:
    """Return the page as HTML."""
    title = escape(openapi["info"]["title"])
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}: REST API</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"</head><body><main><h1>{title}: REST API</h1>",
        f"<p>{escape(openapi['info']['description'])}</p>",
        '<p><a href="api/v1/openapi.json">openapi.json</a></p>',
        *_contents(openapi),
        *(line for path, methods in sorted(openapi["paths"].items()) for line in _path(path, methods, openapi)),
        "</main></body></html>",
    ]
    return "\n".join(parts)


def _contents(openapi: Mapping[str, Any]) -> Iterator[str]:
    yield "<nav><ul>"
    for path, methods in sorted(openapi["paths"].items()):
        for method, route in methods.items():
            name = escape(route["operationId"], quote=True)
            yield f'<li><a href="#{name}"><code>{method.upper()} {escape(path)}</code></a></li>'
    yield "</ul></nav>"


def _path(path: str, methods: Mapping[str, Any], openapi: Mapping[str, Any]) -> Iterator[str]:
    for method, route in methods.items():
        yield f'<h2 id="{escape(route["operationId"], quote=True)}"><code>{method.upper()} {escape(path)}</code></h2>'
        yield f"<p>{escape(route.get('description', ''))}</p>"
        if parameters := route.get("parameters"):
            yield "<table><thead><tr><th>Parameter</th><th>In</th><th>Meaning</th></tr></thead><tbody>"
            for one in parameters:
                needed = "" if one.get("required") is not True else " (required)"
                cells = (f"<code>{escape(one['name'])}</code>{needed}", one["in"], escape(one.get("description", "")))
                yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
            yield "</tbody></table>"
        fields = list(_fields(route, openapi))
        if fields:
            yield "<table><thead><tr><th>Field of the answer</th><th>Meaning</th></tr></thead><tbody>"
            yield from (
                f"<tr><td><code>{escape(name)}</code></td><td>{escape(text)}</td></tr>" for name, text in fields
            )
            yield "</tbody></table>"


def _fields(route: Mapping[str, Any], openapi: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the fields of an answer, of a list those of its rows."""
    content = route.get("responses", {}).get("200", {}).get("content", {}).get("application/json", {})
    schema = content.get("schema", {})
    schema = schema.get("items", schema)
    name = schema.get("$ref", "").rpartition("/")[2]
    described = openapi.get("components", {}).get("schemas", {}).get(name, {})
    for field, of_field in described.get("properties", {}).items():
        yield field, of_field.get("description", "")
