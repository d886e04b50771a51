"""Rights of writers: for each operation the tables that it writes, and the kinds of commit that it may make there.

Each operation takes its tables from here (`tables_of`), and names itself in its commits. Tests and `doctor` compare the
history of each table with it (`streaming.tables.versions`), and the page for those who build on the tables shows it.
"""

from collections.abc import Mapping
from enum import StrEnum

from schemas.tables import DERIVED, TABLES


class CommitKind(StrEnum):
    """The effect of a commit on the rows of a table."""

    APPEND = "append"
    """It adds rows."""
    DELETE = "delete"
    """It removes whole files of rows, and adds none."""
    REPLACE = "replace"
    """It removes rows and adds others."""
    REARRANGE = "rearrange"
    """It moves rows to other files, and changes none."""
    DESCRIBE = "describe"
    """It changes properties, columns or comments of the table, or notes something, and no row."""


class Operation(StrEnum):
    """A writer of tables; by its name in their history."""

    RUN_OPERATOR = "run: operator"
    """The job's query with the state of the groups."""
    RUN_ARCHIVE = "run: archive"
    """The job's query that keeps the events, with the checks of its batches."""
    START = "start"
    """The start of the job: tables of a new release, their columns and properties."""
    QUALITY = "quality"
    """The checks of the tables, by `maintain --every` or `quality --now`."""
    ALERT = "alert"
    """The alerts, and what people do about them by command, page, REST or MCP; and their SQL queries."""
    MAINTAIN = "maintain"
    """Each round, and the days of quantities that it drops and rolls up."""
    MAINTAIN_OLDER = "maintain --older-than"
    REBUILD = "rebuild"
    UNDO = "rebuild --undo"
    BACKTEST = "backtest"
    """It only reads, and writes below a folder of its own."""


_SERIES = ("queue_progress", "queue_progress_minute", "queue_progress_5min")
_REBUILT = tuple(table for table in DERIVED if table != "queue_progress")
"""In the order in which a batch appends. `queue_progress` does not depend on the order of events."""


def _each(tables: tuple[str, ...], *commits: CommitKind) -> dict[str, frozenset[CommitKind]]:
    return dict.fromkeys(tables, frozenset(commits))


CONTRACT: Mapping[Operation, Mapping[str, frozenset[CommitKind]]] = {
    Operation.RUN_OPERATOR: _each((*DERIVED, "telemetry_rejected"), CommitKind.APPEND),
    Operation.RUN_ARCHIVE: _each(("telemetry", "telemetry_rejected", "quality_results"), CommitKind.APPEND),
    Operation.START: _each(TABLES, CommitKind.DESCRIBE),
    Operation.QUALITY: _each(("quality_results",), CommitKind.APPEND),
    Operation.ALERT: _each(("alert_deliveries", "alert_controls", "operator_actions"), CommitKind.APPEND),
    Operation.MAINTAIN: {
        **_each(TABLES, CommitKind.REARRANGE, CommitKind.DESCRIBE),
        "queue_progress": frozenset({CommitKind.DELETE, CommitKind.REARRANGE, CommitKind.DESCRIBE}),
        **_each(_SERIES[1:], CommitKind.APPEND, CommitKind.DELETE, CommitKind.REARRANGE, CommitKind.DESCRIBE),
    },
    Operation.MAINTAIN_OLDER: _each(
        (*DERIVED, *_SERIES[1:], "telemetry", "quality_results", "operator_actions"),
        CommitKind.DELETE,
        CommitKind.REARRANGE,
    ),
    Operation.REBUILD: _each(_REBUILT, CommitKind.REPLACE, CommitKind.DESCRIBE),
    Operation.UNDO: _each(_REBUILT, CommitKind.REPLACE, CommitKind.DESCRIBE),
    Operation.BACKTEST: {},
}
"""The commits that each operation may make, by table; a table that is not listed it does not write."""


def tables_of(operation: Operation, commit: CommitKind) -> tuple[str, ...]:
    """Return the tables to which an operation may make such a commit, in the order in which it writes them."""
    return tuple(table for table, commits in CONTRACT[operation].items() if commit in commits)


def may(table: str, commit: CommitKind, name: str = "") -> bool:
    """Return whether an operation, with any options, may make such a commit to a table; "": any operation."""
    named = (operation for operation in CONTRACT if not name or operation == name or operation.startswith(f"{name} "))
    return any(commit in CONTRACT[operation].get(table, ()) for operation in named)
