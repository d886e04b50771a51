"""Short traces of the events of brokers' hooks, written call by call; polls of `trace` may be mixed in."""

from dataclasses import dataclass, field

from rebalance_model.broker.rebalance_lock_manager import LockEntry
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    BrokerStatus,
    Event,
    GetConsumerListByGroup,
    GroupEvent,
    HeartBeat,
    LockBatchMq,
    PullMessage,
    QueryConsumerOffset,
    Subscription,
    TelemetryLost,
    UnlockBatchMq,
    UnregisterClient,
    UpdateConsumerOffset,
)
from rebalance_model.observe.state import HookView
from tests.support.trace import START, TOPIC, Trace

A, B = "broker-a", "broker-b"


def channel_of(client_id: str, number: int = 0) -> str:
    """Return the name that `Trace` uses, so that hook and poll report the same channel."""
    return f"{client_id}:{number}"


@dataclass
class HookTrace(Trace):
    """Folds the events of brokers' hooks; each method is a call, ``at`` seconds of true time."""

    broker: str = A
    """The broker whose hook reports the next calls."""
    broker_id: int = 0
    boot: dict[str, int] = field(default_factory=dict)
    hook_seq: dict[str, int] = field(default_factory=dict)

    def of(self, broker: str, broker_id: int = 0) -> "HookTrace":
        self.broker, self.broker_id = broker, broker_id
        return self

    def boots(self, at: float) -> "HookTrace":
        """Start the broker: a new incarnation of its hook reports the boot time first."""
        self.boot[self.broker] = now = self.clock(at)
        self.hook_seq[f"{self.broker}-{self.broker_id}"] = 0
        return self._observe(BrokerStatus(boot_time=now, seq=1, **self._common(now)))

    def heart_beat(self, at: float, *clients: str, number: int = 0, topics: tuple[str, ...] = (TOPIC,), **fields):
        for c in clients:
            subscriptions = tuple(Subscription(topic=one, sub_string="*") for one in topics)
            given = {"consume_type": "CONSUME_PASSIVELY", "message_model": "CLUSTERING", "subscriptions": subscriptions}
            given |= {"consume_from_where": "CONSUME_FROM_LAST_OFFSET", "channel": channel_of(c, number)}
            self._emit(at, HeartBeat, client_id=c, **(given | fields))
        return self

    def leaves(self, at: float, client: str, *, number: int = 0, code: int = 0) -> "HookTrace":
        return self._emit(at, UnregisterClient, client_id=client, channel=channel_of(client, number), code=code)

    def lists(
        self, at: float, *clients: str, asked: float | None = None, code: int = 0, channel: str = "?:9"
    ) -> "HookTrace":
        """Emit the broker's answer to a member-list request."""
        begun = self.clock(at if asked is None else asked)
        return self._emit(at, GetConsumerListByGroup, channel=channel, asked=begun, consumer_ids=clients, code=code)

    def locks(self, at: float, client: str, *queues: int, granted: tuple[int, ...] | None = None, **fields):
        asked, got = self._mqs(queues), self._mqs(queues if granted is None else granted)
        given = {"channel": channel_of(client), "requested": asked, "granted": got}
        return self._emit(at, LockBatchMq, client_id=client, **(given | fields))

    def unlocks(self, at: float, client: str, *queues: int) -> "HookTrace":
        return self._emit(at, UnlockBatchMq, client_id=client, channel=channel_of(client), queues=self._mqs(queues))

    def asks(self, at: float, client: str, *queues: int, number: int = 0) -> "HookTrace":
        """Emit the queries of offsets with which the client creates process queues."""
        for q in queues:
            self._emit(at, QueryConsumerOffset, channel=channel_of(client, number), topic=TOPIC, queue_id=q)
        return self

    def pulls(self, at: float, client: str, *queues: int, number: int = 0, commit: int = -1, offset: int = 0, **fields):
        for q in queues:
            given = {"channel": channel_of(client, number), "topic": TOPIC, "queue_id": q, "count": 1, "code": None}
            given |= dict.fromkeys(("first_time", "last_time"), self.clock(at))
            given |= {"first_offset": offset, "last_offset": offset, "commit_offset": commit, **fields}
            self._emit(at, PullMessage, **given)
        return self

    def commits(self, at: float, client: str, queue: int, offset: int, *, number: int = 0, code: int = 0):
        given = {"topic": TOPIC, "queue_id": queue, "offset": offset, "code": code}
        return self._emit(at, UpdateConsumerOffset, channel=channel_of(client, number), **given)

    def passes(self, at: float) -> "HookTrace":
        """Advance the time, as the ticks of the broker's hook do."""
        self._advance(self.clock(at))
        self.state.validate()
        return self

    def loses(self, begin: float, end: float, reason: str = "disk full") -> "HookTrace":
        """Emit the hook's report that it could not send the events between two times."""
        common, span = self._common(self.clock(end)), {"from_time": self.clock(begin), "to_time": self.clock(end)}
        self.broadcasts += 1
        return self._observe(TelemetryLost(seq=self.broadcasts, count=9, reason=reason, **common, **span))

    def stands(self, begin: float, end: float) -> "HookTrace":
        """Skip a time without events, as when a broker is stopped or its disk is full, and there is no other source."""
        self.passes(begin)
        self.timeline._skip_idle_time(self.now, self.clock(end))
        return self

    def clock(self, at: float) -> int:
        """Convert seconds of the trace to epoch milliseconds."""
        return START + round(at * 1000)

    def view(self) -> HookView:
        hook = self.state.views[self.broker].hook
        assert hook is not None
        return hook

    def channels(self) -> dict[str, str]:
        """Return the client of each channel, by the broker's view."""
        table = self.state.views[self.broker].info.channel_info_table
        return {channel: info.client_id for channel, info in table.items()}

    def lock_table(self) -> dict[int, tuple[str, float]]:
        """Return the holder of each lock, and when it was granted."""
        return {mq.queue_id: self._entry(entry) for mq, entry in self.view().locks.items()}

    def evidence(self) -> list[tuple[int, str, str]]:
        """Return queue id, action and client, and evidence of every change of an owner."""
        kind = "AssignmentChange"
        return [(e.queue_id, f"{e.action} {e.client_id}", e.evidence) for e in self.effects if type(e).__name__ == kind]

    def _entry(self, entry: LockEntry) -> tuple[str, float]:
        return entry.client_id, (entry.last_update_timestamp - START) / 1000

    def _mqs(self, queues: tuple[int, ...]) -> tuple[MessageQueue, ...]:
        return tuple(MessageQueue(TOPIC, self.broker, q) for q in queues)

    def _common(self, now: int) -> dict[str, object]:
        source_id = f"hook-{self.broker}-{self.broker_id}@{self.boot.get(self.broker, self.clock(0))}"
        common = {"time": now, "cluster": "c", "broker": self.broker, "broker_id": self.broker_id}
        return common | {"source": "hook", "source_id": source_id}

    def _emit(self, at: float, kind: type[GroupEvent], **fields: object) -> "HookTrace":
        name = f"{self.broker}-{self.broker_id}"
        self.hook_seq[name] = self.hook_seq.get(name, 0) + 1
        event: Event = kind(group="g", seq=self.hook_seq[name], **self._common(self.clock(at)), **fields)
        self._fold(event)
        return self
