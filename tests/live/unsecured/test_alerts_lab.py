"""The complete path to a person: a poison message in an ordered queue of a real cluster, a message at a webhook, an
alert in a real Alertmanager, and the end of both after the cure. Intervals and thresholds are the defaults: it takes
minutes."""

import os
import shutil
import time

import msgspec
import pytest

from streaming.queries.incidents import find_incident
from streaming.tables.reader import ReadModel
from tests.live.alert_receivers import PROGRAM, Alertmanager, Webhook
from tests.live.commands import Command

pytestmark = [
    pytest.mark.live,
    pytest.mark.prove,
    pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is missing: conf/apt.txt"),
]

STUCK_SECONDS = 150
"""60 s without a commit, two polls, and a slow machine."""
CONFIG = """
dead_man = {{job = "1m", sources = "1m", forget = "1d"}}

[[routes]]
codes = ["ORDERED_QUEUE_STUCK", "*_SILENT"]
severity = "critical"
channels = ["ours", "manager"]

[channels.ours]
kind = "webhook"
url = {{env = "TEST_HOOK"}}

[channels.manager]
kind = "alertmanager"
url = "{manager}"
"""


@pytest.fixture
def settings(lab, settings_in, tmp_path):
    """A topic and a root of its own."""
    settings_in(tmp_path)
    return {
        "RUNTIME__ROOT": tmp_path,
        "SOURCE__KIND": "kafka",
        "SOURCE__BOOTSTRAP_SERVERS": lab.kafka_bootstrap,
        "SOURCE__TOPIC": "alerts",
        "SOURCE__PARTITIONS": "2",
        "COLLECTOR__NAME_SERVERS": msgspec.json.encode([lab.name_server]).decode(),
        "ALERTS__FILE": tmp_path / "alerts.toml",
    }


def test_a_poisoned_queue_is_told_and_its_cure_and_a_collector_that_ends(
    lab, lab_settings, settings, tmp_path, monkeypatch, eventually, record_property
):
    orders = lab_settings.lab.groups["orders"]
    with Webhook() as webhook, Alertmanager(tmp_path / "alertmanager", webhook) as manager:
        (tmp_path / "alerts.toml").write_text(CONFIG.format(manager=manager.url))
        monkeypatch.setenv("TEST_HOOK", f"{webhook.url}/ours")
        Command(tmp_path, settings, "topic", "create").start().ended()
        with (
            Command(tmp_path, settings, "collect", "poll").start() as collector,
            Command(tmp_path, settings, "run").start() as job,
            Command(tmp_path, settings, "alert", "run") as alerts,
        ):
            job.wait_for("operator batch", 180)
            alerts.start().wait_for("following", 60)
            poisoned = lab.fault("poison")
            try:
                opened = eventually(lambda: message_of(webhook, "OPENED", orders.group), STUCK_SECONDS)
                heard = time.time_ns() // 1_000_000
                assert [(one.code, one.sub_cause, one.queue_id) for one in opened] == [
                    ("ORDERED_QUEUE_STUCK", "SUSPEND_LOOP", poisoned.queue.queue_id)
                ]
                incident = opened[0].incident_id
                eventually(lambda: set(manager.active()) == {incident}, 20)
            finally:
                cured = lab.cure("poison")
            resolved = eventually(lambda: message_of(webhook, "RESOLVED", orders.group), 90)
            over = time.time_ns() // 1_000_000
            assert [one.incident_id for one in resolved] == [incident]
            eventually(lambda: not manager.active(), 20)
            eventually(lambda: (incident, "critical", "resolved") in webhook.from_alertmanager(), 20)
            with ReadModel(tmp_path / "tables") as model:
                opened_at = find_incident(model, incident).opened_at
            until_heard, until_opened, until_over = (
                f"{(later - earlier) / 1000:.1f} s"
                for later, earlier in ((heard, poisoned.time), (opened_at, poisoned.time), (over, cured.time))
            )
            record_property("poison to message, to the event that opened", f"{until_heard}, {until_opened}")
            record_property("cure to message", until_over)
            assert collector.interrupt() == 0
            silent = eventually(lambda: message_of(webhook, "OPENED", ""), 150)
            assert [one.code for one in silent] == ["JOB_SILENT"]
            collector.start()
            spoken = eventually(lambda: message_of(webhook, "RESOLVED", ""), 120)
            assert [one.code for one in spoken] == ["JOB_SILENT"]
            assert alerts.interrupt() == 0, alerts.said()
            assert "Traceback" not in alerts.said()
            assert os.environ["TEST_HOOK"] not in alerts.said()


def message_of(webhook, kind, group):
    return [alert for alert in webhook.alerts() if alert.kind == kind and alert.group == group]
