"""Apply a scenario's steps to its cluster; the truth records each with its start and end."""

from collections.abc import Callable
from functools import partial

import msgspec

from simulation.client import SimulatedClient
from simulation.cluster import NAME_SERVER, SimulatedCluster
from simulation.listener import ANY
from simulation.pop.proxied_client import SimulatedProxiedClient
from simulation.process import ProcessState
from simulation.rocketmq.broker.subscription_group_config import SubscriptionGroupConfig
from simulation.scenario import (
    AddQueues,
    AnyStep,
    CollectorAway,
    ConsumerSpec,
    DeleteGroup,
    DeleteTopic,
    DisableConsume,
    Freeze,
    Hang,
    HookFull,
    Join,
    Kill,
    Leave,
    LoseNotifications,
    NetworkPartition,
    NoAck,
    Poison,
    RefuseHeartbeats,
    Rollout,
    Scenario,
    ScenarioError,
    SetClock,
    Slow,
    StopBroker,
)
from simulation.scheduler import MS

Undo = Callable[[], object]
COLLECTOR = "collector"


def check(scenario: Scenario) -> None:
    """Check that a scenario's steps name only its own groups, topics and brokers.

    Raises:
        ScenarioError: it names a group, topic or broker that the scenario has not.
    """
    names_by_kind = {
        "group": {group.name for group in scenario.groups},
        "topic": {topic.name for topic in scenario.topics},
        "broker": {broker.name for broker in scenario.brokers} | {""},
    }
    named = [("topic", topic, names_by_kind["topic"]) for group in scenario.groups for topic in group.topics]
    for step in scenario.story:
        also = {NAME_SERVER} if isinstance(step, NetworkPartition) else set()
        named += [
            (kind, getattr(step, kind), names | also) for kind, names in names_by_kind.items() if hasattr(step, kind)
        ]
        if isinstance(step, Join):
            named += [("topic", topic, names_by_kind["topic"]) for topic in step.topics or ()]
        if isinstance(step, SetClock):
            named.append(("broker", step.of, names_by_kind["broker"] | {COLLECTOR}))
    for kind, name, names in named:
        if name not in names:
            raise ScenarioError(f"there is no {kind} {name!r}: {', '.join(sorted(names - {''}))}")


def schedule(cluster: SimulatedCluster) -> None:
    """Schedule the scenario's steps."""
    for step in cluster.scenario.story:
        cluster.at(step.at, partial(do, cluster, step))


def do(cluster: SimulatedCluster, step: AnyStep) -> Undo:
    """Apply a step now; return the function that undoes it, which is called automatically when the step's time is over.

    Raises:
        ScenarioError: it can't be done to the cluster as it is.
    """
    kind = str(type(step).__struct_config__.tag)
    fault = cluster.world.truth.fault(cluster.world.true_ms, kind, step.subject)
    undo = _apply_step(cluster, step)

    def end() -> None:
        if fault.end is None:
            fault.end = cluster.world.true_ms
            undo()

    if isinstance(step, Rollout):
        fault.end = cluster.world.true_ms
    elif step.lasts is not None:
        cluster.at(cluster.seconds + step.lasts, end)
    return end


def _apply_step(cluster: SimulatedCluster, step: AnyStep) -> Undo:
    undo: Undo
    match step:
        case Join():
            undo = _join(cluster, step)
        case Leave() | Kill() | Freeze() | Hang() | Poison() | Slow() | NoAck():
            undo = _do_to_client(cluster, step)
        case NetworkPartition():
            undo = _partition(cluster, step)
        case AddQueues() | DeleteTopic():
            undo = _change_topic(cluster, step)
        case StopBroker():
            broker = cluster.broker(step.broker)
            broker.stop()
            undo = broker.start
        case DisableConsume() | RefuseHeartbeats() | DeleteGroup() | LoseNotifications():
            undo = _do_to_brokers(cluster, step)
        case HookFull():
            hook = cluster.brokers[step.broker].hook
            hook.disk(full=True)
            undo = partial(hook.disk, full=False)
        case SetClock():
            undo = _set_clock(cluster, step)
        case CollectorAway():
            undo = _send_collector_away(cluster)
        case _:
            undo = _roll_out(cluster, step)
    return undo


def _join(cluster: SimulatedCluster, step: Join) -> Undo:
    group = cluster.groups[step.group]
    names = ConsumerSpec.__struct_fields__
    own = {name: value for name in names if (value := getattr(step, name, None)) is not None}
    cluster.start_client(step.who, group, msgspec.structs.replace(group, **own))
    return lambda: cluster.client(step.who).shutdown()


def _do_to_client(cluster: SimulatedCluster, step: Leave | Kill | Freeze | Hang | Poison | Slow | NoAck) -> Undo:
    client = cluster.client(step.who)
    match step:
        case Leave():
            client.shutdown()
        case Kill():
            client.kill()
        case Freeze():
            client.freeze()
            return client.thaw
        case Hang():
            client.hang(ANY if step.queue is None else step.queue)
            return client.behave
        case Slow() | NoAck():
            return _change_listener(cluster, step)
        case _:
            client.poison(ANY if step.queue is None else step.queue)
            return client.behave
    return partial(cluster.start_again, step.who)


def _change_listener(cluster: SimulatedCluster, step: Slow | NoAck) -> Undo:
    client = cluster.client(step.who)
    pops = client if isinstance(client, SimulatedProxiedClient) else client.pops
    if pops is None:
        raise ScenarioError(f"{step.who} does not pop")
    listener = pops.listener
    if isinstance(step, Slow):
        listener.work = round(step.listener_ms * MS)
    else:
        listener.acknowledges = False
    return client.behave


def _partition(cluster: SimulatedCluster, step: NetworkPartition) -> Undo:
    network = cluster.world.network
    ends = [step.broker] if step.broker else [*cluster.brokers, NAME_SERVER]
    for end in ends:
        network.cut(step.who, end)

    def heal() -> None:
        for end in ends:
            network.heal(step.who, end)

    return heal


def _change_topic(cluster: SimulatedCluster, step: AddQueues | DeleteTopic) -> Undo:
    before = next(iter(cluster.brokers.values())).topics[step.topic]
    if isinstance(step, AddQueues):
        cluster.set_queues(step.topic, before + step.queues)
    else:
        for broker in cluster.brokers.values():
            broker.delete_topic(step.topic)
    return partial(cluster.set_queues, step.topic, before)


def _do_to_brokers(
    cluster: SimulatedCluster, step: DisableConsume | RefuseHeartbeats | DeleteGroup | LoseNotifications
) -> Undo:
    match step:
        case DisableConsume():
            return _disable_consume(cluster, step.group)
        case RefuseHeartbeats():
            return _refuse_heartbeats(cluster, step.group)
        case DeleteGroup():
            return _delete_group(cluster, step)
        case _:
            return _lose_notifications(cluster, step.share)


def _refuse_heartbeats(cluster: SimulatedCluster, group: str) -> Undo:
    for broker in cluster.brokers.values():
        broker.refused_heartbeats[group] = cluster.world.true_ms

    def accept() -> None:
        for broker in cluster.brokers.values():
            broker.refused_heartbeats.pop(group, None)

    return accept


def _delete_group(cluster: SimulatedCluster, step: DeleteGroup) -> Undo:
    broker = cluster.brokers[step.broker]
    groups = broker.groups
    for group in cluster.groups:
        groups.find_subscription_group_config(group)  # which creates it
    groups.config = msgspec.structs.replace(groups.config, auto_create_subscription_group=False)
    if broker.up:
        broker.pulls.wake(step.group)
    groups.delete_subscription_group_config(step.group)
    return partial(groups.update_subscription_group_config, SubscriptionGroupConfig(step.group))


def _disable_consume(cluster: SimulatedCluster, group: str) -> Undo:
    def enable(*, consume: bool) -> None:
        for broker in cluster.brokers.values():
            broker.pulls.wake(group)
            config = broker.groups.find_subscription_group_config(group) or SubscriptionGroupConfig(group)
            config.consume_enable = consume
            broker.groups.update_subscription_group_config(config)

    enable(consume=False)
    return partial(enable, consume=True)


def _lose_notifications(cluster: SimulatedCluster, share: float) -> Undo:
    def lose(share: float) -> None:
        for broker in cluster.brokers.values():
            broker.notify_loss = share

    lose(share)
    return partial(lose, 0.0)


def _send_collector_away(cluster: SimulatedCluster) -> Undo:
    if cluster.collector is None:
        raise ScenarioError(f"no collector runs at {cluster.seconds:.0f} s")
    cluster.collector.stop()
    cluster.collector = None
    return cluster.start_collector


def _set_clock(cluster: SimulatedCluster, step: SetClock) -> Undo:
    def set_by(by: int) -> None:
        if step.of != COLLECTOR:
            cluster.brokers[step.of].hook.set_clock(by)
        elif cluster.collector is not None:
            cluster.collector.set_clock(by)
        else:
            cluster.collector_clock.set(by)  # it starts later

    set_by(step.by_ms)
    return partial(set_by, -step.by_ms)


def _roll_out(cluster: SimulatedCluster, step: Rollout) -> Undo:
    consumers: list[SimulatedClient | SimulatedProxiedClient] = [*cluster.clients.values(), *cluster.proxied.values()]
    clients = [client for client in consumers if client.process.state is not ProcessState.DEAD]
    members = [client.name for client in clients if client.settings.config.group == step.group]
    for number, name in enumerate(members):
        leave = Leave(at=0, who=name, lasts=step.down)
        cluster.at(cluster.seconds + number * step.every, partial(do, cluster, leave))
    return lambda: None
