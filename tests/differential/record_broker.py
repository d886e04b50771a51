"""Record what the real classes answer: ``python -m tests.differential.record_broker`` (see test_broker_vectors.py)."""

import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.differential.broker_script import KINDS, Writer
from tests.differential.jvm import start

VECTORS = Path(__file__).parent / "vectors" / "broker.json"
SCRIPTS, LENGTH = 12, 40


def fingerprint(state: Any) -> str:
    """A short hash of a whole state."""
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:12]


def main() -> None:
    """Run the scripts on the real classes; a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        start(Path(folder))
        from tests.differential.broker_java import JavaBroker  # noqa: PLC0415  needs the JVM

        lines = []
        for seed in range(SCRIPTS):
            for kind in KINDS:
                script = Writer(seed + 1_000_000).script(kind, LENGTH)
                broker = JavaBroker(script["config"], Path(folder))
                said = [[getattr(broker, name)(*args), fingerprint(broker.state())] for name, *args in script["ops"]]
                broker.end()
                lines.append(json.dumps({"kind": kind, **script, "said": said}, ensure_ascii=True))
        VECTORS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main()
