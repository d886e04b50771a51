"""Record the answers of the real classes: ``python -m tests.differential.record_client``.

A line is a script and, for each of its operations, Java's answer and what changed (see test_client_vectors.py).
"""

import gzip
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.differential import client_script, client_writer, process_queue_script
from tests.differential.jvm import start

VECTORS = Path(__file__).parent / "vectors"
_CLIENT_SCRIPTS, _CLIENT_LENGTH = 100, 60
_QUEUE_SCRIPTS, _QUEUE_LENGTH = 20, 40


def main() -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as home:
        start(Path(home))
        from tests.differential.client_instance import Instance  # noqa: PLC0415  needs the JVM
        from tests.differential.client_java import JavaClient  # noqa: PLC0415  only while a JVM runs
        from tests.differential.process_queue_java import JavaProcessQueue  # noqa: PLC0415  only while a JVM runs

        instance = Instance()
        lines = []
        for seed in range(_CLIENT_SCRIPTS):
            script = json.loads(json.dumps(client_writer.write_script(seed, _CLIENT_LENGTH)))
            real = JavaClient(script["config"], instance)
            lines.append([script, client_script.trace(real, script["ops"])])
        instance.end()
        _write("client.jsonl.gz", lines)
        lines = []
        for seed in range(_QUEUE_SCRIPTS):
            script = process_queue_script.write_script(seed, _QUEUE_LENGTH)
            lines.append([script, process_queue_script.trace(JavaProcessQueue(script["pool"]), script["ops"])])
        _write("process_queue.jsonl.gz", lines)


def _write(name: str, vectors: list[Any]) -> None:
    lines = [json.dumps(vector, ensure_ascii=False, separators=(",", ":")) for vector in vectors]
    text = "\n".join(lines) + "\n"
    (VECTORS / name).write_bytes(gzip.compress(text.encode(), mtime=0))  # the same bytes at every run


if __name__ == "__main__":
    main()
