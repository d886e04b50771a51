"""Read from a query's checkpoint how far it has read the log.

Spark writes the end of a batch's input to ``offsets/<batch>``, and marks the batch as finished by ``commits/<batch>``.
For Kafka the end is the next offset of each partition; for files a number, and ``sources/0`` has the files of each
number.
"""

import json
from pathlib import Path
from typing import Any

from checkpoints.spark_files import last, read_lines, refusal
from checkpoints.torn import lists_of_files
from streaming.log.files import offset_of, parse_path

Position = dict[int, int]
"""By partition: the offset after the last row that was read."""


def position_of_query(checkpoint: Path) -> Position:
    """Return how far the finished batches of a query have read; empty before the first.

    Args:
        checkpoint: the query's checkpoint folder.

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
