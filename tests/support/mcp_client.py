"""A real client of the Model Context Protocol, that of the SDK, for tests that do not await."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, Tool


class McpClient:
    """Asks a server."""

    def __init__(self, portal: BlockingPortal, client: Client) -> None:
        self._portal = portal
        self._client = client

    def call(self, tool: str, **arguments: object) -> CallToolResult:
        """Return the result of a tool, also if it is an error."""
        return self._portal.call(self._client.call_tool, tool, arguments)

    def ask(self, tool: str, *, detail: str = "full", **arguments: object) -> Any:
        """Return the answer of a tool."""
        result = self.call(tool, detail=detail, **arguments)
        [content] = result.content
        assert not result.is_error, content.text
        assert result.structured_content is None  # it is sent once
        return json.loads(content.text)

    def refusal(self, tool: str, **arguments: object) -> str:
        """Return the sentence with which a tool refuses."""
        result = self.call(tool, **arguments)
        assert result.is_error
        [content] = result.content
        return content.text

    def tools(self) -> list[Tool]:
        """Return the tools."""
        return self._portal.call(self._client.list_tools).tools

    def resources(self) -> tuple[set[str], set[str]]:
        """Return the addresses of the resources, and their templates."""
        fixed = self._portal.call(self._client.list_resources).resources
        templates = self._portal.call(self._client.list_resource_templates).resource_templates
        return {one.uri for one in fixed}, {one.uri_template for one in templates}

    def read(self, uri: str) -> str:
        """Return the text of a resource."""
        [content] = self._portal.call(self._client.read_resource, uri).contents
        return content.text


@contextmanager
def over_stdio(root: Path) -> Iterator[McpClient]:
    """Start `rebalance-watch mcp` over a runtime root, as a client does, until the end of the block."""
    command = ["-m", "streaming.cli", "--root", str(root), "mcp"]
    parameters = StdioServerParameters(command=sys.executable, args=command, cwd=Path(__file__).parents[2])
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(_connect(stdio_client(parameters))) as it:
        yield McpClient(portal, it)


@contextmanager
def over_http(address: str, token: str | None = None, *, cookie: str | None = None) -> Iterator[McpClient]:
    """Connect to the address of a dashboard, with a token or the cookie of a session, until the end of the block."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    headers |= {} if cookie is None else {"Cookie": cookie}
    with start_blocking_portal() as portal:
        http = portal.call(_http, headers)
        transport = streamable_http_client(f"{address}/mcp", http_client=http)
        with portal.wrap_async_context_manager(http), portal.wrap_async_context_manager(_connect(transport)) as it:
            yield McpClient(portal, it)


def _connect(transport: Any) -> Client:
    return Client(transport)


async def _http(headers: dict[str, str]) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(headers=headers, timeout=120)
