"""Recordings of real servers, which the short forms of live tests judge."""

import tarfile
from pathlib import Path

from streaming.log.recording import _lines
from streaming.log.rows import rows_of_line


def unpacked(recording: Path, folder: Path) -> Path:
    """Unpack a recording into a folder; return the folder."""
    with tarfile.open(recording) as opened:
        opened.extractall(folder, filter="data")
    return folder


def recorded_rows(path, partitions):
    """Yield the rows of each line of a recording, without the missing last ticks."""
    for line in _lines(path):
        yield rows_of_line(line, partitions)
