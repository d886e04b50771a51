"""The whole path of a secured cluster, from a poisoned queue to an alert; then each process on it is killed.

Collector, spools, Kafka and the Spark job, all with TLS and passwords, which nothing shows. A standby takes over from
the job, which is killed within a batch, and then loses a Python worker; the collector is killed, and Kafka. What raw
clients did at a broker is in the tables once, and so is every row of the log.

It is the short form of `test_exactly_once`, of `unsecured.test_end_to_end`, the same path through open servers, and of
`test_secured_kafka.test_least_rights_lead_to_the_same_rows_and_no_secret_is_seen`, which has the job on a cluster, too.
"""

import json
import os
import signal
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from checkpoints.manifest import OPERATOR
from streaming.base.settings import conf_file, load_policy
from tests.live.alert_receivers import Webhook
from tests.live.commands import Command, said
from tests.live.job_tables import check_archive, incidents, owners, stuck
from tests.live.lab_kafka import values_of
from tests.live.test_exactly_once import BATCH_SECONDS_MAX, TOPIC, Pipeline, check
from tests.support.job_processes import kill_busy_worker
from tests.support.standby import DIE, DIES_WITHIN_BATCH, ELSEWHERE, Job, check_it_waits

pytestmark = [pytest.mark.live, pytest.mark.spark]

POLL_MS, STUCK_MS = 2_000, 8_000
TAKEOVER_SECONDS_MAX = 120
"""20 s without a beat, on a busy machine."""
ROUTES = """
[[routes]]
codes = ["ORDERED_QUEUE_STUCK"]
severity = "critical"
channels = ["ours"]

[channels.ours]
kind = "webhook"
url = {env = "TEST_HOOK"}
"""


@pytest.fixture
def policy(tmp_path):
    """The file of a policy that reports a stuck queue soon."""
    text = conf_file("policy.toml").read_text().replace("poll_interval = 10_000", f"poll_interval = {POLL_MS}")
    file = tmp_path / "policy.toml"
    file.write_text(text.replace("stuck_after = 60_000", f"stuck_after = {STUCK_MS}"))
    return file


@pytest.fixture
def pipeline(lab, kafka, settings_in, policy, tmp_path):
    """From the lab, and from a broker of raw clients, through the lab's Kafka into the tables."""
    (tmp_path / "alerts.toml").write_text(ROUTES)
    more = values_of(lab) | {
        "COLLECTOR__INTERVAL_MS": POLL_MS,
        "COLLECTOR__GROUPS": '["shop%*", "audit-*"]',
        "ALERTS__FILE": tmp_path / "alerts.toml",
    }
    made = Pipeline(
        tmp_path, settings_in, kafka, trigger_seconds=8, archive_seconds=16, **more
    )  # a batch costs a second
    made.policy = load_policy(policy)
    made.shipper = Command(tmp_path, made.values, "collect", "spool", made.spool, lab.spool)
    return made


@pytest.fixture
def jobs(pipeline, policy, tmp_path):
    """Two jobs, each as on a machine of its own; the event log of the first has all that Spark's UI shows."""
    events = tmp_path / "spark-events"
    events.mkdir()
    spark = {"enabled": True, "compress": False, "dir": events.as_uri()}
    logs = {"SPARK": json.dumps({f"spark.eventLog.{name}": of for name, of in spark.items()})}
    arguments = ("--standby", "--policy", policy)
    return (
        Job(tmp_path / "first", pipeline.values | logs, *arguments, program=DIES_WITHIN_BATCH),
        Job(tmp_path / "second", pipeline.values, *arguments, program=ELSEWHERE),
    )


@pytest.mark.timeout(1_500)
def test_a_poisoned_queue_is_reported_and_each_row_is_once_after_kills(lab, pipeline, jobs, alerted, request, tmp_path):
    first, second = jobs
    pipeline.job = first
    spools = ("--spool", pipeline.spool, "--spool", lab.spool)
    assert "created" in said(pipeline.values, "topic", "create")
    with (
        Command(tmp_path, pipeline.values, "collect", "poll", *spools).start() as collector,
        pipeline.shipper,
        first.start(),
        second,
    ):
        pipeline.await_batch("operator batch")
        output = alerted() + collector.said() + first.said()
        assert "refused" not in output
        assert [arguments for arguments in command_lines(lab) if secrets_in(lab, arguments)] == []
        second.start()
        request.getfixturevalue("kafka_alone")
        with ExitStack() as until_made:
            pipeline.start_broker(until_made)
            makers = until_made.enter_context(pipeline.making(pause_seconds=1))
            collector.kill()
            pipeline.shipper.start()
            it_takes_over_within_a_batch(pipeline, first, second)
            pipeline.job = second
            kill_busy_worker(second)
            pipeline.kafka.kill()
            pipeline.shipper.wait_for("waiting for Kafka", BATCH_SECONDS_MAX)
            pipeline.kafka.start()
        pipeline.finish_running()
        check(pipeline, makers)
        output += second.said() + pipeline.shipper.said()
    check_archive(pipeline.settings.runtime.tables)
    assert "Traceback" not in output
    check_no_secret_is_seen(lab, output, tmp_path)


@pytest.fixture
def alerted(lab, lab_settings, pipeline, watch, eventually, tmp_path, monkeypatch):
    """Return a function that poisons a queue, awaits the alert and its end, and returns what the alert process says."""
    orders, tables = lab_settings.lab.groups["orders"], pipeline.settings.runtime.tables

    def alerted():
        with Webhook() as webhook:
            monkeypatch.setenv("TEST_HOOK", f"{webhook.url}/ours")
            with Command(tmp_path, pipeline.values, "alert", "run").start() as alerts:
                alerts.wait_for("following", BATCH_SECONDS_MAX)
                eventually(
                    lambda: owners(tables, orders) == watch.owners(orders.group, orders.topic), BATCH_SECONDS_MAX
                )
                # A client that starts slowly lets its queues stand, too.
                eventually(lambda: not stuck(tables, orders), BATCH_SECONDS_MAX)
                poisoned = lab.fault("poison")
                try:
                    [opened] = eventually(lambda: reported(webhook, "OPENED", poisoned), BATCH_SECONDS_MAX)
                    [incident] = eventually(lambda: stuck(tables, orders, poisoned), BATCH_SECONDS_MAX)
                finally:
                    lab.cure("poison")
                [resolved] = eventually(lambda: reported(webhook, "RESOLVED", poisoned), BATCH_SECONDS_MAX)
        assert (opened.code, opened.group) == ("ORDERED_QUEUE_STUCK", orders.group)
        assert {opened.incident_id, resolved.incident_id} == {incident["incident_id"]}
        [ended] = [one for one in incidents(tables, orders, poisoned.queue) if one["incident_id"] == opened.incident_id]
        assert ended["sub_cause"] == "SUSPEND_LOOP"
        assert ended["resolved_at"] > ended["opened_at"]
        return alerts.said()

    return alerted


def reported(webhook, kind, poisoned):
    """Return the alerts about the poisoned queue, each in an incident that opened since; once, though sent again."""
    queue = poisoned.queue
    about = [one for one in webhook.alerts() if (one.topic, one.queue_id) == (queue.topic, queue.queue_id)]
    since = [one for one in about if one.kind == kind and one.opened_at >= poisoned.time]
    return list({one.key: one for one in since}.values())


def it_takes_over_within_a_batch(pipeline, first, second):
    """Kill all processes of the first job when a batch of it has rows in one of its tables; the second continues."""
    second.wait_for("standby: another run works on the same root", BATCH_SECONDS_MAX)
    check_it_waits(second, first)
    (pipeline.settings.runtime.root / DIE).touch()
    assert first.ended(BATCH_SECONDS_MAX) == -signal.SIGKILL, first.said()
    died = time.monotonic()
    assert pipeline.is_within_batch(OPERATOR)
    second.wait_for("standby: taking over", BATCH_SECONDS_MAX)
    assert time.monotonic() - died < TAKEOVER_SECONDS_MAX
    assert {task["task"] for task in second.readiness().json()["tasks"]} == {"operator batch", "archive batch"}
    second.wait_for("operator batch", BATCH_SECONDS_MAX)


def check_no_secret_is_seen(lab, output, folder):
    """Check what the commands said, Spark's event log, and every file of ours and of the lab."""
    assert secrets_in(lab, output.encode()) == []
    [event_log] = (folder / "spark-events").rglob("events_*")
    assert f"KafkaV2[Subscribe[{TOPIC}]]" in event_log.read_text()  # the plans are there
    seen = [*files_below(folder), *files_below(lab.secrets.parent / "logs"), *files_below(lab.spool)]
    assert len(seen) > 20
    assert [file for file in seen if secrets_in(lab, content(file))] == []


def files_below(folder):
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]


def content(file):
    """Return what is in a file; nothing if the process that wrote it has removed it meanwhile."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def secrets_in(lab, content):
    return [file.name for file in lab.secrets.glob("*.password") if file.read_bytes() in content]


def command_lines(lab):
    return [Path(f"/proc/{member.pid}/cmdline").read_bytes() for member in lab.status()]
