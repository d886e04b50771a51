"""Recordings of real servers, which the short forms of live tests judge."""

import tarfile
from pathlib import Path


def unpacked(recording: Path, folder: Path) -> Path:
    """Unpack a recording into a folder; return the folder."""
    with tarfile.open(recording) as opened:
        opened.extractall(folder, filter="data")
    return folder
