"""The rows that stay when old ones are dropped: the last state of everything that something still refers to.

Rows go by age, but entities as a whole. A group is referred to by an incident that was open at the limit or later, by a
queue that a client still owns, and by any newer row of its own. Of such a group the last expired row stays, and that of
each of its queues, so at the limit and after it every table says the same of a group, its queues and their owners. An
incident stays with all its transitions until it is over, and so do those that explain it.

Rebalances go by age alone: one that stayed would falsify the means of its group.
"""

from collections.abc import Mapping

import duckdb
from deltalake import DeltaTable, Transaction

from streaming.base.place import Place
from streaming.base.times import written
from streaming.tables.delta import delta_at
from streaming.tables.files import files_of, select
from streaming.tables.folder import folder_at

ENTITIES = ("assignment_history", "group_state", "queue_state", "rebalances", "anomalies")
"""The tables whose rows are about groups, and refer to each other."""
_OF_LIVE_GROUP = '(cluster, "group") IN (SELECT (cluster, "group") FROM live_groups)'
_LAST_OF_QUEUE = f"""
    row_number() OVER (PARTITION BY cluster, "group", topic, broker, queue_id ORDER BY time DESC, seq DESC) = 1
    AND {_OF_LIVE_GROUP}
"""
_LAST_OF_GROUP = f"""
    row_number() OVER (PARTITION BY cluster, "group" ORDER BY time DESC, seq DESC) = 1
    AND {_OF_LIVE_GROUP}
"""
OUTLIVES = {
    "assignment_history": _LAST_OF_QUEUE,
    "group_state": _LAST_OF_GROUP,
    "queue_state": _LAST_OF_QUEUE,
    "anomalies": "(cluster, incident_id) IN (SELECT (cluster, incident_id) FROM kept_incidents)",
    **dict.fromkeys(
        (
            "rebalances", "quality_results", "telemetry", "operator_actions",
            "queue_progress", "queue_progress_minute", "queue_progress_5min",
        ),
        "false",
    ),
}  # fmt: skip
"""The condition by which an expired row of each table is kept; see `refer`. Other tables are never shortened: rejected
rows are for a person to check, and after a restart the alerts continue from their deliveries."""

_REFERENCES = """
CREATE OR REPLACE TEMP TABLE kept_incidents AS
WITH RECURSIVE kept AS (
    SELECT cluster, incident_id FROM anomalies
    GROUP BY cluster, incident_id
    HAVING NOT coalesce(bool_or(transition = 'RESOLVED' AND time < {limit}), false)
    UNION
    SELECT a.cluster, a.parent FROM anomalies a JOIN kept k USING (cluster, incident_id) WHERE a.parent IS NOT NULL
)
SELECT * FROM kept;

CREATE OR REPLACE TEMP TABLE live_groups AS
SELECT cluster, "group" FROM anomalies
WHERE (cluster, incident_id) IN (SELECT (cluster, incident_id) FROM kept_incidents)
UNION
SELECT cluster, "group" FROM (
    SELECT cluster, "group", arg_max(action, (time, seq)) AS last_action FROM assignment_history
    GROUP BY cluster, "group", topic, broker, queue_id
)
WHERE last_action = 'ASSIGNED'
UNION
SELECT cluster, "group" FROM group_state WHERE time >= {limit}
UNION
SELECT cluster, "group" FROM queue_state WHERE time >= {limit}
UNION
SELECT cluster, "group" FROM assignment_history WHERE time >= {limit}
UNION
SELECT cluster, "group" FROM rebalances WHERE time >= {limit};
"""


def expired(table: str, rows: str, limit: int) -> str:
    """Return the SELECT of the rows of a table before a limit, epoch milliseconds, with a column ``outlives``.

    For one of `ENTITIES` the connection has what `refer` defines.
    """
    return f"SELECT *, {OUTLIVES[table]} AS outlives FROM ({rows}) WHERE time < {instant(limit)}"  # noqa: S608  ours


def refer(database: duckdb.DuckDBPyConnection, rows: Mapping[str, str], limit: int) -> None:
    """Define in the database which groups and incidents the rows of all `ENTITIES` refer to.

    Rows before ``limit``, epoch milliseconds, are dropped.
    """
    for table in ENTITIES:
        database.execute(f"CREATE OR REPLACE TEMP VIEW {table} AS {rows[table]}")
    database.execute(_REFERENCES.format(limit=instant(limit)))


def entity_rows(tables: Place) -> dict[str, str]:
    """Return for each of `ENTITIES` the SELECT of its rows, whose files are here then.

    Raises:
        UserError: a table can't be read.
    """
    rows = {}
    for table in ENTITIES:
        folder, files = folder_at(tables / table), files_of(table, delta_at(tables / table))
        folder.fetch(files)
        rows[table] = select(table, folder.path, files)
    return rows


def instant(time_ms: int) -> str:
    """Return epoch milliseconds as a timestamp of DuckDB, in SQL."""
    return f"make_timestamptz({time_ms * 1000})"


def dropped_before(delta: DeltaTable, table: str) -> int | None:
    """Return the latest limit before which rows of a table were dropped, epoch milliseconds; None: none ever were."""
    return delta.transaction_version(_application(table))


def noted(delta: DeltaTable, table: str, limit: int) -> Transaction:
    """Return what a commit that drops rows notes, for `dropped_before`."""
    return Transaction(_application(table), max(limit, dropped_before(delta, table) or 0))


def described(count: int, limit: int) -> str:
    """Return in words what a commit drops."""
    return f"dropped {count:,} rows from before {written(limit)}"


def _application(table: str) -> str:
    """Return the id under which the log of a table keeps a limit: like an application's last batch it outlives all."""
    return f"maintain/{table}/dropped-before"
