"""Descriptions of rules and tables, as Markdown, for resources and tools."""

from mcp.server.mcpserver.exceptions import ResourceNotFoundError

from schemas.meanings import meaning_of
from schemas.tables import PARTITIONED_BY, TABLES
from streaming.base.errors import NotFoundError
from streaming.base.nearest import did_you_mean
from streaming.queries.rule_text import rule_codes, rule_summary, rule_text
from streaming.serve.mcp.server import McpServer
from streaming.tables.catalog import described_columns, relations

RULES = "rebalance-watch://rules"
TABLES_URI = "rebalance-watch://tables"


def rules_text() -> str:
    """Return all codes with what each means."""
    lines = [f"- `{code}`: {rule_summary(code)}" for code in rule_codes()]
    return "\n".join(["# Rules", "", f"Each has a page: {RULES}/CODE.", "", *lines])


def rule_page(code: str) -> str:
    """Return the page of one rule.

    Raises:
        NotFoundError: there is no such code.
    """
    text = rule_text(code)
    lines = [f"# {text.code}", "", text.summary, "", f"About a {', '.join(text.about)}."]
    if text.needs:
        lines.append(f"Suspended (unknown) without {', '.join(text.needs)}.")
    if text.explained_by:
        lines.append(f"Child of {', '.join(text.explained_by)} while one of them is open.")
    lines += ["", "## Sub-causes", ""]
    for one in text.sub_causes:
        lines.append(f"- {one.sub_cause or 'none'}: {one.what} First step: {one.first_step}")
    lines += ["", "## Evidence", "", *(f"- `{name}`: {unit}" for name, unit in text.evidence.items())]
    return "\n".join(lines)


def tables_text() -> str:
    """Return all tables, views and functions with what a row of each is."""
    of_tables = [f"- `{name}`: {meaning_of(name)}" for name in TABLES]
    of_views = [f"- `{name}`: {meaning}" for name, meaning in relations().items()]
    return "\n".join(
        ["# Tables", "", f"Each has a page with its columns: {TABLES_URI}/TABLE.", "", *of_tables, "",
         "# Views, and functions of an instant", "", *of_views]
    )  # fmt: skip


def table_text(table: str) -> str:
    """Return the page of one table.

    Raises:
        NotFoundError: there is no such table.
    """
    if table not in TABLES:
        advice = did_you_mean(table, TABLES) or "describe_tables without a name lists all."
        raise NotFoundError(f"Unknown table {table}: {advice}")
    by = PARTITIONED_BY.get(table)
    lines = [f"# {table}", "", meaning_of(table)]
    if by:
        lines.append(f"Partitioned by {', '.join(by)}: filter by it where possible.")
    lines += ["", "## Columns", ""]
    for column in described_columns(table):
        null = ", may be null" if column.is_nullable else ""
        lines.append(f"- `{column.name}` ({column.type}{null}): {column.meaning}")
    return "\n".join(lines)


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
