"""Features of Delta that another engine switches on."""

import json
from pathlib import Path

from deltalake import DeltaTable

LISTED: dict[str, object] = {"minReaderVersion": 3, "minWriterVersion": 7}
READER: dict[str, dict[str, object]] = {
    "deletionVectors": LISTED | {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]},
    "columnMapping": {"minReaderVersion": 2, "minWriterVersion": 5},
    "typeWidening": LISTED | {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]},
    "v2Checkpoint": LISTED | {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]},
}
"""Protocols of which a reader must know more than this program does, by the feature."""


def raise_protocol(table: Path, protocol: dict[str, object], configuration: dict[str, str] | None = None) -> None:
    """Commit a protocol, and properties, as another engine does."""
    delta = DeltaTable(table)
    actions: list[dict[str, object]] = [{"commitInfo": {"timestamp": 1}}, {"protocol": protocol}]
    if configuration:
        lines = (table / "_delta_log" / f"{0:020}.json").read_text().splitlines()
        [metadata] = [found["metaData"] for found in map(json.loads, lines) if "metaData" in found]
        metadata["configuration"] |= configuration
        actions.append({"metaData": metadata})
    commit = table / "_delta_log" / f"{delta.version() + 1:020}.json"
    commit.write_text("\n".join(map(json.dumps, actions)))
