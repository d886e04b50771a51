"""The alert process: look at the tables, decide, keep the decisions, send; again and again.

The order of a round is what makes delivery at least once. What is decided is in the ledger before anything of it is
sent, and that it was sent is written only then: so a process that is killed anywhere sends again what it may have
sent, under the same key, and nothing is left out.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from queue import Empty, SimpleQueue

import pyarrow as pa
from deltalake.exceptions import DeltaError

from rebalance_model.observe.effects import IncidentTransition
from streaming.alerting.alert import Delivery
from streaming.alerting.book import Lane
from streaming.alerting.channels import Channel
from streaming.alerting.channels.channel import ChannelError
from streaming.alerting.config import AlertsConfig
from streaming.alerting.dead_man import Watch
from streaming.alerting.decide import Desk
from streaming.alerting.deliver import Clock, Result, Sender
from streaming.alerting.follow import Follower, LostError, SwappedError
from streaming.alerting.ledger import CONTROLS, Ledger, columns_of, controls_of, converted
from streaming.alerting.pack import AHEAD, pack
from streaming.alerting.render import Texts
from streaming.errors import UserError

_ANOMALIES = "anomalies"
_SILENCE_LOOK_MS = 5_000
"""How often the dead-man check looks; its spans are minutes."""
_SAME_TABLE_LOOK_MS = 60_000


class Alerting:
    """All parts of it."""

    def __init__(  # noqa: PLR0913  its parts
        self,
        tables: Path,
        checkpoints: Path,
        *,
        config: AlertsConfig,
        channels: Mapping[str, Channel],
        texts: Texts,
        clock: Clock,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Go on from the ledger.

        Raises:
            UserError: a table is not there.
        """
        self._config, self._channels, self._clock, self._report = config, channels, clock, report
        self._ledger = Ledger(tables)
        self._desk = Desk(config, self._ledger.rows())
        self._incidents = Follower(tables / _ANOMALIES, columns_of(_ANOMALIES))
        self._controls = Follower(tables / CONTROLS, columns_of(CONTROLS))
        self._desk.controls.take(controls_of(self._controls.whole().read_all()))
        self._position = self._ledger.position(self._incidents.table_id)
        if self._position is not None:
            self._incidents.version = self._position
        self._watch = Watch(tables, checkpoints, config.dead_man, clock())
        self._wake: SimpleQueue[None] = SimpleQueue()  # its put may be called in a signal handler
        self._sender = Sender(channels, texts, clock, self._wake)
        self._stopping = self._failed = False
        self._not_standing: set[str] = set()
        """The channels that did not take what stands, last."""
        self._due: dict[str, int] = {}
        """When what is done at times is to be done again: the dead-man check, and each channel's standing alerts."""

    def stop(self) -> None:
        """End after the round that is under way; for a signal handler, too."""
        self._stopping = True
        self._wake.put(None)

    def run(self) -> None:
        """Work until `stop`.

        Raises:
            UserError: the ledger can't be written, or the tables are other ones now.
        """
        try:
            while not self._stopping:
                self.round()
                self._rest()
        finally:
            self._record(self._sender.close())
            if not self._failed:
                self._keep()

    def round(self) -> None:
        """Look, decide, keep, send."""
        now = self._clock()
        self._record(self._sender.ended())
        self._hear(now)
        self._desk.look_again(now)
        for name, channel in self._channels.items():
            limit = self._config.limit if channel.resend_ms is None else None
            pack(self._desk, name, limit, now, ahead=AHEAD if self._sender.quick(name) else 1)
        self._keep()
        for name, channel in self._channels.items():
            if not self._sender.busy(name):
                self._send(name, channel, now)

    def _hear(self, now: int) -> None:
        """Take in what people said, what was found, and what fell silent."""
        try:
            for commit in self._controls.new():
                self._desk.controls.take(controls_of(commit.rows))
        except LostError:
            self._desk.controls.take(controls_of(self._controls.whole().read_all()))
        self._take_incidents(now)
        if self._is_due("silence", _SILENCE_LOOK_MS, now):
            for transition in self._watch.look(now, self._desk.book.known):
                self._desk.take(transition, now)
        if self._is_due("same table", _SAME_TABLE_LOOK_MS, now):
            self._incidents.check()

    def _take_incidents(self, now: int) -> None:
        try:
            if self._position is None:
                self._catch_up(now)
            for commit in self._incidents.new():
                for transition in _transitions(commit.rows):
                    self._desk.take(transition, now)
        except SwappedError:
            self._report("the incidents were rebuilt: going on with those that are open now")
            self._desk.rebuilt(self._last_transitions(), now)
        except LostError as error:
            self._report(f"{error} is gone before it was read: going on with the incidents that are open now")
            self._catch_up(now)

    def _catch_up(self, now: int) -> None:
        self._desk.catch_up(self._last_transitions(), now)

    def _last_transitions(self) -> list[IncidentTransition]:
        """The last transition of every incident, oldest first."""
        last: dict[str, IncidentTransition] = {}
        for transition in _transitions(self._incidents.whole().read_all()):
            last[transition.incident_id] = transition
        return sorted(last.values(), key=lambda one: one.time)

    def _keep(self) -> None:
        rows = self._desk.take_rows()
        if not rows and self._position is not None:
            return
        try:
            self._ledger.append(rows, self._incidents.table_id, self._incidents.version)
        except (DeltaError, OSError) as error:
            self._failed = True  # a later commit would move the position past what this one was to keep
            raise UserError(f"The table alert_deliveries can't be written: {error}.") from None
        self._position = self._incidents.version

    def _send(self, name: str, channel: Channel, now: int) -> None:
        lane = self._desk.book.lanes.setdefault(name, Lane())
        if lane.packed and lane.retry_at <= now:
            self._sender.start(name, self._desk.book.deliveries(name))
        elif channel.resend_ms is not None and self._is_due(name, channel.resend_ms, now):
            standing = tuple(self._desk.book.standing(name))
            if standing:
                state = Delivery(f"{name}:standing", name, standing, summary=False, attempt=1)
                self._sender.start(name, [state], standing=True)

    def _record(self, results: list[Result]) -> None:
        for delivery, standing, error in results:
            now = self._clock()
            if standing:
                self._stood(delivery.channel, error, now)
            elif error is None:
                self._desk.sent(delivery, now)
                self._report(f"{delivery.channel}: {_said(delivery)}")
            else:
                self._desk.failed(delivery, str(error), now, rejected=error.rejected)
                self._report(f"{delivery.channel}: attempt {delivery.attempt} failed, {error}")

    def _stood(self, channel: str, error: ChannelError | None, now: int) -> None:
        """What stands has been told again, or has not."""
        if error is not None:
            self._due[channel] = now + self._config.retry.first
            if channel not in self._not_standing:
                self._report(f"{channel}: what is open could not be told again, {error}")
            self._not_standing.add(channel)
        elif channel in self._not_standing:
            self._not_standing.remove(channel)
            self._report(f"{channel}: what is open is told again")

    def _is_due(self, what: str, every_ms: int, now: int) -> bool:
        if now < self._due.get(what, 0):
            return False
        self._due[what] = now + every_ms
        return True

    def _rest(self) -> None:
        try:
            self._wake.get(timeout=self._config.poll / 1000)
            while True:
                self._wake.get_nowait()
        except Empty:
            return


def _transitions(rows: pa.Table) -> list[IncidentTransition]:
    """In the order in which they were told, of each incident."""
    return sorted(converted(rows, IncidentTransition), key=lambda one: one.seq)


def _said(delivery: Delivery) -> str:
    first = delivery.alerts[0]
    more = f" and {len(delivery.alerts) - 1} more" if len(delivery.alerts) > 1 else ""
    of = first.transition
    return f"{first.kind} {of.code} {of.group} {of.subject}{more}".replace("  ", " ")
