"""Short traces of the calls of consumers that pop, by a broker's hook."""

from dataclasses import dataclass

from rebalance_model.observe.events import AckMessage, ChangeMessageInvisibletime, PopMessage, ProxyHeartBeat, Tick
from tests.support.hook_trace import HookTrace, channel_of
from tests.support.trace import START, TOPIC

PROXY = "10.0.0.9:8080"
"""The channel of a proxy."""


@dataclass
class PopTrace(HookTrace):
    """Folds calls of consumers that pop; ``client`` is a member's id, or a proxy's channel."""

    def ticks(self, at: float, *brokers: str) -> "PopTrace":
        """Let the hooks of these brokers tick: the cluster has them then."""
        for broker in brokers:
            common = self._common(self.clock(at)) | {"broker": broker, "source_id": f"hook-{broker}@{START}"}
            self.broadcasts += 1
            self._observe(Tick(seq=self.broadcasts, **common))
        return self

    def pops(self, at: float, client: str, *, queue: int = -1, poll: float = 15, invisible: float = 60, **fields):
        given = {"topic": TOPIC, "queue_id": queue, "count": 1, "channel": self._channel(client)}
        given |= {"poll_ms": round(poll * 1000), "invisible_ms": round(invisible * 1000)}
        given |= dict.fromkeys(("first_time", "last_time"), self.clock(at))
        return self._emit(at, PopMessage, **(given | fields))

    def acks(self, at: float, client: str, first: int, last: int | None = None, *, popped: float, **fields):
        """Acknowledge messages of queue 0 that were popped at a time."""
        given = {"topic": TOPIC, "queue_id": 0, "channel": self._channel(client), "invisible_ms": 60_000}
        given |= {"ranges": ((first, first if last is None else last),)}
        given |= dict.fromkeys(("first_time", "last_time"), self.clock(at))
        given |= dict.fromkeys(("pop_time_min", "pop_time_max"), self.clock(popped))
        return self._emit(at, AckMessage, **(given | fields))

    def changes(self, at: float, client: str, offset: int, *, popped: float, to: float, **fields):
        """Change until when a message of queue 0 is given to no other client."""
        given = {"topic": TOPIC, "queue_id": 0, "channel": self._channel(client), "invisible_ms": 60_000}
        given |= {"offset": offset, "pop_time": self.clock(popped), "changed_ms": round(to * 1000)}
        return self._emit(at, ChangeMessageInvisibletime, **(given | fields))

    def proxied(self, at: float, client: str, *, registers: bool = True, **fields):
        given = {"channel": PROXY, "proxy": "10.0.0.9%8080%8081", "language": "JAVA", "version": 493}
        return self._emit(at, ProxyHeartBeat, client_id=client, registers=registers, **(given | fields))

    @staticmethod
    def _channel(client: str) -> str:
        return client if ":" in client else channel_of(client)


def popping(*clients: str, until: float, every: float = 1, acks: tuple[str, ...] = (), trace: PopTrace | None = None):
    """Members pop, and those in ``acks`` acknowledge, every so many seconds; all send heartbeats."""
    trace = trace or PopTrace().boots(0)
    at, offset = 0.0, 0
    while at <= until:
        if at % 30 < every:
            trace.heart_beat(at, *clients)
        for client in clients:
            trace.pops(at + 0.1, client)
            if client in acks:
                trace.acks(at + 0.2, client, offset, popped=at)
                offset += 1
        at += every
    return trace
