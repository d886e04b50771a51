"""The stateless pass of `bench_job` in the workers: all bytes into Python, and one row back.

A worker imports this module alone; the bench itself would bring Delta and DuckDB into workers that the job then uses.
"""

from collections.abc import Iterator

import pyarrow as pa

from rebalance_model.observe.effects import GroupSnapshot
from streaming.pipeline.effects import by_table


def one_row(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Pass all bytes to Python, and one row back for the sink."""
    size = sum(len(value) for batch in batches for value in batch.column("value").to_pylist())
    row = GroupSnapshot(
        cluster="c",
        group="g",
        time=size,
        known_at=size,
        seq=0,
        cause="",
        members=(),
        subscriptions=(),
        consume_type="",
        message_model="",
        consume_from_where="",
        orderly=None,
        strategy=None,
        health="OK",
        health_reason="",
        coverage="",
    )
    yield pa.RecordBatch.from_pylist([effects._asdict() for effects in by_table([row])])
