"""A lab with TLS, users and rights in RocketMQ and Kafka: from a poisoned queue to an alert, and each refusal.

It is also the short form of `unsecured.test_end_to_end`, the same path through open servers, and of
`test_secured_kafka.test_least_rights_lead_to_the_same_rows_and_no_secret_is_seen`, which has the job on a cluster, too.
"""

import json
import os
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from streaming.base import jars
from streaming.base.settings import conf_file, load_settings
from streaming.lab import servers
from streaming.lab.certificates import Authority
from streaming.lab.control import NewUser, ProducerOrders, read_orders, write_orders
from streaming.lab.processes import end, spawn, wait_until
from streaming.lab.secured_rocketmq import SecuredRocketMq
from streaming.lab.state import LabFolder
from tests.live.alert_receivers import Webhook
from tests.live.commands import Command, said
from tests.live.job_tables import check_archive, incidents, owners, stuck
from tests.live.lab_kafka import values_of

pytestmark = pytest.mark.live

POLL_MS, STUCK_MS = 2_000, 8_000
JOB_SECONDS_MAX = 400
"""Spark starts in 15 s, and a batch takes 2 s, on a machine that does nothing else."""
NAME_SERVER = "name server"
GROUP, TOPIC = "shop%orders-group", "shop%Orders"
"""The ordered group of the lab: a client with the namespace `shop` registers `orders-group` under this name."""
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
def ours(lab, tmp_path):
    """The settings of our commands: SECTION__NAME and a value each."""
    return values_of(lab) | {
        "RUNTIME__ROOT": str(tmp_path),
        "SOURCE__KIND": "kafka",
        "SOURCE__PARTITIONS": "2",
        "JOB__TRIGGER_SECONDS": "8",  # each batch costs a second of processor time
        "COLLECTOR__INTERVAL_MS": str(POLL_MS),
        "COLLECTOR__GROUPS": '["shop%*", "audit-*"]',
        "ALERTS__FILE": str(tmp_path / "alerts.toml"),
    }


@pytest.fixture(autouse=True)
def jars_that_are_there(lab_settings, tmp_path):
    (tmp_path / "jars").symlink_to(lab_settings.runtime.jars)


def poll(settings, tmp_path):
    """What one round of polls says, which writes to a recording."""
    return said(settings, "collect", "poll", "--once", "--to", tmp_path / "round.jsonl")


def checked(settings, part):
    """What `doctor --servers` says of a part: its state, and how to fix it."""
    checks = {check["part"]: check for check in json.loads(said(settings, "doctor", "--servers", "--format", "json"))}
    [name] = [name for name in checks if name == part or (part == NAME_SERVER and name.startswith(NAME_SERVER))]
    return checks[name]["state"], checks[name]["mend"]


@pytest.mark.spark
@pytest.mark.timeout(1_200)
def test_a_poisoned_queue_is_reported_and_no_secret_is_seen(
    lab, lab_settings, ours, watch, eventually, tmp_path, monkeypatch
):
    orders, tables, spark_events = lab_settings.lab.groups["orders"], tmp_path / "tables", tmp_path / "spark-events"
    spark_events.mkdir()
    spark = {"enabled": True, "compress": False, "dir": spark_events.as_uri()}  # all that Spark's UI shows
    of_job = ours | {"SPARK": json.dumps({f"spark.eventLog.{name}": value for name, value in spark.items()})}
    policy = tmp_path / "policy.toml"
    text = conf_file("policy.toml").read_text().replace("poll_interval = 10_000", f"poll_interval = {POLL_MS}")
    policy.write_text(text.replace("stuck_after = 60_000", f"stuck_after = {STUCK_MS}"))
    (tmp_path / "alerts.toml").write_text(ROUTES)
    with Webhook() as webhook:
        monkeypatch.setenv("TEST_HOOK", f"{webhook.url}/ours")
        assert "created" in said(ours, "topic", "create")
        with (
            Command(tmp_path, ours, "collect", "poll", "--spool", str(lab.spool)).start() as collector,
            Command(tmp_path, of_job, "run", "--policy", str(policy)).start() as job,
            Command(tmp_path, ours, "alert", "run") as alerts,
        ):
            job.wait_for("operator batch", JOB_SECONDS_MAX)
            alerts.start().wait_for("following", JOB_SECONDS_MAX)
            assert eventually(lambda: owners(tables, orders) == watch.owners(GROUP, TOPIC), JOB_SECONDS_MAX)
            # A client that starts slowly lets its queues stand, too.
            eventually(lambda: not stuck(tables, orders), JOB_SECONDS_MAX)
            poisoned = lab.fault("poison")
            try:
                [opened] = eventually(lambda: reported(webhook, "OPENED", poisoned), JOB_SECONDS_MAX)
                [incident] = eventually(lambda: stuck(tables, orders, poisoned), JOB_SECONDS_MAX)
            finally:
                lab.cure("poison")
            [resolved] = eventually(lambda: reported(webhook, "RESOLVED", poisoned), JOB_SECONDS_MAX)
            assert (job.interrupt(), collector.interrupt()) == (0, 0), job.said() + collector.said()
        output = collector.said() + job.said() + alerts.said()
    assert (opened.code, opened.group) == ("ORDERED_QUEUE_STUCK", GROUP)
    assert {opened.incident_id, resolved.incident_id} == {incident["incident_id"]}
    [ended] = [one for one in incidents(tables, orders, poisoned.queue) if one["incident_id"] == opened.incident_id]
    assert ended["main_cause"] == "SUSPEND_LOOP"
    assert ended["resolved_at"] > ended["opened_at"]
    check_archive(tables)
    assert "refused" not in output
    assert "Traceback" not in output
    [event_log] = spark_events.rglob("events_*")
    assert f"KafkaV2[Subscribe[{load_settings().source.topic}]]" in event_log.read_text()  # the plans are there
    assert secrets_in(lab, output.encode()) == []
    seen = [*files_below(tmp_path), *files_below(lab.secrets.parent / "logs"), *files_below(lab.spool)]
    assert len(seen) > 20
    assert [file for file in seen if secrets_in(lab, content(file))] == []
    assert [arguments for arguments in command_lines(lab) if secrets_in(lab, arguments)] == []


def reported(webhook, kind, poisoned):
    """The alerts about the poisoned queue, each in an incident that opened since; once, though sent again."""
    queue = poisoned.queue
    about = [one for one in webhook.alerts() if (one.topic, one.queue_id) == (queue.topic, queue.queue_id)]
    since = [one for one in about if one.kind == kind and one.opened_at >= poisoned.time]
    return list({one.key: one for one in since}.values())


def files_below(folder):
    return [Path(parent, name) for parent, _, names in os.walk(folder) for name in names]


def content(file):
    """What is in a file; nothing if the process that wrote it has removed it meanwhile."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def secrets_in(lab, content):
    return [file.name for file in lab.secrets.glob("*.password") if file.read_bytes() in content]


def command_lines(lab):
    return [Path(f"/proc/{member.pid}/cmdline").read_bytes() for member in lab.status()]


def test_doctor_finds_that_the_least_rights_are_enough(ours):
    assert checked(ours, "brokers") == ("ok", "")
    assert checked(ours, NAME_SERVER) == ("ok", "")


@pytest.mark.parametrize(
    ("part", "wrong", "sentence"),
    [
        ("brokers", {"ROCKETMQ__SECRET_KEY": "wrong"}, "refuses the signature of rebalance-watch: correct its secret"),
        ("brokers", {"ROCKETMQ__ACCESS_KEY": "nobody"}, "does not know the access key or user nobody: correct"),
        (
            "brokers",
            {"ROCKETMQ__ACCESS_KEY": "", "ROCKETMQ__SECRET_KEY_FILE": ""},
            "accepts only signed requests: set rocketmq.access_key",
        ),
        (
            NAME_SERVER,
            {"ROCKETMQ__CA_FILE": ""},
            "is not trusted (unable to get local issuer certificate): set rocket",
        ),
        (NAME_SERVER, {"ROCKETMQ__TLS": "false"}, "or accepts only TLS (set rocketmq.tls to true)."),
        ("kafka", {"KAFKA__PASSWORD": "wrong"}, "refuses the credentials of the user rebalance-watch (SCRAM-SHA-512)"),
    ],
    ids=["secret-key", "access-key", "unsigned", "authority", "no-tls", "kafka-password"],
)
def test_what_is_refused_is_one_sentence_from_poll_and_doctor(ours, tmp_path, part, wrong, sentence):
    section = "KAFKA__PASSWORD" if part == "kafka" else "ROCKETMQ__SECRET_KEY"
    given = {f"{section}_FILE": ""} if section in wrong else {}
    settings = ours | given | wrong
    refusal = said(settings, "collect", "poll", "--once") if part == "kafka" else poll(settings, tmp_path)
    assert sentence in refusal
    assert refusal.count(". ") == 0
    state, mend = checked(settings, part)
    assert state != "ok"
    assert sentence in mend


@pytest.mark.parametrize(
    ("user", "resources", "request_", "resource"),
    [
        ("no-topics", ["Group:*"], "GET_TOPIC_STATS_INFO (202)", f"Topic:%DLQ%{GROUP}"),
        ("no-waiting", ["Group:*", "Topic:%DLQ%*"], "QUERY_CONSUME_TIME_SPAN (303)", f"Topic:{TOPIC}"),
        ("no-groups", ["Topic:*"], "GET_CONSUMER_CONNECTION_LIST (203)", f"Group:{GROUP}"),
    ],
    ids=["topics", "waiting", "groups"],
)
def test_a_missing_right_is_named_and_the_others_are_used(
    lab_settings, ours, eventually, tmp_path, user, resources, request_, resource
):
    add_user(lab_settings, tmp_path, user, resources)
    settings = ours | {
        "ROCKETMQ__ACCESS_KEY": user,
        "ROCKETMQ__SECRET_KEY_FILE": str(tmp_path / user),
        "COLLECTOR__GROUPS": '["shop%*"]',
    }
    eventually(lambda: checked(settings, "brokers")[1].startswith("RocketMQ at"))
    sentence = (
        f"does not allow the user {user} the request {request_} on {resource}: grant it with "
        f"`mqadmin createAcl -s User:{user} -r {resource} -a Get -d Allow`."
    )
    assert sentence in checked(settings, "brokers")[1]
    assert sentence in poll(settings, tmp_path)
    assert (tmp_path / "round.jsonl").stat().st_size > 0


def add_user(lab_settings, folder, name, resources):
    """Let the lab's producer, who is the administrator, create a user."""
    (folder / name).write_text(f"password-of-{name}")
    orders_file = LabFolder(lab_settings.runtime.lab).orders("producer")
    orders = read_orders(orders_file, ProducerOrders)
    user = NewUser(name, str(folder / name), resources, ["Get"])
    write_orders(orders_file, msgspec.structs.replace(orders, users=[*orders.users, user]))


@pytest.fixture(scope="module")
def name_server_with(tmp_path_factory, lab_settings):
    """Start a name server with a certificate of an own authority; it is ended after the tests."""
    started = []

    def name_server_with(certificate, **more):
        home = tmp_path_factory.mktemp(certificate)
        authority = Authority(home / "certificates")
        authority.issue(certificate, valid=timedelta(days=-1 if certificate == "expired" else 1))
        port, log = servers.free_port(), home / "log"
        secured = SecuredRocketMq(authority, home / "tls.properties", "", certificate, **more)
        class_path = jars.ensure("rocketmq", lab_settings.runtime.jars)
        process = spawn(
            servers.name_server_command(class_path, home, port, secured=secured), log, {"ROCKETMQ_HOME": str(home)}
        )
        started.append(process)
        wait_until(lambda: servers.ROCKETMQ_READY in log.read_text() or None, process, log, 180)
        return f"{servers.LOOPBACK}:{port}", authority

    yield name_server_with
    for process in started:
        end(process)


@pytest.mark.prove  # in short without RocketMQ: `collect.test_security`
def test_an_expired_certificate_is_one_sentence(name_server_with, ours, tmp_path):
    address, authority = name_server_with("expired")
    settings = ours | {
        "COLLECTOR__NAME_SERVERS": json.dumps([address]),
        "ROCKETMQ__CA_FILE": str(authority.ca_file),
    }
    sentence = f"The certificate of RocketMQ at {address} has expired: renew it there."
    assert poll(settings, tmp_path) == sentence
    assert checked(settings, NAME_SERVER) == ("wrong", sentence)


@pytest.mark.prove  # in short without RocketMQ: `collect.test_security`
def test_a_name_server_asks_for_a_client_certificate(name_server_with, ours):
    address, authority = name_server_with("mutual", client_certificates=True)
    settings = ours | {
        "COLLECTOR__NAME_SERVERS": json.dumps([address]),
        "ROCKETMQ__CA_FILE": str(authority.ca_file),
    }
    state, mend = checked(settings, NAME_SERVER)
    assert (state, "set rocketmq.certificate_file and rocketmq.key_file" in mend) == ("wrong", True), mend
    mine = authority.issue("mine")
    files = {"ROCKETMQ__CERTIFICATE_FILE": mine.certificate_file, "ROCKETMQ__KEY_FILE": mine.key_file}
    assert checked(settings | files, NAME_SERVER) == ("ok", "")
