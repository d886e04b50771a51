"""A simulated client process: one consumer of the model, its timers and its threads (MQClientInstance).

`simulation.rocketmq.client` does the consumer's work; this module provides a clock, threads and a network, and starts
each timer with RocketMQ's own delay and period.
"""

from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import partial

from rebalance_model.broker.consumer_group_info import SUB_ALL, TAG, SubscriptionData
from rebalance_model.client import LOCK_INTERVAL
from rebalance_model.entities import MessageQueue, queue_order
from simulation import client_responses
from simulation.broker import Broker
from simulation.connections import Connections
from simulation.listener import Behaviour, ConcurrentListener, OrderedListener
from simulation.network import SimulatedChannel
from simulation.pop import client as pop_client
from simulation.pop.client import PopService, PopSettings
from simulation.pop.listener import GroupCode, PopListener
from simulation.process import Process, Promise
from simulation.quiet_queue import QuietQueue
from simulation.reader import Reader
from simulation.remote_brokers import RemoteBrokers
from simulation.rocketmq.client import rebalance_service
from simulation.rocketmq.client.cached_messages import CachingProcessQueue
from simulation.rocketmq.client.concurrent_consumption import MINUTE, ConcurrentConsumption
from simulation.rocketmq.client.consume_lock import ConsumeLock
from simulation.rocketmq.client.consumer import Consumer
from simulation.rocketmq.client.consumer_config import ConsumerConfig, ConsumerKind
from simulation.rocketmq.client.host import BrokerError, Task
from simulation.rocketmq.client.lite_pull import AUTO_COMMIT_INTERVAL
from simulation.rocketmq.client.offset_file import OffsetFile
from simulation.rocketmq.client.offset_store import LocalFileOffsetStore, RemoteBrokerOffsetStore
from simulation.rocketmq.client.ordered_consumption import OrderedConsumption
from simulation.rocketmq.client.pull_flow_control import Pull, on_pull_error, on_pull_result, pull_message
from simulation.rocketmq.client.pull_request import PopRequest, PullRequest
from simulation.rocketmq.client.queue_locks import LOCK_INITIAL_DELAY
from simulation.rocketmq.client.rebalance_service import RebalanceService
from simulation.scheduler import MS, Clock
from simulation.world import World

POLL_NAME_SERVER = (10, 30_000)
"""First delay and period of a timer; milliseconds."""
HEARTBEAT_BROKER = (1_000, 30_000)
PERSIST_CONSUMER_OFFSET = (10_000, 5_000)
NAME_SERVER_LATENCY = 1 * MS


class OwnedQueues(dict[MessageQueue, CachingProcessQueue]):
    """A process queue table that records its changes in the truth."""

    def __init__(self, world: World, who: tuple[str, str]) -> None:
        super().__init__()
        self._world = world
        self._who = who
        self._sorted: list[MessageQueue] | None = None

    def __setitem__(self, queue: MessageQueue, process_queue: CachingProcessQueue) -> None:
        self._sorted = None
        self._world.truth.owns(self._world.true_ms, *self._who, queue)
        super().__setitem__(queue, process_queue)

    def pop(self, queue: MessageQueue, *default: None) -> CachingProcessQueue:  # type: ignore[override]  # the form in use
        """Remove a queue."""
        self._sorted = None
        if queue in self:
            self._world.truth.disowns(self._world.true_ms, *self._who, queue)
        return super().pop(queue, *default)

    def in_order(self) -> list[MessageQueue]:
        """Return the queues in the order in which a collector sorts them."""
        if self._sorted is None:
            self._sorted = sorted(self, key=queue_order)
        return self._sorted

    def lose(self) -> None:
        """Remove all queues when the process ends."""
        for queue in list(self):
            self.pop(queue)


@dataclass(frozen=True)
class ClientSettings:
    """Settings of one client process."""

    name: str
    config: ConsumerConfig
    subscriptions: dict[str, str]
    """Topic to expression; a CLUSTERING push consumer's retry topic is added. Empty: it subscribes nothing."""
    work: int
    """Microseconds that the listener takes for a batch."""
    commit_interval: int = AUTO_COMMIT_INTERVAL
    """Interval of a lite-pull consumer's commits; milliseconds."""
    clock_offset: int = 0
    """Milliseconds."""
    running_info_code: int = 0
    """The code with which it refuses GET_CONSUMER_RUNNING_INFO; 0: it answers, 207: it is silent."""
    offset_file: OffsetFile = field(default_factory=OffsetFile)
    """Where a BROADCASTING consumer keeps its offsets; it outlives the process."""
    pop: PopSettings | None = None
    """The way in which it pops; None: it pulls."""
    code: GroupCode = field(default_factory=GroupCode)
    """The properties that the listeners of its group that pop have in common."""
    cut_from_name_server: Callable[[], bool] = field(default=lambda: False)


class SimulatedClient:
    """One run of a client process. Implements `Host` and `ClientEnd`."""

    def __init__(self, settings: ClientSettings, brokers: dict[str, Broker], world: World) -> None:
        self.name = settings.name
        self.settings = settings
        self.process = Process(world.scheduler)
        self.clock = Clock(world.scheduler, settings.clock_offset)
        self.start_time = self.clock.now()
        self._world = world
        config = replace(settings.config)
        who = config.group, config.client_id
        self.behaviour = Behaviour(self.process, settings.work, partial(world.truth.consumes, who), self._settle)
        self._connections = Connections(self, brokers, world)
        self.brokers = RemoteBrokers(self, self._connections, config.client_id, world.random)
        self.owned = OwnedQueues(world, who)
        store = (
            RemoteBrokerOffsetStore(self.brokers, config.group)
            if config.clustering
            else LocalFileOffsetStore(settings.offset_file)
        )
        self.consumer = Consumer(config, self.brokers, self, store, process_queue_table=self.owned)
        self.brokers.consumer = self.consumer
        self.service: OrderedConsumption | ConcurrentConsumption
        if config.orderly:
            self.service = OrderedConsumption(self.consumer, OrderedListener(self.behaviour))
        else:
            self.service = ConcurrentConsumption(self.consumer, ConcurrentListener(self.behaviour))
        lite_pull = Reader(self.process, self.consumer, self.brokers, self.behaviour, settings.commit_interval)
        self.reader = lite_pull if config.kind is ConsumerKind.LITE_PULL else None
        self.pops = self._popping(settings.pop) if settings.pop is not None else None
        self.every_step = world.every_step
        self.resting: dict[MessageQueue, QuietQueue] = {}
        self.waiting: dict[MessageQueue, QuietQueue] = {}
        """The queues whose pull waits at its broker, or did so last."""
        self._properties = client_responses.properties(config)
        self.left_out = 0, 0
        """When the last two commits of the timer were left to the queues at rest; microseconds of true time."""
        self._rebalancing = RebalanceService(self.start_time)
        self._wakeup: Promise[None] = Promise()
        self._timer = 0
        self._paced = False
        """True if the thread waits for the end of a second before it rebalances: a wakeup would change nothing."""

    def _popping(self, settings: PopSettings) -> PopService:
        listener = PopListener(self.process, self.settings.work, settings.threads, self.settings.code)
        return PopService(self.process, self.clock, self._connections, listener, settings)

    # The process

    def start(self) -> None:
        """Start the consumer (DefaultMQPushConsumerImpl.start, DefaultLitePullConsumerImpl.start)."""
        now, now_us = self.clock.now(), self._world.scheduler.now
        config = self.consumer.config
        retries = self.settings.subscriptions and config.clustering and self.reader is None
        retry = {config.retry_topic: SUB_ALL} if retries else {}
        for topic, expression in {**self.settings.subscriptions, **retry}.items():
            self.consumer.subscription_inner[topic] = SubscriptionData(topic, expression, TAG, now)
        if self.reader is not None:
            self.process.spawn(self.reader.run())
        elif isinstance(self.service, OrderedConsumption):
            if config.clustering:
                self._every((LOCK_INITIAL_DELAY, LOCK_INTERVAL), partial(self._renew_locks, self.service))
        else:
            timeout = config.consume_timeout * MINUTE
            self._every((timeout, timeout), self.service.clean_expired_messages)
        self._every(POLL_NAME_SERVER, self._update_routes)
        self._every(HEARTBEAT_BROKER, self.brokers.send_heartbeat_to_all_brokers)
        first, period = PERSIST_CONSUMER_OFFSET
        self._persist_at(now_us + first * MS, period * MS)
        self.process.spawn(self._rebalance_thread())
        self.process.spawn(self._begin())

    def shutdown(self) -> None:
        """Stop cleanly (DefaultMQPushConsumerImpl.shutdown)."""
        self.wake()
        self.process.run(lambda: self.process.spawn(self._end()))

    def kill(self) -> None:
        """End the process at once."""
        self.wake()
        self.process.kill()
        self._connections.close()
        self.owned.lose()

    def freeze(self) -> None:
        """Stop the process, as in a long garbage collection."""
        self.wake()
        self.process.freeze()

    def thaw(self) -> None:
        """Continue a frozen process."""
        self._connections.torn()
        self.process.thaw()

    def hang(self, queue_id: int) -> None:
        """Let the listener block."""
        self.wake()
        self.behaviour.hang(queue_id)
        if self.pops is not None:
            self.pops.listener.hang()

    def poison(self, queue_id: int) -> None:
        """Let the listener refuse one message."""
        self.wake()
        if self.pops is not None:
            self.settings.code.poison(queue_id)
        else:
            self.behaviour.poison(queue_id)

    def behave(self) -> None:
        """Let the listener work normally again."""
        self.behaviour.behave()
        if self.pops is not None:
            self.pops.listener.behave()

    # Queues at rest

    def wake(self) -> None:
        """Simulate the queues at rest from now on, before an event that may concern them."""
        for quiet in list(self.resting.values()):
            quiet.wake()

    def catch_up(self) -> None:
        """Bring the queues at rest to the present, before their state is read."""
        for quiet in list(self.resting.values()):
            quiet.catch_up()

    # Requests and notifications of brokers

    def notified(self) -> None:
        """Handle NOTIFY_CONSUMER_IDS_CHANGED."""
        self.rebalance_later(0)

    def running_info(self, reply: Callable[[client_responses.ClientAnswer], None]) -> None:
        """Answer GET_CONSUMER_RUNNING_INFO.

        Memory has the offset of every queue, because it is read before the queue is added; but not of one that a
        BROADCASTING consumer has never consumed.
        """
        if self.settings.running_info_code:
            refusal = client_responses.REFUSALS.get(self.settings.running_info_code)
            if refusal is not None:
                reply(refusal)
            return
        self.catch_up()
        config = self.consumer.config
        offsets = self.consumer.offset_store.clone_offset_table(None)
        reply(
            client_responses.RunningInfo(
                orderly=config.orderly,
                strategy=config.strategy.java_class,
                start_time=self.start_time,
                properties=self._properties,
                subscriptions=client_responses.subscriptions(self.consumer.subscription_inner),
                queues=tuple(client_responses.row(mq, held, offsets.get(mq, -1)) for mq, held in self._reported()),
                pop_queues=pop_client.rows(self.consumer.pop_process_queue_table),
            )
        )

    def _reported(self) -> list[tuple[MessageQueue, CachingProcessQueue]]:
        """Return the queues in its answers; a lite-pull consumer's are those that are assigned, not its rebalance's."""
        if self.reader is None:
            return [(mq, self.owned[mq]) for mq in self.owned.in_order()]
        assigned = self.reader.lite_pull.assigned
        return [(mq, assigned[mq].process_queue) for mq in sorted(assigned, key=queue_order)]

    # Connections

    def connected(self, broker: str) -> None:
        """Send a heartbeat on a new connection, then rebalance."""
        self.process.after(0, lambda: self.process.spawn(self._come_back(broker)))

    def announce(self, broker: Broker, channel: SimulatedChannel) -> None:
        """Send the heartbeat of a connection that the client then abandons."""
        self.brokers.announce(broker, channel)

    # Host

    def now(self) -> int:
        """Return the client's clock; epoch milliseconds."""
        return self.clock.now()

    async def released(self, lock: ConsumeLock, timeout: int | None) -> None:
        """Wait for a lock, or for the timeout (milliseconds)."""
        free: Promise[None] = Promise()
        lock.waiting.append(partial(free.resolve, None))
        if timeout is not None:
            self.process.after(timeout * MS, partial(free.resolve, None))
        await free

    def later(self, delay: int, task: Task) -> None:
        """Run a task on another thread after a delay (milliseconds)."""
        self.process.after(delay * MS, lambda: self.process.spawn(task()))

    def pull_later(self, request: PullRequest, delay: int) -> None:
        """Pass a request to the pull service after a delay (milliseconds)."""
        self.process.after(delay * MS, lambda: self.process.spawn(self._pull(request)))

    def pop_later(self, request: PopRequest, delay: int) -> None:
        """Pop a queue that a broker has assigned."""
        if self.pops is not None:
            self.pops.pop_later(request, delay)

    def rebalance_later(self, delay: int) -> None:
        """Wake the rebalance thread after a delay (milliseconds)."""
        if delay:
            self.process.after(delay * MS, partial(self.rebalance_later, 0))
        elif not self._paced:
            self._rebalancing.wakeup()
            self._wakeup.resolve(None)

    def message_queue_changed(
        self, topic: str, mq_all: AbstractSet[MessageQueue] | None, mq_divided: AbstractSet[MessageQueue]
    ) -> None:
        """Let a lite-pull consumer take over its share; no other consumer here has a MessageQueueListener."""
        if self.reader is not None:
            self.reader.message_queue_changed(topic, mq_all or set(), mq_divided)

    # Threads and timers

    async def _begin(self) -> None:
        """Announce the consumer; a lite-pull consumer waits for its timer, and rebalances when it is notified."""
        await self._update_routes()
        if self.reader is None:
            await self.brokers.send_heartbeat_to_all_brokers()
            self.rebalance_later(0)

    async def _end(self) -> None:
        if isinstance(self.service, OrderedConsumption):
            await self.service.shutdown()
        self.consumer.persist_consumer_offset()
        await self.brokers.unregister()
        self.kill()

    async def _come_back(self, broker: str) -> None:
        if await self.brokers.send_heartbeats([broker]):
            self.rebalance_later(0)

    def _every(self, timer: tuple[int, int], task: Callable[[], Awaitable[None]]) -> None:
        self.process.spawn(self._at_fixed_rate(timer, task))

    async def _at_fixed_rate(self, timer: tuple[int, int], task: Callable[[], Awaitable[None]]) -> None:
        """Run a task at a fixed rate; late runs follow in a burst (ScheduledExecutorService.scheduleAtFixedRate)."""
        first, period = timer
        due = self._world.scheduler.now + first * MS
        while True:
            await self.process.sleep_until(due)
            await task()
            due += period * MS

    async def _rebalance_thread(self) -> None:
        """Run the rebalance thread (RebalanceService.run)."""
        service = self._rebalancing
        while True:
            while service.due > self.clock.now():
                await self._wakeup_or(self.clock.true_time(service.due))
            self._paced = not service.wake(self.clock.now())
            if not self._paced:
                balanced = await rebalance_service.do_rebalance([self.consumer])
                service.done(self.clock.now(), balanced=balanced)

    def _wakeup_or(self, due: int) -> Promise[None]:
        """Wait for a wakeup or a time (microseconds); wakeups before that time share one timer."""
        self._wakeup = Promise()
        if due != self._timer:
            self._timer = due
            self._world.scheduler.at(due, partial(self.process.run, self._time_up))
        return self._wakeup

    def _time_up(self) -> None:
        self._wakeup.resolve(None)

    async def _update_routes(self) -> None:
        """Request the topics' routes from the name server (updateTopicRouteInfoFromNameServer)."""
        await self.process.sleep_until(self._world.scheduler.now + NAME_SERVER_LATENCY)
        if self.settings.cut_from_name_server():
            return
        for topic in self.consumer.subscription_inner:
            route = self._world.name_server.route(topic)
            if route is not None:
                self.consumer.topic_subscribe_info_table[topic] = route  # sorted already, and the same for all

    async def _renew_locks(self, service: OrderedConsumption) -> None:
        began = self.clock.now()
        await service.lock_periodically()
        for queue in list(self.resting):
            process_queue = self.owned[queue]
            if not process_queue.locked or process_queue.last_lock_timestamp < began:
                self.resting[queue].wake()

    def _settle(self, queue: MessageQueue) -> None:
        quiet = self.waiting.get(queue)
        if quiet is not None and not self.every_step:
            self.process.after(0, quiet.settle)

    def _persist_at(self, due: int, period: int) -> None:
        """Commit at a fixed rate; if all queues are at rest, they compute the commits later (`quiet_queue`)."""

        def persist() -> None:
            if len(self.resting) == len(self.owned):
                self.left_out = self.left_out[-1], self._world.scheduler.now
            else:
                self.brokers.persist_all()
            self._persist_at(due + period, period)

        self._world.scheduler.at(due, partial(self.process.run, persist))

    async def _pull(self, request: PullRequest) -> None:
        """Run one round of the pull service (PullMessageService)."""
        pull = await pull_message(self.consumer, request)
        if not isinstance(pull, Pull):
            return
        try:
            result = await self.brokers.pull(QuietQueue(self, request), pull)
        except BrokerError:
            on_pull_error(self.consumer, request, flow_control=False)
        else:
            on_pull_result(self.consumer, request, result, self.service)
