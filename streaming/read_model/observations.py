"""The series of quantities with a row for each queue: the view `queue_observations` over the rows of arrays.

Arrays are taken apart in the words of each engine, so this view alone is made here and not in a file of SQL; and a
column more in the contract is a column more of the view.
"""

from schemas.columns import ListOf
from schemas.tables import columns

VIEW = "queue_observations"
TABLE = "queue_progress"

_WHOLE = [column.name for column in columns(TABLE) if not isinstance(column.type, ListOf)]
_EACH = [column.name for column in columns(TABLE) if isinstance(column.type, ListOf)]


def in_duckdb() -> str:
    """The view's SELECT; shorter arrays, which say nothing, give null."""
    whole, each = (", ".join(form.format(name) for name in names) for form, names in _columns("unnest(p.{0}) AS {0}"))
    return f"SELECT {whole}, {each} FROM {TABLE} p"  # noqa: S608  the contract's names


def in_spark() -> str:
    """The same."""
    whole, each = (", ".join(form.format(name) for name in names) for form, names in _columns("z.{0}"))
    arrays, names = ", ".join(f"p.{name}" for name in _EACH), ", ".join(_EACH)
    lateral = f"LATERAL VIEW inline(arrays_zip({arrays})) z AS {names}"
    return f"SELECT {whole}, {each} FROM {TABLE} p {lateral}"  # noqa: S608  the contract's names


def _columns(form: str) -> tuple[tuple[str, list[str]], tuple[str, list[str]]]:
    return ("p.{0}", _WHOLE), (form, _EACH)
