"""Incidents, tables and channels for the tests of the alerts."""

import tomllib
from pathlib import Path

from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import AlertControl
from streaming.base.settings import conf_file
from streaming.serve.alerting.alert import Alert, Delivery, key_of
from streaming.serve.alerting.channels.channel import ChannelError
from streaming.serve.alerting.config import AlertsConfig
from streaming.serve.alerting.dispatcher import Dispatcher, pack
from streaming.serve.alerting.render import Texts
from streaming.serve.alerting.run import Alerting
from tests.support.tables import append

NOW = 1_795_280_000_000
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


def transition(incident: str = "i1", what: str = "OPENED", seq: int = 1, **fields: object) -> IncidentTransition:
    """Return a transition of an incident of queue 0 of `orders`."""
    given = {
        "cluster": "c", "group": "orders", "time": NOW + seq, "known_at": NOW + seq, "seq": seq,
        "cause": "poll-1@1|c/orders|1",
        "incident_id": incident, "code": "LAG_GROWTH", "sub_cause": "", "severity": "critical", "transition": what,
        "subject": "Orders@b:0", "opened_at": NOW, "topic": "Orders", "broker": "b", "queue_id": 0, "client_id": None,
        "evidence": '{"lag":7}', "explanation": "why", "first_step": "what", "parent": None,
    }  # fmt: skip
    return IncidentTransition(**given | fields)


def config(**given: object) -> AlertsConfig:
    """Return the defaults, with one route to the channel `ops` unless other routes are given."""
    hook = {"kind": "webhook", "url": "http://127.0.0.1:1"}
    values = {
        **tomllib.loads(conf_file("alerts.toml").read_text()),
        "routes": [{"channels": ["ops"]}],
        "channels": dict.fromkeys(("ops", "chat", "pager"), hook),
        **given,
    }
    return AlertsConfig.model_validate(values)


def required_messages(transitions):
    """Return incident and kind of every required message, from transitions in the observer's order."""
    required = set()
    for transition in sorted(transitions, key=lambda one: (one.time, one.seq)):
        if transition.transition in {"OPENED", "ESCALATED"} and not transition.is_absorbed:
            opened = (transition.incident_id, "OPENED") in required
            required.add((transition.incident_id, "ESCALATED" if opened else "OPENED"))
        elif transition.transition == "RESOLVED" and (transition.incident_id, "OPENED") in required:
            required.add((transition.incident_id, "RESOLVED"))
    return required


def append_transitions(tables: Path, *transitions: IncidentTransition) -> None:
    """Append transitions to the table of incidents, in one commit, as the job does."""
    append(tables, transitions)


def next_delivery(dispatcher: Dispatcher, channel: str = "ops") -> Delivery | None:
    """Return the first message that is packed for a channel."""
    return next(dispatcher.state.deliveries(channel), None)


class Clock:
    """A clock that advances only by `forward`."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> int:
        return self.now

    def forward(self, milliseconds: int) -> None:
        self.now += milliseconds


class Listener:
    """A channel that accepts every message unless an error is set."""

    resend_ms = None

    def __init__(self) -> None:
        self.messages = []
        self.standing = []
        self.error: ChannelError | None = None
        self.standing_error: ChannelError | None = None
        self.before = lambda: None

    def send(self, message, now):
        self.before()
        if self.error is not None:
            raise self.error
        self.messages.append(message)

    def stand(self, message, now):
        if self.standing_error is not None:
            raise self.standing_error
        self.standing.append(message)

    def close(self):
        pass

    @property
    def received(self):
        """Kind and incident of every received alert."""
        return [(one["kind"], one["incident_id"]) for message in self.messages for one in message.alerts]


def quiet(**given: object) -> AlertsConfig:
    """Return the defaults without waiting times, and without the dead-man check."""
    return config(**{"group_wait": "0s", "dead_man": {"job": "0s", "sources": "0s", "forget": "1h"}, **given})


def start(tables: Path, clock: Clock, channels, settings: AlertsConfig | None = None) -> Alerting:
    """Return the alert process, without its endless loop."""
    return Alerting(
        tables,
        tables.parent / "checkpoints",
        config=settings or quiet(),
        channels=channels,
        texts=Texts("", "http://watch"),
        clock=clock,
    )


def rounds(alerting: Alerting, number: int = 2) -> None:
    """Run this number of rounds; messages of a round have arrived before the next one."""
    for _ in range(number):
        alerting.round()
        for future in list(alerting._sender._under_way.values()):
            future.result(10)
    alerting.round()


def message(kind="OPENED", notified=None, **fields):
    """Return the message about one transition to the channel `ops`."""
    one = transition(**fields)
    alerts = (Alert(key=key_of(one, "ops"), kind=kind, notified_severity=notified, transition=one),)
    return Texts("", "http://watch").message(Delivery(alerts[0].key, "ops", alerts, summary=False, attempt=1))


def silence(name="s1", until=NOW + HOUR, **covers):
    """Return the row of a silence."""
    given = {"cluster": None, "group": None, "code": None, **covers}
    return AlertControl(
        time=NOW, control="SILENCE", control_id=name, until=until, reason="known", author="ops", **given
    )


def queued(dispatcher):
    """Return (kind, incident, channel) of each alert that is queued."""
    return [(row.message, row.incident_id, row.channel) for row in dispatcher.take_rows() if row.step == "QUEUED"]


def reasons_held(dispatcher):
    """Return the reason why each alert is held back."""
    return [row.reason for row in dispatcher.take_rows() if row.step == "HELD"]


def send(dispatcher, now, channel="ops"):
    """Send what is next of a channel."""
    pack(dispatcher, channel, None, now)
    dispatcher.sent(next_delivery(dispatcher, channel), now)
