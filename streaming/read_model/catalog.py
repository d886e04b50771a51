"""What can be asked of the tables beside the tables themselves: views, and functions that give a table.

Each is one SELECT in a file, in the SQL that DuckDB and Spark share. Every column is named through its table's alias,
because `group`, `offset` and `time` are words of the language in the one or the other.
"""

from importlib import resources

VIEWS = (
    "ownership_intervals",
    "current_owners",
    "current_groups",
    "current_queues",
    "incidents",
    "open_incidents",
    "queue_pauses",
    "rebalance_cost",
    "mean_time_between_rebalances",
    "telemetry_events",
)
"""In an order in which each may rest on those before it."""

FUNCTIONS = {
    "groups_at": ("instant",),
    "queues_at": ("instant",),
    "owners_at": ("instant",),
    "incidents_at": ("instant",),
    "who_owned_at": ("instant",),
    "owner_changes": ("earlier", "later"),
}
"""Table functions by name, and their parameters: epoch milliseconds."""


def view_sql(name: str) -> str:
    """The SELECT of a view."""
    return _read("views", name)


def function_sql(name: str) -> str:
    """The SELECT of a function, in which its parameters stand by their names."""
    return _read("functions", name)


def _read(folder: str, name: str) -> str:
    return resources.files(__package__).joinpath(folder, f"{name}.sql").read_text("utf-8")
