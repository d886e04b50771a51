"""A real OpenTelemetry collector (`go/otel_collector`), which passes on what it takes."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streaming.lab.servers import free_port
from tests.support.waiting import until

_STARTS_SECONDS = 60


@contextmanager
def otel_collector(program: Path, folder: Path, receiver: str) -> Iterator[str]:
    """Run a collector until the end of the block; yields where it takes OTLP over HTTP.

    Args:
        program: the collector.
        folder: for its configuration and its log.
        receiver: the endpoint to which it passes everything on, at once.
    """
    endpoint, log = f"127.0.0.1:{free_port()}", folder / "collector.log"
    pipeline = {"receivers": ["otlp"], "exporters": ["otlp_http"]}
    config = {
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": endpoint}}}},
        "exporters": {"otlp_http": {"endpoint": receiver, "sending_queue": {"enabled": False}}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"metrics": pipeline, "traces": pipeline},
        },
    }
    (folder / "collector.yaml").write_text(json.dumps(config))
    with log.open("w") as output:
        process = subprocess.Popen([program, f"--config=file:{folder}/collector.yaml"], stderr=output)
    try:
        until(lambda: process.poll() is not None or "Everything is ready" in log.read_text(), _STARTS_SECONDS)
        assert process.poll() is None, log.read_text()
        yield f"http://{endpoint}"
    finally:
        process.terminate()
        process.wait(60)
