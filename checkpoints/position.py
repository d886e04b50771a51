"""The position of a query in the log, in its checkpoint's plans and records of batches; mended after a power cut.

Spark writes the end of a batch's input to ``offsets/<batch>``, and marks the batch as finished by ``commits/<batch>``.
For Kafka the end is the next offset of each partition; for files a number, and ``sources/0`` has the files of each
number.

The plan of a batch is synced before its rows are written, and the state after it before Spark records it (`sync_plan`,
`sync_state` in `streaming.pipeline.sinks`). So a power cut can tear only

- the record of the last batch: without it, the batch is repeated, and the tables skip the rows that they have;
- the record of the batch before, if one was planned since: then it was finished, and the record can be written again;
- the plan of a batch of which no table has rows: without it, the rows are planned again.

So these are removed, or written again. If another file is not whole, its disk or someone has damaged it, and the start
is refused.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

from checkpoints.spark_files import last, numbers, read_lines, refusal, remove, remove_torn_checksums
from streaming.base.files import replace_atomically
from streaming.base.place import Place
from streaming.log.files import offset_of, parse_path

_PLANS, _RECORDS, _LISTS = "offsets", "commits", "sources/0"
_COMPACT = ".compact"
_RECORD = b'v1\n{"nextBatchWatermarkMs":0}'
"""The record of any batch: the job's queries have no watermark."""


def mend(checkpoint: Path, written: Callable[[], int]) -> None:
    """Undo what a power cut has torn of the last batches of a query, which does not run.

    ``written`` returns the last batch of which a table has rows; -1 before the first.

    Raises:
        UserError: a file that the query needs is not whole.
    """
    for folder in (_PLANS, _RECORDS, _LISTS):
        remove_torn_checksums(checkpoint / folder)
    record = checkpoint / _RECORDS / str(last(checkpoint / _RECORDS))
    if read_lines(record) is None:
        remove(record)
    _remove_list_without_plan(checkpoint)
    while (batch := _last_batch(checkpoint)) >= 0 and (torn := _torn(checkpoint, batch)) is not None:
        if written() >= batch:
            raise refusal(torn)
        remove(checkpoint / _PLANS / str(batch))
        remove(checkpoint / _RECORDS / str(batch))
        _remove_list_without_plan(checkpoint)
    if 0 < batch > last(checkpoint / _RECORDS):
        _check_former(checkpoint, batch - 1)
    if not _has_id(checkpoint / "metadata"):  # of the query, for Spark's logs: nothing depends on it
        remove(checkpoint / "metadata")
        if batch >= 0:
            replace_atomically(checkpoint / "metadata", json.dumps({"id": str(uuid4())}).encode())


def _last_batch(checkpoint: Path) -> int:
    """Return the last batch that was planned or recorded; -1 before the first."""
    return max(last(checkpoint / _PLANS), last(checkpoint / _RECORDS))


def _check_former(checkpoint: Path, batch: int) -> None:
    """Check the batch before one that is not recorded: that one begins where it ends, so it was finished."""
    if (torn := _torn(checkpoint, batch)) is not None:
        raise refusal(torn)
    record = checkpoint / _RECORDS / str(batch)
    if read_lines(record) is None:
        remove(record)
        record.parent.mkdir(exist_ok=True)
        replace_atomically(record, _RECORD)


def lists_of_files(checkpoint: Path, end: int) -> list[Path]:
    """Return the lists from which Spark knows the files that a query has read of a file log, up to a plan's end.

    They are the last compact list, which has the files of all batches before it, and one list for each batch after it.
    """
    folder = checkpoint / _LISTS
    compact = last(folder, _COMPACT)
    later = range(compact + 1, max(compact, last(folder), end) + 1)
    return [folder / f"{compact}{_COMPACT}"] * (compact >= 0) + [folder / str(number) for number in later]


def _torn(checkpoint: Path, batch: int) -> Path | None:
    """Return a file of a batch's plan that is missing or not whole: the plan, or of a file log a list of its files."""
    end = _end(checkpoint, batch)
    if end is None:
        return checkpoint / _PLANS / str(batch)
    return next((file for file in lists_of_files(checkpoint, end) if read_lines(file) is None), None)


def _end(checkpoint: Path, batch: int) -> int | None:
    """Return the number of the last list of a batch's files; -1: its log is in Kafka; None: its plan is not whole."""
    lines = read_lines(checkpoint / _PLANS / str(batch))
    return None if lines is None else int(lines[-1].get("logOffset", -1))


def _remove_list_without_plan(checkpoint: Path) -> None:
    """Remove the last list of files if it is torn and no plan has it: Spark writes it before the plan.

    Of a log in Kafka the only list is that of its initial offsets, from which batch 0 begins; no plan names it.
    """
    ends = (_end(checkpoint, batch) for batch in sorted(numbers(checkpoint / _PLANS), reverse=True))
    end = next((end for end in ends if end is not None), -1)
    for file in lists_of_files(checkpoint, -1)[-1:]:
        if int(file.name.removesuffix(_COMPACT)) > end and read_lines(file) is None:
            remove(file)


def _has_id(metadata: Path) -> bool:
    try:
        return bool(json.loads(metadata.read_bytes())["id"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


Position = dict[int, int]
"""By partition: the offset after the last row that was read."""


def last_batch(checkpoint: Place) -> int | None:
    """Return the last batch that was started; None before the first."""
    return max(_batches(checkpoint, _PLANS), default=None)


def unfinished_batch(checkpoint: Place) -> int | None:
    """Return the batch that was started and not finished; None if there is none."""
    begun = last_batch(checkpoint)
    return begun if begun is not None and begun not in _batches(checkpoint, _RECORDS) else None


def _batches(checkpoint: Place, folder: str) -> set[int]:
    from streaming.tables.folder import folder_at  # Spark's workers import this module, and have no DuckDB

    return {int(name) for name in folder_at(checkpoint).names(folder) if name.isdecimal()}


def position_of_query(checkpoint: Path) -> Position:
    """Return how far the finished batches of a query have read; empty before the first.

    Raises:
        UserError: a file that has it is missing or not whole.
    """
    finished = last(checkpoint / "commits")
    if finished < 0:
        return {}
    plan = checkpoint / "offsets" / str(finished)
    try:
        read: dict[str, Any] = json.loads(plan.read_text("utf-8").splitlines()[2])
        if "logOffset" in read:
            return _after_files(checkpoint, int(read["logOffset"]))
        [partitions] = read.values()
    except (FileNotFoundError, ValueError, IndexError) as error:
        raise refusal(plan) from error
    return {int(partition): int(offset) for partition, offset in partitions.items()}


def _after_files(checkpoint: Path, end: int) -> Position:
    """Return the position after the last file of each partition, among the files up to a plan's end."""
    position: Position = {}
    for file in lists_of_files(checkpoint, end):
        if (entries := read_lines(file)) is None:
            raise refusal(file)
        for entry in entries:
            if entry["batchId"] <= end:
                partition, number = parse_path(entry["path"])
                position[partition] = max(position.get(partition, 0), offset_of(number + 1, 0))
    return position
