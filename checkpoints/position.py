"""Read from a query's checkpoint how far it has read the log.

Spark writes the end of a batch's input to ``offsets/<batch>``, and marks the batch as finished by ``commits/<batch>``.
For Kafka the end is the next offset of each partition; for files a number, and ``sources/0`` has the files of each
number.
"""

import json
from pathlib import Path
from typing import Any

from streaming.log.files import offset_of, parse_path

Position = dict[int, int]
"""By partition: the offset after the last row that was read."""


def position_of_query(checkpoint: Path) -> Position:
    """Return how far the finished batches of a query have read; empty before the first.

    Args:
        checkpoint: the query's checkpoint folder.
    """
    finished = max((int(file.name) for file in (checkpoint / "commits").glob("*") if file.name.isdecimal()), default=-1)
    if finished < 0:
        return {}
    read: dict[str, Any] = json.loads((checkpoint / "offsets" / str(finished)).read_text("utf-8").splitlines()[2])
    if "logOffset" in read:
        return _after_files(checkpoint / "sources" / "0", int(read["logOffset"]))
    [partitions] = read.values()
    return {int(partition): int(offset) for partition, offset in partitions.items()}


def _after_files(log: Path, number: int) -> Position:
    """Return the position after the last file of each partition among those up to Spark's file number."""
    position: Position = {}
    for file in log.glob("[0-9]*"):
        for line in file.read_text("utf-8").splitlines()[1:]:
            entry = json.loads(line)
            if entry["batchId"] <= number:
                partition, file_number = parse_path(entry["path"])
                position[partition] = max(position.get(partition, 0), offset_of(file_number + 1, 0))
    return position
