"""Resources: what the rules mean, and what the tables hold, as Markdown."""

from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from streaming.base.errors import NotFoundError
from streaming.serve.mcp.descriptions import RULES, TABLES_URI, rule_page, rules_text, table_text, tables_text
from streaming.serve.mcp.server import McpServer

_MARKDOWN = "text/markdown"


def add_resources(server: McpServer) -> None:
    """Add the resources to a server."""
    add = server.resource
    add(RULES, name="rules", mime_type=_MARKDOWN, description="All codes of incidents, with what each means.")(
        rules_text
    )
    add(
        f"{RULES}/{{code}}", name="rule", mime_type=_MARKDOWN,
        description="One rule: sub-causes with their first step, evidence with units, needed telemetry.",
    )(rule)  # fmt: skip
    add(
        TABLES_URI, name="tables", mime_type=_MARKDOWN,
        description="All tables, views and functions for SQL, with what a row of each is.",
    )(tables_text)  # fmt: skip
    add(
        f"{TABLES_URI}/{{table}}", name="table", mime_type=_MARKDOWN,
        description="The columns of a table, with type, unit and meaning.",
    )(table_columns)  # fmt: skip


def rule(code: str) -> str:
    """Return the page of one rule.

    Raises:
        ResourceNotFoundError: there is no such code.
    """
    try:
        return rule_page(code)
    except NotFoundError as error:
        raise ResourceNotFoundError(str(error)) from None


def table_columns(table: str) -> str:
    """Return the page of one table.

    Raises:
        ResourceNotFoundError: there is no such table.
    """
    try:
        return table_text(table)
    except NotFoundError as error:
        raise ResourceNotFoundError(str(error)) from None
