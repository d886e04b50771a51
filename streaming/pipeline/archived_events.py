"""Read the events of archived rows, for a rebuild and a backtest: with the decoder and in the sizes of the job."""

from collections.abc import Iterator, Mapping
from typing import Any

from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.events.decoding import RejectedError, decode
from streaming.tables import ReadModel


def batches(model: ReadModel, query: str, parameters: Mapping[str, object]) -> Iterator[Iterator[tuple[Any, ...]]]:
    """Yield the rows of a query in batches, so that not all of them are in memory."""
    for batch in model.scan(query, parameters):
        yield zip(*(column.to_pylist() for column in batch.columns), strict=True)


def decoded(value: str, stamp: int) -> tuple[AnyEvent | None, int]:
    """Return an archived row's event and its bytes in the log; no event if only an earlier release accepted it.

    Args:
        value: the row's content.
        stamp: the log's own stamp of the row, epoch milliseconds.
    """
    line = value.encode()
    try:
        return decode(line, key=None, stamp=stamp, keyed=False), len(line)
    except RejectedError:
        return None, len(line)
