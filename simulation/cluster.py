"""The simulated cluster that a scenario describes, and its time."""

from collections.abc import Callable
from functools import partial

from rebalance_model.allocation import strategy
from rebalance_model.allocation.server_side import RequestMode
from rebalance_model.entities import MessageQueue, queue_order
from simulation.broker import Broker
from simulation.client import ClientSettings, SimulatedClient
from simulation.emitter import Sink
from simulation.hook_collector import HookCollector
from simulation.message_log import MessageLog, SteadyLog
from simulation.name_server import NameServer
from simulation.network import Network
from simulation.poll_collector import PollCollector
from simulation.pop.client import PopSettings
from simulation.pop.listener import GroupCode
from simulation.pop.proxied_client import ProxiedSettings, SimulatedProxiedClient
from simulation.pop.proxy import Proxy
from simulation.process import ProcessState
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupConfig
from simulation.rocketmq.client.consumer_config import ConsumerConfig, ConsumerKind, MessageModel
from simulation.scenario import ConsumerSpec, GroupSpec, Scenario, ScenarioError, TopicSpec
from simulation.scheduler import MS, SECOND, Clock, Scheduler
from simulation.shared_strategy import SharedStrategy
from simulation.splitmix import SplitMix64
from simulation.truth import Truth
from simulation.world import World

START = 1_800_000_000_000
"""When every scenario begins; epoch milliseconds."""
BROKERS_FIRST = 2 * SECOND
"""The delay of consumers and collectors after the brokers; microseconds."""
NAME_SERVER = "name server"


class SimulatedCluster:
    """A cluster that runs a scenario; `story` applies the scenario's steps to it."""

    def __init__(self, scenario: Scenario, seed: int, sink: Sink, *, hook: bool = True, poll: bool = True) -> None:
        scheduler, random = Scheduler(START * MS), SplitMix64(seed)
        self.world = World(scheduler, random, Network(scheduler, random), NameServer(), Truth())
        self.scenario = scenario
        self.brokers = {
            one.name: Broker(one.name, Clock(scheduler, one.clock_offset_ms), self.world) for one in scenario.brokers
        }
        self.clients: dict[str, SimulatedClient] = {}
        self.proxied: dict[str, SimulatedProxiedClient] = {}
        """The clients of the proxy."""
        self.proxy = Proxy("127.0.0.1%8080%8081", self.brokers, self.world)
        self.collector: PollCollector | None = None
        self.collector_clock = Clock(scheduler)
        self.groups = {group.name: group for group in scenario.groups}
        self.topics = {topic.name: topic for topic in scenario.topics}
        self._strategies = {
            name: SharedStrategy(strategy(name)) for name in ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")
        }
        self._code = {group.name: GroupCode() for group in scenario.groups}
        for topic in scenario.topics:
            self.set_queues(topic.name, topic.queues)
        for spec, broker in zip(scenario.brokers, self.brokers.values(), strict=True):
            broker.hook = HookCollector(sink, sees_sends=not spec.async_send_enable) if hook else broker.hook
            scheduler.after(random.between(1, SECOND), broker.start)
        for group in scenario.groups:
            self._start_group(group)
        if any(group.pops not in ("", "REMOTING") for group in scenario.groups):
            self.proxy.start()
        brokers = list(self.brokers.values())
        self._poll = partial(PollCollector, self.world, self.collector_clock, brokers, list(self.groups), sink)
        if poll:
            scheduler.after(BROKERS_FIRST, self.start_collector)

    @property
    def seconds(self) -> float:
        """Seconds since the start of the scenario."""
        return self.world.scheduler.now / SECOND - START / 1000

    def run_until(self, seconds: float) -> None:
        """Advance the time to `seconds` after the start."""
        self.world.scheduler.run_until(START * MS + round(seconds * SECOND))
        for client in self.clients.values():
            client.catch_up()

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        """Call a function at `seconds` after the start."""
        self.world.scheduler.at(START * MS + round(seconds * SECOND), call)

    def end(self) -> None:
        """Stop the collectors cleanly, the hooks in the brokers included: each sends its last tick."""
        if self.collector is not None:
            self.collector.end()
        for broker in self.brokers.values():
            if broker.up:
                broker.hook.stopped()

    def owners(self, group: str) -> dict[MessageQueue, list[str]]:
        """Return the true owners of each queue, as consumer names; the retry topic is left out."""
        owners: dict[MessageQueue, list[str]] = {}
        for name, client in sorted(self.clients.items()):
            for queue in client.owned if client.consumer.config.group == group else ():
                owners.setdefault(queue, []).append(name)
        return {queue: owners[queue] for queue in sorted(owners, key=queue_order) if not queue.is_retry}

    def start_client(self, name: str, group: GroupSpec, spec: ConsumerSpec | None = None) -> None:
        """Start a consumer of a group, with the group's settings unless others are given.

        Raises:
            ScenarioError: it runs already.
        """
        known = self.clients.get(name) or self.proxied.get(name)
        if known is not None and known.process.state is not ProcessState.DEAD:
            raise ScenarioError(f"{name} runs already at {self.seconds:.0f} s")
        spec = spec or group
        if spec.pops in ("", "REMOTING"):
            self._start(self._settings(name, group, spec))
        else:
            self._start(self._proxied_settings(name, group, spec))

    def start_again(self, name: str) -> None:
        """Start a consumer that has ended, with its former settings."""
        old = self.clients[name] if name in self.clients else self.proxied[name]
        if old.process.state is ProcessState.DEAD:  # else it could not even be ended
            self._start(old.settings)

    def _start(self, settings: ClientSettings | ProxiedSettings) -> None:
        if isinstance(settings, ProxiedSettings):
            proxied = self.proxied[settings.name] = SimulatedProxiedClient(
                settings, self.proxy, list(self.brokers), self.world
            )
            proxied.start()
            return
        client = self.clients[settings.name] = SimulatedClient(settings, self.brokers, self.world)
        client.start()

    def client(self, name: str) -> SimulatedClient | SimulatedProxiedClient:
        """Return a consumer that runs, frozen or not.

        Raises:
            ScenarioError: there is none of that name.
        """
        client = self.clients.get(name) or self.proxied.get(name)
        if client is None or client.process.state is ProcessState.DEAD:
            raise ScenarioError(f"no consumer {name} runs at {self.seconds:.0f} s")
        return client

    def broker(self, name: str) -> Broker:
        """Return a broker that is up.

        Raises:
            ScenarioError: it is down.
        """
        if not self.brokers[name].up:
            raise ScenarioError(f"{name} is down at {self.seconds:.0f} s")
        return self.brokers[name]

    def start_collector(self) -> None:
        """Start a poll collector; its first round begins now."""
        self.collector = self._poll()

    def set_queues(self, topic: str, queues: int) -> None:
        """Set a topic's number of queues on each broker."""
        for place, broker in enumerate(self.brokers.values()):
            broker.add_queues(topic, queues, partial(self._log, self.topics[topic], place))

    def _log(self, topic: TopicSpec, place: int, queue_id: int) -> MessageLog:
        """Return the messages of a new queue: its share of the topic's rate, in turn with the other queues."""
        if not topic.messages_per_second:
            return SteadyLog(0, None)
        period = round(SECOND * topic.queues * len(self.brokers) / topic.messages_per_second)
        turn = queue_id * len(self.brokers) + place
        phase = turn * period // (topic.queues * len(self.brokers)) + self.world.random.between(0, MS)
        return SteadyLog(self.world.scheduler.now + BROKERS_FIRST + phase, period)

    def _start_group(self, group: GroupSpec) -> None:
        for broker in self.brokers.values() if group.pops else ():
            if group.pops == "REMOTING":
                for topic in group.topics:
                    broker.assignments.message_request_modes[topic, group.name] = RequestMode(
                        "POP", group.pop_share_queues
                    )
            else:
                config = SubscriptionGroupConfig(group.name, consume_message_orderly=group.pops == "FIFO")
                broker.groups.update_subscription_group_config(config)
        for number in range(1, group.consumers + 1):
            delay = BROKERS_FIRST + self.world.random.between(0, round(group.start_within * SECOND))
            name = f"{group.called or group.name}-{number}"
            self.world.scheduler.after(delay, partial(self.start_client, name, group))

    def _settings(self, name: str, group: GroupSpec, spec: ConsumerSpec) -> ClientSettings:
        config = ConsumerConfig(
            group=group.name,
            client_id=f"127.0.0.1@{spec.client_id or name}",
            orderly=spec.ordered and not spec.lite_pull,
            strategy=self._strategies[spec.strategy],
            pull_interval=spec.pull_interval_ms,
            max_reconsume_times=spec.max_reconsume_times,
            message_model=MessageModel(spec.message_model),
            kind=_kind(spec),
            client_rebalance=not spec.pops,
        )
        return ClientSettings(
            name=name,
            config=config,
            subscriptions=dict.fromkeys(() if spec.pull_client else spec.topics, spec.expression),
            work=round(spec.listener_ms * MS),
            commit_interval=spec.commit_interval_ms,
            clock_offset=spec.clock_offset_ms,
            running_info_code=spec.running_info_code,
            pop=PopSettings(group.name, spec.invisible_ms, spec.threads) if spec.pops else None,
            code=self._code[group.name],
            cut_from_name_server=lambda: self.world.network.is_cut(name, NAME_SERVER),
        )

    def _proxied_settings(self, name: str, group: GroupSpec, spec: ConsumerSpec) -> ProxiedSettings:
        return ProxiedSettings(
            name=name,
            group=group.name,
            client_id=f"{spec.client_id or name}@1@proxied",
            topics=spec.topics,
            kind="FIFO" if spec.pops == "FIFO" else "SIMPLE" if spec.pops == "SIMPLE" else "PUSH",
            work=round(spec.listener_ms * MS),
            threads=spec.threads,
            invisible_ms=spec.invisible_ms,
            code=self._code[group.name],
        )


def _kind(spec: ConsumerSpec) -> ConsumerKind:
    if spec.lite_pull:
        return ConsumerKind.LITE_PULL
    return ConsumerKind.PULL if spec.pull_client else ConsumerKind.PUSH
