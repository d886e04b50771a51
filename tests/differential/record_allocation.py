"""Record the answers of the real classes: ``python -m tests.differential.record_allocation``.

A line is a case and Java's answers to it (see test_allocation_vectors.py).
"""

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jpype

from tests.differential import allocation_script, server_side_script
from tests.differential.allocation_java import JavaStrategies
from tests.differential.allocation_script import VECTORS, Json
from tests.differential.jvm import start
from tests.differential.server_side_java import JavaProcessor

_CASES = 60  # of each kind: enough to hold every branch, and a few hundred kilobytes in all


def main() -> None:
    """Write all the files."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        start(home)
        strategies, processor = JavaStrategies(), JavaProcessor(home / "store")
        for name in allocation_script.NAMES:
            cases = [allocation_script.case(name, seed) for seed in range(_CASES)]
            _write(f"allocation_{name.lower()}.jsonl", ([case, strategies.answers(case)] for case in cases))
        cases = [server_side_script.case(seed) for seed in range(_CASES)]
        _write("server_side.jsonl", ([case, processor.answers(case)] for case in cases))
        jpype.shutdownJVM()


def _write(name: str, vectors: Iterable[Json]) -> None:
    VECTORS.mkdir(exist_ok=True)
    lines = [json.dumps(vector, ensure_ascii=False, separators=(",", ":")) for vector in vectors]
    (VECTORS / name).write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
