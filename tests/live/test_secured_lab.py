"""A lab with TLS, users and rights in RocketMQ and Kafka: each refusal. The path to an alert is `test_whole_path`."""

import json
from datetime import timedelta

import msgspec
import pytest

from streaming.base import jars
from streaming.lab import servers
from streaming.lab.control import NewUser, ProducerOrders, read_orders, write_orders
from streaming.lab.processes import end, spawn, wait_until
from streaming.lab.security import Authority, SecuredRocketMq
from streaming.lab.state import LabFolder
from tests.live.commands import said
from tests.live.lab_kafka import values_of

pytestmark = pytest.mark.live

NAME_SERVER = "name server"
GROUP, TOPIC = "shop%orders-group", "shop%Orders"
"""The ordered group of the lab: a client with the namespace `shop` registers `orders-group` under this name."""


@pytest.fixture
def ours(lab, tmp_path):
    """The settings of our commands: SECTION__NAME and a value each."""
    return values_of(lab) | {
        "RUNTIME__ROOT": str(tmp_path),
        "SOURCE__KIND": "kafka",
        "COLLECTOR__GROUPS": '["shop%*", "audit-*"]',
    }


@pytest.fixture(autouse=True)
def jars_that_are_there(lab_settings, tmp_path):
    (tmp_path / "jars").symlink_to(lab_settings.runtime.jars)


def poll(settings, tmp_path):
    """Return what one round of polls says, which writes to a recording."""
    return said(settings, "collect", "poll", "--once", "--to", tmp_path / "round.jsonl")


def checked(settings, part):
    """Return what `doctor --servers` says of a part: its state, and how to fix it."""
    checks = {check["part"]: check for check in json.loads(said(settings, "doctor", "--servers", "--format", "json"))}
    [name] = [name for name in checks if name == part or (part == NAME_SERVER and name.startswith(NAME_SERVER))]
    return checks[name]["state"], checks[name]["mend"]


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
