"""A real Prometheus scrapes `rebalance-watch metrics` with the token, and a stuck queue's alert fires and is over."""

import json
import shutil
import subprocess
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest

from streaming.base.settings import conf_file
from streaming.lab.servers import LOOPBACK, free_port
from tests.support.served import served
from tests.support.waiting import until
from tests.support.world import World

TOKEN = "a token of the test's own"
PATIENCE_SECONDS = 120

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is missing: conf/apt.txt"),
]

CONFIG = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: rebalance-watch
    authorization: {{credentials: "{token}"}}
    static_configs: [{{targets: ["{target}"]}}]
"""


@contextmanager
def prometheus(folder: Path, target: str):
    """One that scrapes the target; gives its address."""
    config = folder / "prometheus.yml"
    config.write_text(CONFIG.format(rules=conf_file("prometheus/rules.yml"), token=TOKEN, target=target))
    address = f"{LOOPBACK}:{free_port()}"
    with (folder / "prometheus.log").open("w") as log:
        process = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://{address}/api/v1"
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def eventually(holds, what: str):
    """Return what it gives as soon as that is something."""

    def looked():
        try:
            return holds()
        except OSError:
            return None

    return until(looked, PATIENCE_SECONDS, lambda: what)


def asked(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        return json.load(answer)["data"]


def test_a_stuck_queue_fires_and_is_over(tmp_path):
    now, tables, world = time.time_ns() // 1_000_000, tmp_path / "tables", World()
    world.group("orders", "BAD", now)
    world.queue("orders", 3, status="BAD", time=now)
    world.incident("orders", "ORDERED_QUEUE_STUCK", 3, time=now)
    world.last("poll-1@1", now)
    world.write(tables)

    def firing() -> list[dict]:
        return [alert["labels"] for alert in asked(f"{api}/alerts")["alerts"] if alert["state"] == "firing"]

    def targets() -> list[tuple[str, str]]:
        return [(one["health"], one["lastError"]) for one in asked(f"{api}/targets")["activeTargets"]]

    with served("metrics", tmp_path, WEB__TOKEN=TOKEN) as url, prometheus(tmp_path, url.removeprefix("http://")) as api:
        [alert] = eventually(firing, "no alert fires")
        assert (alert["alertname"], alert["severity"]) == ("RocketMQQueueStuck", "critical")
        assert [alert[name] for name in ("consumer_group", "topic", "broker", "queue_id")] == [
            "orders",
            "Orders",
            "b",
            "3",
        ]
        eventually(lambda: targets() == [("up", "")], "the target is down")  # one scrape may have taken over a second

        world.incident("orders", "ORDERED_QUEUE_STUCK", 3, time=now + 1, transition="RESOLVED")
        world.write(tables)
        eventually(lambda: not firing(), "the alert fires on")
