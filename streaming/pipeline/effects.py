"""The operator's effects on their way to the sink.

Those of one table are one row of Spark's, so that neither Spark nor the driver handles each by itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from rebalance_model.observe.effects import TABLE_OF, AnyRow
from schemas.rows import RejectedRow

EFFECT_SCHEMA = "table STRING NOT NULL, rows LONG NOT NULL, lines BINARY NOT NULL"
"""`Effects`, as Spark has them."""
COUNT_MAX = 10_000
"""The most effects together: a value of Spark's has 2 GB at most."""
QUARANTINE = "telemetry_rejected"
"""The table of `RejectedRow`: the archive's, to which the operator adds what it could not use."""
_ENCODER = msgspec.json.Encoder()


class Effects(NamedTuple):
    """Effects of one table."""

    table: str
    rows: int
    """Their number."""
    lines: bytes
    """Each effect as a line of JSON."""


def by_table(effects: Iterable[AnyRow]) -> Iterator[Effects]:
    """Yield effects by their tables, in which they keep their order."""
    rows_of: dict[str, list[AnyRow]] = {}
    for effect in effects:
        rows_of.setdefault(TABLE_OF[type(effect)], []).append(effect)
    for table, rows in rows_of.items():
        yield from _together(table, rows)


def rejected(rows: Sequence[RejectedRow]) -> Iterator[Effects]:
    """Yield what the operator could not use, for the quarantine."""
    return _together(QUARANTINE, rows)


def _together(table: str, rows: Sequence[AnyRow | RejectedRow]) -> Iterator[Effects]:
    for first in range(0, len(rows), COUNT_MAX):
        part = rows[first : first + COUNT_MAX]
        yield Effects(table, len(part), _ENCODER.encode_lines(part))
