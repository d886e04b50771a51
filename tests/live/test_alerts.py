"""The alert process as a user starts it, with a real Alertmanager and a webhook, over tables that a test fills.

Its messages are compared with those that the incidents of the demo's capture, or random ones, require. It is
killed (SIGKILL) at random points, with a webhook that fails sometimes.
"""

import shutil
import time
from itertools import groupby
from random import Random

import pytest
from msgspec.structs import replace

from rebalance_model.observe.effects import IncidentTransition
from streaming.serve.alerting.follow import Follower, Ledger
from tests.live.alert_receivers import PROGRAM, Alertmanager, Webhook
from tests.live.commands import Command
from tests.support.alerting import append_transitions, required_messages, transition
from tests.support.findings import effects
from tests.support.tables import make_tables

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is missing: conf/apt.txt"),
]

STARTS_SECONDS = 120
CONFIG = """
poll = "1s"
group_wait = "0s"
dead_man = {{job = "0s", sources = "0s", forget = "1h"}}
limit = {{messages = 10000, span = "1s", alerts = 1000}}
retry = {{first = "1s", longest = "1s"}}
routes = [{{channels = ["ours", "manager"]}}]

[channels.ours]
kind = "webhook"
url = {{env = "TEST_HOOK"}}

[channels.manager]
kind = "alertmanager"
url = "{manager}"
resend = "1s"
"""


@pytest.fixture
def webhook():
    with Webhook() as webhook:
        yield webhook


@pytest.fixture
def manager(tmp_path, webhook):
    with Alertmanager(tmp_path / "alertmanager", webhook) as manager:
        yield manager


@pytest.fixture
def command(tmp_path, webhook, manager, monkeypatch):
    """`rebalance-watch alert` over empty tables."""
    make_tables(tmp_path / "root" / "tables")
    (tmp_path / "alerts.toml").write_text(CONFIG.format(manager=manager.url))
    monkeypatch.setenv("TEST_HOOK", f"{webhook.url}/ours")
    settings = {"RUNTIME__ROOT": tmp_path / "root", "ALERTS__FILE": tmp_path / "alerts.toml"}
    with Command(tmp_path, settings, "alert", "run") as command:
        yield command


@pytest.fixture
def tables(tmp_path):
    return tmp_path / "root" / "tables"


def test_incidents_of_the_capture_fire_and_end_at_webhook_and_alertmanager(
    command, tables, webhook, manager, eventually
):
    ended = all_that_end([effect for effect in effects() if isinstance(effect, IncidentTransition)])
    command.start().wait_for("following", STARTS_SECONDS)
    eventually(lambda: Ledger(tables).position(Follower(tables / "anomalies").table_id) is not None)
    begun = {one.incident_id for one in ended if one.transition == "OPENED"}
    append_transitions(tables, *(one for one in ended if one.transition != "RESOLVED"))
    eventually(lambda: webhook.messages() >= {one for one in required_messages(ended) if one[1] != "RESOLVED"})
    open_there = {incident for incident, kind in required_messages(ended) if kind == "OPENED"}
    assert open_there <= begun
    eventually(lambda: set(manager.active()) == open_there)
    shown = next(iter(eventually(manager.active).values()))
    assert shown["annotations"]["idempotency_key"].startswith(f"{shown['labels']['incident_id']}:")
    assert shown["generatorURL"].endswith(f"/incident/{shown['labels']['incident_id']}")
    time.sleep(5)  # longer than the end that was told: what is open goes on because it is told again
    eventually(lambda: set(manager.active()) == open_there)  # without that, none would come back
    append_transitions(tables, *(one for one in ended if one.transition == "RESOLVED"))
    eventually(lambda: webhook.messages() == required_messages(ended))
    eventually(lambda: not manager.active())
    heard = eventually(lambda: all_ended(webhook))
    assert {incident for incident, *_ in heard} == open_there
    assert [one for one in heard if one[2] == "resolved" and (*one[:2], "firing") not in heard] == []
    assert command.interrupt() == 0, command.said()
    assert "Traceback" not in command.said()
    assert webhook.url not in command.said()


def all_that_end(transitions):
    """Resolve the incidents that are open at the end of the capture."""
    last = {one.incident_id: one for one in transitions}
    still_open = [one for one in last.values() if one.transition != "RESOLVED"]
    assert still_open, "nothing is open at the end of the capture: this is not needed"
    at = max(one.time for one in transitions)
    return transitions + [replace(one, transition="RESOLVED", time=at, seq=one.seq + 10_000) for one in still_open]


def all_ended(webhook):
    """Return what the Alertmanager sent, once no alert fires any more."""
    heard = webhook.from_alertmanager()
    fired = {one[:2] for one in heard if one[2] == "firing"}
    return heard if fired and fired == {one[:2] for one in heard if one[2] == "resolved"} else None


class Story:
    """Incidents that open, escalate and are resolved at random, as a job would report them."""

    def __init__(self, tables, seed):
        self._tables = tables
        self._random = Random(seed)
        self._open = {}
        self._seq = 0
        self.transitions = []

    def go_on(self):
        """Append a few transitions in one commit."""
        batch = [self._next() for _ in range(self._random.randint(1, 4))]
        self.transitions += batch
        append_transitions(self._tables, *batch)

    def end(self):
        """Resolve the open incidents."""
        batch = [self._step(incident, "RESOLVED") for incident in list(self._open)]
        self.transitions += batch
        append_transitions(self._tables, *batch)

    def _next(self):
        if not self._open or self._random.random() < 0.4:
            incident = f"incident-{self._seq}"
            parent = "parent" if self._random.random() < 0.2 else None
            self._open[incident] = {"severity": "warning", "group": f"g{self._seq % 30}", "parent": parent}
            return self._step(incident, "OPENED")
        incident = self._random.choice(list(self._open))
        what = self._random.choice(["ESCALATED", "RESOLVED", "RESOLVED"])
        if what == "ESCALATED" and self._open[incident]["severity"] == "critical":
            what = "RESOLVED"
        return self._step(incident, what)

    def _step(self, incident, what):
        self._seq += 1
        facts = self._open[incident]
        if what == "ESCALATED":
            facts |= {"severity": "critical", "parent": None}
        if what == "RESOLVED":
            del self._open[incident]
        return transition(incident, what, self._seq, **facts)


def check_messages(webhook, story, ledger):
    """Check that every message was sent, in order, and that a repeated message has the same key."""
    alerts = webhook.alerts()
    assert webhook.messages() == required_messages(story.transitions)
    for (incident, kind), same in groupby(
        sorted(alerts, key=lambda one: (one.incident_id, one.kind)), lambda one: (one.incident_id, one.kind)
    ):
        assert len({one.key for one in same}) == 1, (incident, kind)
    bodies = {}
    for path, key, body in webhook.taken:
        if path == "/ours":
            assert bodies.setdefault(key, body) == body
    first = {}
    for number, alert in enumerate(alerts):
        first.setdefault((alert.incident_id, alert.kind), number)
    for (incident, _), number in first.items():
        assert first[incident, "OPENED"] <= number
    ends = [row.key for row in ledger if row.step in {"SENT", "GIVEN_UP"}]
    assert len(ends) == len(set(ends))
    assert not [row for row in ledger if row.step == "GIVEN_UP"]


def kill_at_random(command, tables, webhook, manager, eventually, *, kills, seed):
    """Kill the process this number of times while incidents change; return how many messages came more than once."""
    random, story = Random(seed), Story(tables, seed)
    webhook.faults, webhook.slow_seconds = 0.4, 0.2
    command.start().wait_for("following", STARTS_SECONDS)
    eventually(lambda: Ledger(tables).position(Follower(tables / "anomalies").table_id) is not None)
    for number in range(kills):
        for _ in range(random.randint(1, 4)):
            story.go_on()
            time.sleep(random.uniform(0, 0.3))
        if random.random() < 0.5:
            wait_for_a_message(webhook, 3)
            time.sleep(random.uniform(0, 0.3))
        command.kill()
        story.go_on()
        command.start()
        if random.random() < 0.7:  # otherwise it would be killed while it starts
            command.wait_for("following", STARTS_SECONDS)
        assert "Traceback" not in command.said(), command.said()
        if number % 10 == 7:
            manager.kill()
            manager.start()
    webhook.faults, webhook.slow_seconds = 0.0, 0.0
    story.end()
    eventually(lambda: webhook.messages() == required_messages(story.transitions))
    eventually(lambda: not manager.active())
    time.sleep(2)  # the last answer is kept with the next round
    assert command.interrupt() == 0, command.said()
    check_messages(webhook, story, Ledger(tables).rows())
    keys = [key for path, key, _ in webhook.taken if path == "/ours"]
    return len(keys), len(keys) - len(set(keys)), len(story.transitions)


def wait_for_a_message(webhook, seconds):
    """Wait for the next message, for a limited time."""
    deadline, before = time.monotonic() + seconds, len(webhook.taken)
    while len(webhook.taken) == before and time.monotonic() < deadline:
        time.sleep(0.005)


def test_three_kills_lose_no_alert_and_repeat_none_under_another_key(command, tables, webhook, manager, eventually):
    kill_at_random(command, tables, webhook, manager, eventually, kills=3, seed=1)


@pytest.mark.prove
def test_fifty_kills_lose_no_alert_and_repeat_none_under_another_key(
    command, tables, webhook, manager, eventually, record_property
):
    messages, again, transitions = kill_at_random(
        command, tables, webhook, manager, eventually, kills=50, seed=time.time_ns()
    )
    record_property("transitions, messages, repeated", f"{transitions}, {messages}, {again}")
