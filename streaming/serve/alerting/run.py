"""The alert process: read the tables, decide, write the decisions and send, in a loop.

The order within a round ensures delivery at least once. Decisions are written to the ledger before they are sent, and
the success afterwards. A process killed at any point sends again what it may have sent, under the same key.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

import pyarrow as pa
from deltalake.exceptions import DeltaError

from rebalance_model.observe.effects import IncidentTransition
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.base.process import GIVE_BACK_SECONDS, Pace, give_back
from streaming.serve.alerting.alert import Delivery
from streaming.serve.alerting.channels import AlertChannel
from streaming.serve.alerting.channels.channel import ChannelError
from streaming.serve.alerting.config import AlertsConfig
from streaming.serve.alerting.deliver import ChannelSender, Clock, SendResult
from streaming.serve.alerting.dispatcher import AHEAD, Dispatcher, pack
from streaming.serve.alerting.follow import (
    CONTROLS,
    Follower,
    Ledger,
    LostError,
    SwappedError,
    columns_of,
    controls_of,
    converted,
)
from streaming.serve.alerting.own_incidents import FailedChecks, Watch
from streaming.serve.alerting.render import Texts
from streaming.serve.alerting.route import groups_by_itself
from streaming.serve.alerting.state import ChannelQueue

_ANOMALIES = "anomalies"
_SILENCE_LOOK_MS = 5_000
"""The interval of the dead-man check; its thresholds are minutes."""
_SAME_TABLE_LOOK_MS = 60_000


class AlertReport(Protocol):
    """Prints what the process does."""

    def __call__(self, sentence: str, /, **fields: object) -> None:
        """Print a sentence; in JSON its fields, too."""


def _silent(_sentence: str, /, **_fields: object) -> None:
    """Print nothing."""


class Alerting:
    """The alert process over the tables, checkpoints and channels."""

    def __init__(
        self,
        tables: Place,
        checkpoints: Path,
        *,
        config: AlertsConfig,
        channels: Mapping[str, AlertChannel],
        texts: Texts,
        clock: Clock,
        report: AlertReport = _silent,
        on_round: Callable[[], None] = lambda: None,
    ) -> None:
        """Restore the state from the ledger.

        Raises:
            UserError: a table is missing.
        """
        self._config, self._channels, self._clock, self._report = config, channels, clock, report
        self._tables = tables
        self._on_round = on_round
        self._ledger = Ledger(tables)
        self._dispatcher = Dispatcher(config, self._ledger.rows())
        self._incidents = Follower(tables / _ANOMALIES, columns_of(_ANOMALIES))
        self._controls = Follower(tables / CONTROLS, columns_of(CONTROLS))
        self._reopened: set[str] = set()
        """The closed incidents that a person has opened again since they were last looked for."""
        self._take_controls(self._controls.whole().read_all())
        self._position = self._ledger.position(self._incidents.table_id)
        if self._position is not None:
            self._incidents.version = self._position
        self._watch = Watch(tables, checkpoints, config.dead_man, clock())
        self._checks = FailedChecks(tables)
        self._wake: SimpleQueue[None] = SimpleQueue()  # its put may be called in a signal handler
        self._sender = ChannelSender(channels, texts, clock, self._wake)
        self._stopping = self._failed = False
        self._not_standing: set[str] = set()
        """The channels whose last state update failed."""
        self._due: dict[str, int] = {}
        """The next time of periodic tasks: the dead-man check and the state updates of each channel."""

    def stop(self) -> None:
        """Stop after the current round; safe in a signal handler."""
        self._stopping = True
        self._wake.put(None)

    def run(self) -> None:
        """Run until `stop`.

        Raises:
            UserError: the ledger cannot be written, or the tables have been replaced.
        """
        memory = Pace(GIVE_BACK_SECONDS, first=GIVE_BACK_SECONDS)
        try:
            while not self._stopping:
                self.round()
                self._on_round()
                if memory.is_due():
                    give_back()
                self._wait_for_work()
        finally:
            self._record(self._sender.close())
            if not self._failed:
                self._keep()

    def round(self) -> None:
        """Read, decide, write the decisions and send."""
        now = self._clock()
        self._record(self._sender.ended())
        self._read(now)
        self._dispatcher.check_pending(now)
        for name, channel in self._channels.items():
            follows = name in self._config.channels and groups_by_itself(self._config, name)
            limit = None if follows or channel.resend_ms is not None else self._config.limit
            pack(self._dispatcher, name, limit, now, ahead=AHEAD if self._sender.quick(name) else 1)
        self._keep()
        for name, channel in self._channels.items():
            if not self._sender.busy(name):
                self._send(name, channel, now)

    def _read(self, now: int) -> None:
        """Read user commands, incidents and failed checks, and run the dead-man check."""
        try:
            for commit in self._controls.new():
                self._take_controls(commit.rows)
        except LostError:
            self._take_controls(self._controls.whole().read_all())
        self._open_again(now)
        self._take_incidents(now)
        if self._is_due("silence", _SILENCE_LOOK_MS, now):
            known = self._dispatcher.state.incidents
            for transition in [*self._watch.transitions(now, known), *self._checks.transitions(now, known)]:
                self._dispatcher.take(transition, now)
        if self._is_due("same table", _SAME_TABLE_LOOK_MS, now):
            self._incidents.check()

    def _take_controls(self, rows: pa.Table) -> None:
        controls = controls_of(rows)
        self._dispatcher.controls.take(controls)
        self._reopened |= {row.control_id for row in controls if row.control == "REOPEN"}

    def _open_again(self, now: int) -> None:
        """Decide again on the incidents that a person has opened again: what is closed is not in the state."""
        lacking = self._reopened - self._dispatcher.state.incidents.keys()
        self._reopened.clear()
        if lacking:
            last = _last_transitions(Follower(self._tables / _ANOMALIES, columns_of(_ANOMALIES)))
            self._dispatcher.catch_up([one for one in last if one.incident_id in lacking], now)

    def _take_incidents(self, now: int) -> None:
        try:
            if self._position is None:
                self._catch_up(now)
            for commit in self._incidents.new():
                for transition in _transitions(commit.rows):
                    self._dispatcher.take(transition, now)
        except SwappedError:
            self._report("the incidents were rebuilt: continuing with those open now")
            self._dispatcher.rebuilt(_last_transitions(self._incidents), now)
        except LostError as error:
            self._report(f"{error} was removed before it was read: continuing with the incidents open now")
            self._catch_up(now)

    def _catch_up(self, now: int) -> None:
        self._dispatcher.catch_up(_last_transitions(self._incidents), now)

    def _keep(self) -> None:
        rows = self._dispatcher.take_rows()
        if not rows and self._position is not None:
            return
        try:
            self._ledger.append(rows, self._incidents.table_id, self._incidents.version)
        except (DeltaError, OSError, UserError) as error:
            self._failed = True  # a later commit would move the position past what this one was to keep
            raise UserError(f"Cannot write the table alert_deliveries: {str(error).rstrip('.')}.") from None
        self._position = self._incidents.version

    def _send(self, name: str, channel: AlertChannel, now: int) -> None:
        queue = self._dispatcher.state.queues.setdefault(name, ChannelQueue())
        if queue.packed and queue.retry_at <= now:
            self._sender.start(name, self._dispatcher.state.deliveries(name))
        elif channel.resend_ms is not None and self._is_due(name, channel.resend_ms, now):
            standing = tuple(self._dispatcher.state.standing(name))
            if standing:
                state = Delivery(f"{name}:standing", name, standing, summary=False, attempt=1)
                self._sender.start(name, [state], standing=True)

    def _record(self, results: list[SendResult]) -> None:
        for delivery, standing, error in results:
            now = self._clock()
            if standing:
                self._stood(delivery.channel, error, now)
            elif error is None:
                self._dispatcher.sent(delivery, now)
                self._report(f"{delivery.channel}: {_described(delivery)}", **_fields(delivery))
            else:
                self._dispatcher.failed(delivery, str(error), now, rejected=error.rejected)
                self._report(f"{delivery.channel}: attempt {delivery.attempt} failed: {error}", **_fields(delivery))

    def _stood(self, channel: str, error: ChannelError | None, now: int) -> None:
        if error is not None:
            self._due[channel] = now + self._config.retry.first
            if channel not in self._not_standing:
                self._report(f"{channel}: update of open alerts failed: {error}", channel=channel)
            self._not_standing.add(channel)
        elif channel in self._not_standing:
            self._not_standing.remove(channel)
            self._report(f"{channel}: update of open alerts succeeds again", channel=channel)

    def _is_due(self, what: str, every_ms: int, now: int) -> bool:
        if now < self._due.get(what, 0):
            return False
        self._due[what] = now + every_ms
        return True

    def _wait_for_work(self) -> None:
        try:
            self._wake.get(timeout=self._config.poll / 1000)
            while True:
                self._wake.get_nowait()
        except Empty:
            return


def _transitions(rows: pa.Table) -> list[IncidentTransition]:
    return sorted(converted(rows, IncidentTransition), key=lambda one: one.seq)


def _last_transitions(incidents: Follower) -> list[IncidentTransition]:
    last: dict[str, IncidentTransition] = {}
    for transition in _transitions(incidents.whole().read_all()):
        last[transition.incident_id] = transition
    return sorted(last.values(), key=lambda one: one.time)


def _described(delivery: Delivery) -> str:
    first = delivery.alerts[0]
    more = f" and {len(delivery.alerts) - 1} more" if len(delivery.alerts) > 1 else ""
    of = first.transition
    return f"{first.kind} {of.code} {of.group} {of.subject}{more}".replace("  ", " ")


def _fields(delivery: Delivery) -> dict[str, object]:
    """Return what a log collector searches for; only a summary is about several groups."""
    transitions = [alert.transition for alert in delivery.alerts]
    buckets = {alert.bucket for alert in delivery.alerts}
    place = dict(zip(("cluster", "group"), buckets.pop(), strict=True)) if len(buckets) == 1 else {}
    return {
        "channel": delivery.channel,
        "attempt": delivery.attempt,
        **place,
        "codes": sorted({transition.code for transition in transitions}),
        "incidents": [transition.incident_id for transition in transitions],
    }
