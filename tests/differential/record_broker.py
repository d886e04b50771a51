"""Record the answers of the real classes: ``python -m tests.differential.record_broker``.

A line is a script and Java's answers to it (see test_broker_vectors.py).
"""

import json
import tempfile
from pathlib import Path

from tests.differential.broker_java import JavaBroker
from tests.differential.broker_script import KINDS, VECTORS, Writer, fingerprint
from tests.differential.jvm import start

SCRIPTS, LENGTH = 12, 40


def main() -> None:
    """Run the scripts on the real classes; write a line for each."""
    with tempfile.TemporaryDirectory() as folder:
        start(Path(folder))
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
