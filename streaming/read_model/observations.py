"""The series of quantities with a row for each queue: the view `queue_observations` over the rows of arrays.

It spans the answers themselves and what `maintain` made of them, a row a minute and one in five: of a day that has all
three, a reader takes the finest by ``level``. Arrays are taken apart in the words of each engine, so this view alone is
made here and not in a file of SQL; and a column more in the contract is a column more of the view.
"""

from schemas.columns import ListOf
from schemas.tables import columns

VIEW = "queue_observations"
_LEVELS = {"queue_progress": 2, "queue_progress_minute": 1, "queue_progress_5min": 0}
"""The tables, the finest with the highest number."""

_WHOLE = [c.name for c in columns("queue_progress") if not isinstance(c.type, ListOf) and c.name != "time"]
_EACH = [c.name for c in columns("queue_progress") if isinstance(c.type, ListOf)]


def in_duckdb() -> str:
    """The view's SELECT; shorter arrays, which say nothing, give null."""
    return _union("unnest(p.{0})", "")


def in_spark() -> str:
    """The same."""
    return _union("z.{0}", " LATERAL VIEW inline(arrays_zip({arrays})) z AS {names}")


def _union(element: str, lateral: str) -> str:
    """All levels, one after the other.

    Args:
        element: how the engine names an element of the array ``{0}``.
        lateral: what it needs after the table for that.
    """
    return "\nUNION ALL\n".join(_of(table, level, element, lateral) for table, level in _LEVELS.items())


def _of(table: str, level: int, element: str, lateral: str) -> str:
    rolled_up = level < _LEVELS["queue_progress"]
    names = [*_EACH, "observed_at"] if rolled_up else _EACH
    after = lateral.format(arrays=", ".join(f"p.{name}" for name in names), names=", ".join(names))
    time = element.format("observed_at") if rolled_up else "p.time"
    whole = ", ".join(f"p.{name}" for name in _WHOLE)
    each = ", ".join(f"{element.format(name)} AS {name}" for name in _EACH)
    return f"SELECT {whole}, {level} AS level, p.time AS row_time, {time} AS time, {each} FROM {table} p{after}"  # noqa: S608
