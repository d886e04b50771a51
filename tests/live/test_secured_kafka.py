"""A real Kafka with TLS, SASL and rights: the whole way through it, and a sentence for whatever is refused."""

import json
import os
import subprocess
import sys
import time
from contextlib import nullcontext

import msgspec
import pytest
from kafka.admin import ACLOperation

from rebalance_model.observe.policy import Policy
from schemas.tables import DERIVED
from streaming.base.settings import load_settings
from streaming.lab import servers
from streaming.lab.security import ADMINISTRATION, allow, set_passwords
from streaming.log.files import FilePublisher
from streaming.log.kafka import KafkaPublisher, create_topic
from streaming.log.kafka_properties import connection_of
from streaming.log.recording import Recorder, replayed_rows
from streaming.log.rows import publish
from tests.live.commands import said
from tests.live.java_client import end_offsets
from tests.live.lab_kafka import EXPIRED, PLAIN_PASSWORD, SASL_PLAINTEXT
from tests.support.plain import as_json, derived_rows
from tests.support.standalone import ON_LOOPBACK, Standalone
from tests.support.tables import read_rows
from tests.support.telemetry import telemetry

pytestmark = [pytest.mark.live, pytest.mark.usefixtures("kafka_alone")]

PARTITIONS = 2
JOB_SECONDS_MAX = 400
REFUSED_SECONDS_MAX = 25
"""Less than what Kafka's clients wait for by themselves (30 and 60 s), also on a busy machine."""
PASSWORDS = {name: f'{name}-"quoted\\ {{pass}} w$rd' for name in ("creator", "collector", "job", "guest")}
KEY_PASSWORD = "key-password-51c9"
CREATE = (ACLOperation.CREATE, ACLOperation.DESCRIBE)
WRITE = (ACLOperation.WRITE,)
READ = (ACLOperation.READ, ACLOperation.DESCRIBE_CONFIGS)


def client(kafka, topic, listener="SASL_SSL", **more):
    """Return the sections of a client of a listener; `more` are settings of its section `kafka`."""
    source = {
        "kind": "kafka",
        "bootstrap_servers": f"{servers.LOOPBACK}:{kafka.ports[listener]}",
        "topic": topic,
        "partitions": PARTITIONS,
    }
    shared = {"security_protocol": "SASL_SSL", "ca_file": str(kafka.authority.ca_file)}
    return {"source": source, "kafka": shared | more}


def user(kafka, name, topic, listener="SASL_SSL", **more):
    """Return the sections of a client with a user's password."""
    return client(kafka, topic, listener, **{"username": name, "password": PASSWORDS[name]} | more)


@pytest.fixture(scope="module", autouse=True)
def users(kafka):
    """The users of these tests, each without rights."""
    set_passwords(kafka.administrator, PASSWORDS)
    set_passwords(kafka.administrator, {"other": PLAIN_PASSWORD}, "SCRAM-SHA-256")


@pytest.fixture(scope="module")
def recording(tmp_path_factory):
    file = tmp_path_factory.mktemp("recording") / "telemetry.jsonl.gz"
    with Recorder(file) as recorder:
        recorder.publish(list(telemetry(6, 20)))
    return file


@pytest.fixture
def command(tmp_path):
    """Run one of our commands in this process: what it says, or the error that it ends with."""
    return lambda settings, *arguments: said(as_values(tmp_path, settings), *arguments)


def as_values(root, settings):
    """Return these settings as SECTION__NAME and a value each."""
    sections = {"runtime": {"root": root / "root", "jars": load_settings().runtime.jars}} | settings
    return {f"{section}__{name}".upper(): str(value) for section, of in sections.items() for name, value in of.items()}


@pytest.mark.prove  # in short: the secured lab's job (test_whole_path)
@pytest.mark.parametrize("where", ["here", "executors"])
def test_least_rights_lead_to_the_same_rows_and_no_secret_is_seen(kafka, command, recording, tmp_path, where):
    topic = f"whole-{where}"
    for name, operations in (("creator", CREATE), ("collector", WRITE), ("job", READ)):
        allow(kafka.administrator, f"User:{name}", topic, *operations)
    password_file = tmp_path / "password"
    password_file.write_text(PASSWORDS["collector"] + "\n")
    output = [command(user(kafka, "creator", topic), "topic", "create")]
    collector = user(kafka, "collector", topic, password="", password_file=password_file)
    output.append(command(collector, "replay", recording))
    password_file.unlink()
    job = user(kafka, "job", topic)
    with Standalone(tmp_path / "cluster", workers=1) if where == "executors" else nullcontext() as cluster:
        output.append(run_job(tmp_path, job | ({"job": {"master": cluster.url}} if cluster else {})))

    with FilePublisher(tmp_path / "log", PARTITIONS) as files:
        for rows in replayed_rows(recording, PARTITIONS):
            files.write(rows)
    expected = derived_rows(tmp_path / "log", PARTITIONS, Policy())
    found = {table: without_stamps(read_rows(tmp_path / "root" / "tables", table)) for table in DERIVED}
    assert found == {table: without_stamps(map(msgspec.json.decode, rows)) for table, rows in expected.items()}
    assert sum(map(len, found.values())) > 100

    (event_log,) = (tmp_path / "spark-events").rglob("events_*")
    assert f"KafkaV2[Subscribe[{topic}]]" in event_log.read_text()  # the plans are there
    assert secrets_in("".join(output)) == []
    assert [(file, secret) for file in files_below(tmp_path) for secret in secrets_in(file.read_bytes())] == []


def run_job(folder, settings):
    """Return the output of `run --available-now` as a process; no command line of the machine has a secret then.

    Spark writes an event log, which has all that its UI shows.
    """
    events = folder / "spark-events"
    events.mkdir()
    spark = {"enabled": True, "compress": False, "dir": events.as_uri()}
    spark = ON_LOOPBACK | {f"spark.eventLog.{name}": value for name, value in spark.items()}
    environment = {f"REBALANCE_WATCH_{name}": value for name, value in as_values(folder, settings).items()}
    with subprocess.Popen(
        [sys.executable, "-m", "streaming.cli", "run", "--available-now"],
        env=os.environ | environment | {"REBALANCE_WATCH_SPARK": json.dumps(spark)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as job:
        try:
            deadline = time.monotonic() + JOB_SECONDS_MAX
            while job.poll() is None:
                assert time.monotonic() < deadline
                assert secrets_in(subprocess.run(["ps", "-eo", "args"], capture_output=True, check=True).stdout) == []
                time.sleep(1)
            output = job.stdout.read()
        finally:
            job.kill()
    assert job.returncode == 0, output
    return output


@pytest.mark.parametrize(
    "way",
    [
        "token",
        *(
            pytest.param(way, marks=pytest.mark.prove)
            for way in ("certificate", "plain", "scram-sha-256", "encrypted-key")
        ),
    ],
)
def test_every_way_to_authenticate_serves_python_and_java(kafka, way):
    """Python creates the topic and writes to it; the Java client, with the options of Spark's source, sees the rows."""
    principal, listener, of_way = WAYS[way](kafka)
    allow(kafka.administrator, f"User:{principal}", way, *CREATE, *WRITE, *READ)
    settings = load_settings(**client(kafka, way, listener, **of_way))
    create_topic(connection_of(settings), way, PARTITIONS, replication=1, retention_ms=3_600_000)
    events = list(telemetry(2, 2))
    with KafkaPublisher(connection_of(settings), way, PARTITIONS) as publisher:
        publish(publisher, events)
    sent = sum(PARTITIONS if event.BROADCAST else 1 for event in events)
    assert sum(end_offsets(settings)) == sent


def by_password(mechanism, user):
    def settings(_):
        return user, "SASL_SSL", {"sasl_mechanism": mechanism, "username": user, "password": PLAIN_PASSWORD}

    return settings


def by_token(kafka):
    token = {"token_url": kafka.token_server.url, "token_scope": "telemetry"}
    return "service", "SASL_SSL", by_password("OAUTHBEARER", "service")(kafka)[2] | token


def by_certificate(name, password=""):
    def settings(kafka):
        issued = kafka.authority.issue(name, password=password)
        files = {"certificate_file": str(issued.certificate_file), "key_file": str(issued.key_file)}
        return f"CN={name}", ADMINISTRATION, {"security_protocol": "SSL", "key_password": password} | files

    return settings


WAYS = {
    "plain": by_password("PLAIN", "simple"),
    "scram-sha-256": by_password("SCRAM-SHA-256", "other"),
    "token": by_token,
    "certificate": by_certificate("agent"),
    "encrypted-key": by_certificate("agent-2", KEY_PASSWORD),
}


@pytest.mark.parametrize(
    ("name", "wrong", "sentence"),
    [
        (
            "password",
            {"password": "wrong"},
            "refuses the credentials of the user guest (SCRAM-SHA-512): correct kafka.",
        ),
        ("mechanism", {"sasl_mechanism": "GSSAPI"}, "needs a package: install it with `pip install gssapi`."),
        ("authority", {"ca_file": ""}, "is not trusted (unable to get local issuer certificate): set kafka.ca_file to"),
        ("expired", {"listener": EXPIRED}, "has expired: renew it there."),
        ("certificate", {"listener": ADMINISTRATION, "security_protocol": "SSL"}, "set kafka.certificate_file and"),
        ("file", {"ca_file": "/not/there.pem"}, "/not/there.pem can't be read (no such file or directory): correct"),
        ("protocol", {"security_protocol": "SASL_PLAINTEXT"}, "does not accept the protocol SASL_PLAINTEXT"),
        ("no-tls", {"listener": SASL_PLAINTEXT}, "does not accept the protocol SASL_SSL"),
        ("no-sasl", {"security_protocol": "SSL"}, "does not accept the protocol SSL"),
        ("right", {}, "does not allow the user guest the operation Describe on the topic right: grant it with"),
    ],
)
def test_whatever_is_refused_is_one_sentence_from_every_command(kafka, command, name, wrong, sentence):
    settings = user(kafka, "guest", name, **wrong)
    for arguments in (["topic", "create"], ["collect", "poll", "--once"], ["run", "--available-now"]):
        began = time.monotonic()
        refusal = command(settings, *arguments)
        assert sentence in refusal
        assert refusal.endswith(".")
        assert "\n" not in refusal
        assert time.monotonic() - began < REFUSED_SECONDS_MAX
        assert secrets_in(refusal) == []
    checks = json.loads(command(settings, "doctor", "--servers", "--format", "json"))
    (check,) = (check for check in checks if check["part"] == "kafka")
    assert sentence in check["mend"]


@pytest.mark.parametrize(
    ("given", "arguments", "missing"),
    [
        ((ACLOperation.DESCRIBE,), ["topic", "create"], "Create"),
        ((ACLOperation.CREATE,), ["topic", "create"], "Describe"),
        ((ACLOperation.DESCRIBE,), ["collect", "poll", "--once"], "Write"),
        ((ACLOperation.DESCRIBE_CONFIGS, ACLOperation.DESCRIBE), ["run", "--available-now"], "Read"),
        ((ACLOperation.READ,), ["run", "--available-now"], "DescribeConfigs"),
    ],
)
def test_each_right_that_is_missing_is_named(kafka, command, given, arguments, missing):
    topic = f"without-{missing}-{arguments[0]}"
    if arguments[0] != "topic":
        create_topic(kafka.administrator, topic, PARTITIONS, replication=1, retention_ms=3_600_000)
    allow(kafka.administrator, "User:guest", topic, *given)
    refusal = command(user(kafka, "guest", topic), *arguments)
    assert f"does not allow the user guest the operation {missing} on the topic {topic}: grant it with " in refusal
    assert f"`kafka-acls --add --allow-principal User:guest --operation {missing} --topic {topic}`." in refusal


@pytest.mark.parametrize(("given", "missing"), [((), "topic"), ((ACLOperation.READ,), "group")])
def test_a_missing_right_to_share_the_groups_is_named(kafka, command, given, missing):
    topic = f"shared-without-{missing}"
    create_topic(kafka.administrator, topic, PARTITIONS, replication=1, retention_ms=3_600_000)
    allow(kafka.administrator, "User:guest", topic, ACLOperation.WRITE, *given)
    refusal = command(user(kafka, "guest", topic) | {"collector": {"share": "true"}}, "collect", "poll")
    name = topic if missing == "topic" else f"{topic}-collectors"
    assert f"does not allow the user guest the operation Read on the {missing} {name}: grant it with " in refusal
    assert f"--operation Read --{missing} {name}`." in refusal


def files_below(folder):
    return [file for file in folder.rglob("*") if file.is_file() and "jars" not in file.parts]


def secrets_in(text):
    """The passwords that stand in a text, also as JAAS or JSON write them."""
    raw = text.encode() if isinstance(text, str) else text
    forms = {form for one in (*PASSWORDS.values(), PLAIN_PASSWORD, KEY_PASSWORD) for form in written(one)}
    return [form for form in forms if form.encode() in raw]


def written(password):
    jaas = password.replace("\\", "\\\\").replace('"', '\\"')
    return {password, jaas, json.dumps(password)[1:-1], json.dumps(jaas)[1:-1]}


def without_stamps(rows):
    """Rows in a form that compares, but for the log's own stamps: Kafka's, or the files'."""
    return sorted(as_json({name: value for name, value in row.items() if name != "known_at"}) for row in rows)
