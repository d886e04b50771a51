"""The brokers of a group: which was asked and did not answer, and which was not asked."""

import pytest

from rebalance_model.observe.effects import IncidentTransition, QueueProgress
from rebalance_model.observe.events import DEADLINE, NOT_ASKED
from streaming.base.language import in_language
from streaming.queries.columns.groups import freshness
from streaming.queries.group_at import GroupAt
from streaming.queries.groups import group_brokers
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import CLIENTS, NOW, Group, polled
from tests.support.tables import append, append_rows, make_tables

SECOND = 1_000
GROUP = "orders-group"
SILENCE = {"code": DEADLINE, "remark": "no answer from 10.0.0.9:10911 within 3.0 s"}


def asked(ago, kind="CONSUME_STATS", broker="broker-a", group=GROUP, **error):
    """Return a row of the archive: an answer, or none, so many seconds ago."""
    return polled(NOW - ago * SECOND, kind, group, broker=broker, **error)


def status(ago, **error):
    return asked(ago, "BROKER_STATUS", group=None, **error)


def brokers(tmp_path, *rows, interval=10 * SECOND, derived=(), behind=0):
    folder = make_tables(tmp_path)
    group = Group(GROUP, "Orders", CLIENTS)
    group.state(NOW - 600 * SECOND)
    group.queue(NOW - 600 * SECOND, 0, CLIENTS[0])
    progress = QueueProgress(
        cluster="prod", group=GROUP, broker="broker-a", time=NOW - 200 * SECOND, asked_at=None, interval_ms=interval,
        source="POLL", kind="CONSUME_STATS", topic=("Orders",), queue_id=(0,),
    )  # fmt: skip
    append(folder, [*group.taken(), progress, *derived])
    tick = asked(behind, "TICK", broker="", group=None)
    append_rows(folder, "telemetry", [*rows, tick])
    with ReadModel(folder) as model:
        return group_brokers(model, GroupAt("prod", GROUP, NOW))


def test_a_broker_that_answers_is_fresh(tmp_path):
    [broker] = brokers(tmp_path, *map(asked, range(5, 60, 10)), status(2))
    assert (broker.broker, broker.is_fresh, broker.silent_since, broker.remark) == ("broker-a", True, None, "")
    assert broker.answered_at == NOW - 5 * SECOND


def test_a_broker_that_is_asked_and_silent_is_since_its_first_silence(tmp_path):
    silent = [status(ago, error=SILENCE) for ago in range(5, 85, 10)]
    [broker] = brokers(tmp_path, asked(85), asked(95), *silent)
    assert not broker.is_fresh
    assert broker.silent_since == NOW - 75 * SECOND - 50
    assert broker.remark == SILENCE["remark"]
    assert freshness(broker).endswith("(1 min 15 s), last asked 5 s ago")
    assert freshness(broker).startswith("asked, no answer since ")


def test_a_broker_without_a_turn_is_not_asked_rather_than_silent(tmp_path):
    no_time = {"code": DEADLINE, "remark": f"{NOT_ASKED}: the round's time was over"}
    others = [asked(ago, group="other-group") for ago in range(5, 85, 10)]
    answering = [status(ago) for ago in range(5, 85, 10)]
    [broker] = brokers(tmp_path, asked(85), asked(5, error=no_time), *others, *answering)
    assert (broker.is_fresh, broker.silent_since) == (False, None)
    assert freshness(broker) == "not asked for 1 min 25 s"
    with in_language("zh"):
        assert freshness(broker) == "已有 1 分 25 秒 未被询问"


def test_a_silent_broker_that_waits_for_a_turn_is_said_to_be_both(tmp_path):
    [broker] = brokers(tmp_path, asked(125), status(115, error=SILENCE), asked(5, broker="broker-b"))[:1]
    assert "no answer since" in freshness(broker)
    assert freshness(broker).endswith("last asked 1 min 55 s ago")


def test_a_slave_that_answers_for_its_group_is_fresh(tmp_path):
    [broker] = brokers(tmp_path, asked(7), status(5, error=SILENCE))
    assert broker.is_fresh


def test_an_answer_is_fresh_for_two_intervals(tmp_path):
    assert not brokers(tmp_path / "short", asked(50))[0].is_fresh
    assert brokers(tmp_path / "long", asked(50), interval=30 * SECOND)[0].is_fresh


def test_a_silence_longer_than_the_archive_is_read_is_that_of_the_incident(tmp_path):
    opened = NOW - 3_000 * SECOND
    incident = IncidentTransition(
        cluster="prod", group="", time=opened, known_at=opened, seq=1, cause="", incident_id="1", subject="broker-a",
        code="BROKER_UNREACHABLE", sub_cause="", severity="critical", transition="OPENED", opened_at=opened,
        topic=None, broker="broker-a", queue_id=None, client_id=None, evidence='{"silent_ms":20000}', explanation="",
        first_step="", parent=None,
    )  # fmt: skip
    [broker] = brokers(tmp_path, status(5, error=SILENCE), status(290, error=SILENCE), derived=[incident])
    assert broker.silent_since == opened - 20 * SECOND


def test_a_broker_whose_queues_nobody_asks_for_is_named(tmp_path):
    """Others are asked; of this one the archive has nothing of the last 5 minutes."""
    first, second = brokers(tmp_path, asked(400), asked(5, broker="broker-b"))
    assert (first.broker, first.asked_at, first.is_fresh) == ("broker-a", None, False)
    assert freshness(first) == "not asked for more than 5 min"
    assert (second.broker, second.is_fresh) == ("broker-b", True)


@pytest.mark.parametrize("behind", [0, 400])
def test_without_polls_or_an_archive_nothing_is_said(behind, tmp_path):
    assert brokers(tmp_path, asked(400), behind=behind) == []


def test_an_archive_that_is_behind_makes_no_broker_stale(tmp_path):
    [broker] = brokers(tmp_path, *map(asked, range(100, 200, 10)), behind=95)
    assert (broker.as_of, broker.is_fresh) == (NOW - 95 * SECOND, True)
