"""The hook's collector in the simulation: one event for each call, but pulls summed by second (`observe.events`)."""

from collections.abc import Collection
from functools import partial
from typing import ClassVar

import msgspec

from rebalance_model.broker.broker_config import SUCCESS
from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import (
    AnyEvent,
    BrokerStatus,
    ChangeMessageInvisibletime,
    ClockSeen,
    GetConsumerListByGroup,
    HeartBeat,
    LockBatchMq,
    ProxyHeartBeat,
    PullMessage,
    QueryConsumerOffset,
    Subscription,
    TelemetryLost,
    Tick,
    UnlockBatchMq,
    UnregisterClient,
    UpdateConsumerOffset,
)
from simulation.client_responses import subscriptions
from simulation.emitter import GroupStamp, SimulatedEmitter, Sink
from simulation.hook import BrokerHook, HookedBroker
from simulation.network import SimulatedChannel
from simulation.pop_sums import Place, PopSums, place_of
from simulation.popped import Handle, Pop, ProxiedHeartbeat
from simulation.remote_brokers import LANGUAGE, VERSION
from simulation.rocketmq.broker.client_manage_processor import HeartbeatData
from simulation.rocketmq.broker.consumer_manage_processor import Response
from simulation.rocketmq.client.pull_flow_control import Pull
from simulation.scheduler import MS, SECOND, Clock

DISK_FULL = "disk full"
_Key = tuple[str, str, int | None]


class _Sum(msgspec.Struct):
    """Pulls of one group, channel and code, of one queue."""

    first_time: int
    last_time: int
    first_offset: int
    last_offset: int
    commit_offset: int
    count: int
    broker_offset: int


class HookCollector(BrokerHook):
    """The hook of one broker; each boot of the broker is a separate incarnation."""

    wants_pulls: ClassVar[bool] = True

    def __init__(self, sink: Sink, *, sees_sends: bool = False) -> None:
        """Report to ``sink``; ``sees_sends``: the broker answers a send within the call (asyncSendEnable=false)."""
        self._sink = sink
        self._sees_sends = sees_sends
        self._sums: dict[MessageQueue, dict[_Key, _Sum]] = {}
        self._disk_full = False
        self._is_up = False
        self._lost: list[int] = []
        """The times of the events that did not get onto the disk; epoch milliseconds."""

    def booted(self, broker: HookedBroker) -> None:
        """Begin an incarnation."""
        self._broker = broker.name
        self._logs = broker.logs
        self._scheduler = broker.world.scheduler
        self._booted = self._scheduler.now
        self._clock = Clock(broker.world.scheduler, broker.clock.offset // MS + self.ahead)
        self._emitter = SimulatedEmitter(f"hook-{broker.name}", self._clock, self._write)
        self._is_up = True
        self._sums.clear()
        self._pops = PopSums()
        self._lost.clear()
        status = BrokerStatus(**self._emitter.stamp(self._broker), boot_time=broker.boot_time)
        self._emitter.emit(status)
        broker.world.scheduler.after(SECOND, partial(self._tick, broker, broker.boot_time))

    def stopped(self) -> None:
        """End the incarnation; send pending sums and a last tick."""
        self._send_tick(end=True)
        self._is_up = False

    def disk(self, *, full: bool) -> None:
        """Set whether the disk is full: events are then lost with their sequence numbers; a later event reports it."""
        self._disk_full = full

    def set_clock(self, by: int) -> None:
        """Set the clock of its stamps; sums so far keep the former one."""
        self.ahead += by
        if self._is_up:
            self._close_all_sums()
            self._clock.set(by)
            self._emitter.follow_clock(self._broker)

    def get_broker_runtime_info(self, collector: str, asked: int) -> None:
        """Report the collector's clock from its request, and this broker's clock."""
        stamp = self._emitter.stamp(self._broker)
        self._emitter.emit(ClockSeen(**stamp, collector=collector, asked=asked, seen=stamp["time"]))

    def heart_beat(
        self, channel: SimulatedChannel, heartbeat: HeartbeatData, language: str, version: int, code: int = SUCCESS
    ) -> None:
        """Report a heartbeat: one event for each group."""
        for data in heartbeat.consumer_data_set:
            self._emitter.emit(
                HeartBeat(
                    **self._stamp(data.group_name),
                    client_id=heartbeat.client_id,
                    channel=channel.name,
                    code=code,
                    language=language,
                    version=version,
                    consume_type=data.consume_type,
                    message_model=data.message_model,
                    consume_from_where=data.consume_from_where,
                    subscriptions=subscriptions({one.topic: one for one in data.subscription_data_set}),
                    without_sub=heartbeat.without_sub,
                    heartbeat_fingerprint=heartbeat.heartbeat_fingerprint,
                )
            )

    def unregister_client(self, channel: SimulatedChannel, group: str, client_id: str) -> None:
        """Report that a member leaves."""
        self._emitter.emit(UnregisterClient(**self._stamp(group), client_id=client_id, channel=channel.name))

    def get_consumer_list_by_group(self, channel: SimulatedChannel, group: str, response: Response) -> None:
        """Report that a member rebalances."""
        self._emitter.emit(
            GetConsumerListByGroup(
                **self._stamp(group),
                channel=channel.name,
                code=response.code,
                asked=self._clock.now(),  # this broker answers within the same moment
                consumer_ids=response.consumer_ids,
            )
        )

    def lock_batch_mq(
        self,
        channel: SimulatedChannel,
        group: str,
        client_id: str,
        requested: Collection[MessageQueue],
        granted: Collection[MessageQueue],
    ) -> None:
        """Report a lock request."""
        self._close_sums(group, requested)
        self._emitter.emit(
            LockBatchMq(
                **self._stamp(group),
                client_id=client_id,
                channel=channel.name,
                requested=tuple(requested),
                granted=tuple(granted),
            )
        )

    def unlock_batch_mq(
        self, channel: SimulatedChannel, group: str, client_id: str, queues: Collection[MessageQueue]
    ) -> None:
        """Report an unlock request."""
        self._close_sums(group, queues)
        self._emitter.emit(
            UnlockBatchMq(
                **self._stamp(group),
                client_id=client_id,
                channel=channel.name,
                queues=tuple(queues),
            )
        )

    def update_consumer_offset(
        self, channel: SimulatedChannel, group: str, queue: MessageQueue, offset: int, code: int
    ) -> None:
        """Report a commit."""
        self._close_sums(group, (queue,))
        self._emitter.emit(
            UpdateConsumerOffset(
                **self._stamp(group),
                channel=channel.name,
                code=code,
                topic=queue.topic,
                queue_id=queue.queue_id,
                offset=offset,
                broker_offset=self._newest(queue, offset),
            )
        )

    def query_consumer_offset(self, channel: SimulatedChannel, group: str, queue: MessageQueue, code: int) -> None:
        """Report that a member creates a process queue."""
        self._close_sums(group, (queue,))
        self._emitter.emit(
            QueryConsumerOffset(
                **self._stamp(group), channel=channel.name, code=code, topic=queue.topic, queue_id=queue.queue_id
            )
        )

    def pull_message(
        self, channel: SimulatedChannel, group: str, queue: MessageQueue, pull: Pull, code: int | None
    ) -> None:
        """Add a pull to the sum of its second."""
        now = self._clock.now()
        sums = self._sums.setdefault(queue, {})
        total = sums.get((group, channel.name, code))
        if total is None:
            total = sums[group, channel.name, code] = _Sum(now, now, pull.offset, pull.offset, -1, 0, -1)
        total.last_time, total.last_offset = now, pull.offset
        total.commit_offset = -1 if pull.commit_offset is None else pull.commit_offset
        total.count += 1
        total.broker_offset = self._newest(queue, pull.offset)

    def pop_message(self, channel: SimulatedChannel, pop: Pop, code: int | None) -> None:
        """Add a POP to the sum of its second."""
        self._pops.pop(self._clock.now(), channel.name, pop, code)

    def ack_message(self, channel: SimulatedChannel, group: str, handle: Handle) -> None:
        """Add an ack to the sum of its second."""
        self._pops.ack(self._clock.now(), channel.name, group, handle)

    def change_message_invisibletime(
        self, channel: SimulatedChannel, group: str, handle: Handle, changed_ms: int
    ) -> None:
        """Report a renewal or a refusal."""
        queue = handle.queue
        self._close_sums(group, (queue,))
        self._emit_pops(place_of(group, queue))
        self._emitter.emit(
            ChangeMessageInvisibletime(
                **self._stamp(group),
                channel=channel.name,
                code=SUCCESS,
                topic=queue.topic,
                queue_id=queue.queue_id,
                offset=handle.offset,
                order=handle.order,
                pop_time=handle.pop_time,
                invisible_ms=handle.invisible_ms,
                changed_ms=changed_ms,
            )
        )

    def proxy_heart_beat(self, channel: SimulatedChannel, heartbeat: ProxiedHeartbeat) -> None:
        """Report a heartbeat of a proxy's client."""
        registers = heartbeat.registers
        consume_type = "CONSUME_PASSIVELY" if heartbeat.pushes else "CONSUME_ACTIVELY"
        self._emitter.emit(
            ProxyHeartBeat(
                **self._stamp(heartbeat.group),
                channel=channel.name,
                client_id=heartbeat.client_id,
                proxy=heartbeat.proxy,
                registers=registers,
                language=LANGUAGE,
                version=VERSION,
                consume_type=consume_type if registers else "",
                message_model="CLUSTERING" if registers else "",
                subscriptions=tuple(
                    Subscription(topic=topic, sub_string="*", expression_type="TAG", sub_version=0)
                    for topic in heartbeat.topics
                ),
            )
        )

    def _emit_pops(self, place: Place) -> None:
        for one in self._pops.close(place):
            self._emitter.emit(one.event(self._stamp(place[0]), place))

    def _tick(self, broker: HookedBroker, boot_time: int) -> None:
        if not broker.up or broker.boot_time != boot_time:
            return
        self._send_tick()
        broker.world.scheduler.after(SECOND, partial(self._tick, broker, boot_time))

    def _send_tick(self, *, end: bool = False) -> None:
        """Send the pending sums and losses, then a tick."""
        self._close_all_sums()
        self._report_losses()
        self._emitter.emit(Tick(**self._emitter.stamp(self._broker), end=end))

    def _newest(self, queue: MessageQueue, offset: int) -> int:
        """Return the queue's newest offset if a send since the boot has shown it, else -1.

        The broker itself stores messages in a retry topic, so no send shows them; an offset beyond the newest known one
        shows that others store there, too.
        """
        if not self._sees_sends or queue.is_retry or queue not in self._logs:
            return -1
        newest = self._logs[queue].max_offset(self._scheduler.now)
        return newest if newest >= offset and newest > self._logs[queue].max_offset(self._booted) else -1

    def _write(self, event: AnyEvent) -> None:
        if self._disk_full:
            self._lost.append(event.time)
        else:
            self._sink(event)

    def _report_losses(self) -> None:
        if self._lost and not self._disk_full:
            lost, self._lost = self._lost, []
            stamp = self._emitter.stamp(self._broker)
            self._emitter.emit(
                TelemetryLost(**stamp, from_time=lost[0], to_time=lost[-1], count=len(lost), reason=DISK_FULL)
            )

    def _stamp(self, group: str) -> GroupStamp:
        return self._emitter.group_stamp(group, self._broker)

    def _close_sums(self, group: str, queues: Collection[MessageQueue]) -> None:
        """Emit the sums of a group's pulls of these queues, so that later events follow them."""
        for queue in queues:
            sums = self._sums.get(queue, {})
            for key in [key for key in sums if key[0] == group]:
                self._emit_sum(queue, key, sums.pop(key))
            if not sums:
                self._sums.pop(queue, None)

    def _close_all_sums(self) -> None:
        for place in self._pops.places():
            self._emit_pops(place)
        for queue in list(self._sums):
            for group in {key[0]: None for key in self._sums[queue]}:
                self._close_sums(group, (queue,))

    def _emit_sum(self, queue: MessageQueue, key: _Key, total: _Sum) -> None:
        group, channel, code = key
        self._emitter.emit(
            PullMessage(
                **self._stamp(group),
                channel=channel,
                topic=queue.topic,
                queue_id=queue.queue_id,
                first_time=total.first_time,
                last_time=total.last_time,
                first_offset=total.first_offset,
                last_offset=total.last_offset,
                commit_offset=total.commit_offset,
                code=code,
                count=total.count,
                broker_offset=total.broker_offset,
            )
        )
