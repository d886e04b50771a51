"""The operator's effects on their way to the sink.

Those of one table are one row of Spark's, so that neither Spark nor the driver handles each by itself.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
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
_TABLES: dict[type, str] = {**TABLE_OF, RejectedRow: QUARANTINE}
_ENCODER = msgspec.json.Encoder()


class Effects(NamedTuple):
    """Effects of one table."""

    table: str
    rows: int
    """Their number."""
    lines: bytes
    """Each effect as a line of JSON."""


def by_table(effects: Iterable[AnyRow | RejectedRow]) -> list[Effects]:
    """Return effects by their tables, in which they keep their order.

    Each becomes text before the next one is made: thousands of them would be far more memory than their text.
    """
    done: list[Effects] = []
    lines, rows = defaultdict[str, bytearray](bytearray), Counter[str]()
    encode = _ENCODER.encode_into
    for effect in effects:
        table = _TABLES[type(effect)]
        text = lines[table]
        encode(effect, text, len(text))
        text += b"\n"
        rows[table] += 1
        if rows[table] == COUNT_MAX:
            done.append(Effects(table, rows.pop(table), bytes(lines.pop(table))))
    return done + [Effects(table, rows[table], bytes(text)) for table, text in lines.items()]
