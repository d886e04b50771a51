"""Generate a random scenario of consumers that pop from a seed: beside a classic group, or alone.

Its seeds are numbers of their own: `generator` makes other scenarios of the same ones. A third of them is healthy. The
faults are those of the recording (`tests/field/test_popped_queues.py`).
"""

import random

from simulation.scenario import Scenario
from tests.detection.builder import SETTLED, Action, ScenarioBuilder
from tests.detection.generator import is_healthy

PROXIED = ("PUSH", "FIFO", "SIMPLE")


def _of(builder: ScenarioBuilder, *kinds: str) -> dict[str, object] | None:
    """Draw a group of one of these kinds."""
    groups = [group for group in builder.groups if group.get("pops", "") in kinds]
    return builder.rng.choice(groups) if groups else None


def _on_member(kind: str, durations: tuple[float, ...], *kinds: str, **fields: object) -> Action:
    """Return an action on one member of a group of one of these kinds."""

    def act(builder: ScenarioBuilder) -> float:
        group = _of(builder, *kinds)
        if group is None:
            return 0
        lasts = builder.rng.choice(durations) * builder.rng.uniform(0.9, 1.1)
        builder.add_step(kind, lasts, who=builder.rng.choice(builder.members(group)), **fields)
        return lasts + 60

    return act


def _all(kind: str, lasts: float, *kinds: str, **fields: object) -> Action:
    """Return an action on all members of a group of one of these kinds."""

    def act(builder: ScenarioBuilder) -> float:
        group = _of(builder, *kinds)
        for number, who in enumerate(builder.members(group) if group is not None else ()):
            builder.add_step(kind, lasts, who=who, after=number * 0.5, **fields)
        return lasts + 60 if group is not None else 0

    return act


def _one_pulls(builder: ScenarioBuilder) -> float:
    """One member pulls what the others pop (clientRebalance)."""
    group = _of(builder, "REMOTING")
    if group is None:
        return 0
    builder.add_step("join", 150, who=builder.newcomer(group), group=group["name"], pops="")
    return 240


def _clock_behind(builder: ScenarioBuilder) -> float:
    """A member whose clock is behind: the broker refuses each of its POPs."""
    group = _of(builder, "REMOTING")
    if group is None:
        return 0
    builder.add_step("join", 120, who=builder.newcomer(group), group=group["name"], clock_offset_ms=-20_000)
    return 180


def _join(builder: ScenarioBuilder) -> float:
    group = builder.group()
    builder.add_step("join", builder.rng.choice([60, 120]), who=builder.newcomer(group), group=group["name"])
    return 150


def _leave(builder: ScenarioBuilder) -> float:
    builder.add_step("leave", lasts := builder.rng.uniform(5, 40), who=builder.member())
    return lasts + 30


def _roll_out(builder: ScenarioBuilder) -> float:
    group = builder.group()
    builder.add_step("rollout", group=group["name"], every=30, down=builder.rng.uniform(3, 15))
    return 30 * float(str(group["consumers"])) + 30


def _broker_restart(builder: ScenarioBuilder) -> float:
    broker = builder.rng.choice(builder.brokers)["name"]
    builder.add_step("stop-broker", lasts := builder.rng.choice([5, 40]), broker=broker)
    return lasts + 90


def _hook_disk_full(builder: ScenarioBuilder) -> float:
    builder.add_step("hook-full", 60, broker=builder.rng.choice(builder.brokers)["name"])
    return 120


def _collector_down(builder: ScenarioBuilder) -> float:
    builder.add_step("collector-away", 60)
    return 120


HEALTHY: dict[str, Action] = {"join": _join, "leave": _leave, "rollout": _roll_out}
FAULTS: dict[str, Action] = {
    "one hangs": _on_member("hang", (90, 160), "REMOTING"),
    "all hang": _all("hang", 120, "REMOTING"),
    "poison": _on_member("poison", (150,), "REMOTING", "PUSH"),
    "slow": _on_member("slow", (100,), "REMOTING", listener_ms=25_000),
    "kill": _on_member("kill", (40, 120, 200), "REMOTING", *PROXIED),
    "freeze": _on_member("freeze", (30, 60, 100), "REMOTING", *PROXIED),
    "one pulls": _one_pulls,
    "clock behind": _clock_behind,
    "all gone": _all("kill", 150, "REMOTING", *PROXIED),
    "hung behind a proxy": _on_member("hang", (150, 200), "PUSH", "FIFO"),
    "poison in order": _on_member("poison", (150,), "FIFO"),
    "no ack": _on_member("no-ack", (60,), "SIMPLE"),
    "broker restart": _broker_restart,
    "hook's disk full": _hook_disk_full,
    "collector down": _collector_down,
}


def _disable_consume(builder: ScenarioBuilder) -> float:
    """An operator forbids a group to consume: each of its POPs is refused."""
    if (group := _of(builder, "REMOTING", *PROXIED)) is None:
        return 0
    builder.add_step("disable-consume", 120, group=group["name"])
    return 180


def _partition(builder: ScenarioBuilder) -> float:
    group = _of(builder, "REMOTING")
    if group is None:
        return 0
    broker = builder.rng.choice([*(one["name"] for one in builder.brokers), ""])
    lasts = builder.rng.choice([20, 60, 200])
    builder.add_step("partition", lasts, who=builder.rng.choice(builder.members(group)), broker=broker)
    return lasts + 150


def _flapping_member(builder: ScenarioBuilder) -> float:
    who = builder.rng.choice(builder.members(builder.group()))
    for number in range(5):
        builder.add_step("kill", 12, who=who, after=number * 30)
    return 200


def _topic_created_again(builder: ScenarioBuilder) -> float:
    """A popped topic is deleted and created again: its offsets begin at 0."""
    topics = [one["name"] for one in builder.topics if one["name"] != "ClassicTopic"]
    builder.add_step("delete-topic", builder.rng.choice([15, 60]), topic=builder.rng.choice(topics))
    return 200


def _more_queues(builder: ScenarioBuilder) -> float:
    builder.add_step("add-queues", topic=builder.rng.choice(builder.topics)["name"], queues=2)
    return 120


LATER_FAULTS: dict[str, Action] = {
    "consume disabled": _disable_consume,
    "partition": _partition,
    "flapping member": _flapping_member,
    "topic created again": _topic_created_again,
    "more queues": _more_queues,
}
"""Faults that were added later: only seeds from `LATER_FROM` on have them, and what the others draw stays as it was."""
LATER_FROM = 500


def scenario_of(seed: int) -> Scenario:
    """Return the scenario of a seed, always the same one."""
    builder = ScenarioBuilder(random.Random(f"popped {seed}"))
    _add_cluster(builder, seed)
    actions = HEALTHY if is_healthy(seed) else FAULTS if seed < LATER_FROM else FAULTS | LATER_FAULTS
    count = builder.rng.choice([0, 1, 1, 2] if is_healthy(seed) else [1, 1, 2])
    names: list[str] = []
    for name in builder.rng.sample(list(actions), len(actions)):
        if len(names) < count and (lasts := actions[name](builder)):
            builder.now += lasts + builder.rng.choice([SETTLED, 30])
            names.append(name)
    return builder.scenario(names)


def _add_cluster(builder: ScenarioBuilder, seed: int) -> None:
    """Add brokers, and a group of each of some kinds with a topic of its own."""
    rng = builder.rng
    for name in ["broker-a", "broker-b"][: rng.choice([1, 1, 2])]:
        builder.brokers.append({"name": name, "clock_offset_ms": rng.choice([0, 0, rng.randint(-2000, 2000)])})
    kinds = ["REMOTING"] if rng.random() < 0.6 else []
    kinds += [rng.choice(PROXIED)] if rng.random() < 0.6 or not kinds else []
    kinds += [""] if rng.random() < 0.3 else []
    for kind in kinds:
        _add_group(builder, kind, is_shared=not is_healthy(seed))


def _add_group(builder: ScenarioBuilder, pops: str, *, is_shared: bool) -> None:
    """Add a group.

    Where each member pops a share of the queues, a rebalance loses the messages of the POPs that wait for those that it
    gives up (RocketMQ's issue 8686): of a group with few messages most come back then, which no healthy run may show.
    """
    rng = builder.rng
    name, topic = f"{pops.lower() or 'classic'}", f"{pops.title() or 'Classic'}Topic"
    queues = rng.choice([4, 4, 8])
    rate = round(queues * len(builder.brokers) * rng.choice([0.1, 0.3, 0.5]), 3)
    builder.topics.append({"name": topic, "queues": queues, "messages_per_second": rate})
    group: dict[str, object] = {"name": name, "topics": [topic], "consumers": rng.randint(1 + (not pops), 3)}
    if pops:
        group |= {"pops": pops, "threads": rng.choice([4, 20]), "invisible_ms": rng.choice([20_000, 60_000])}
        group |= {
            "pop_share_queues": rng.choice([-1, -1, 1]) if is_shared else -1,
            "listener_ms": rng.choice([5, 50, 200]),
        }
    else:
        group |= {"ordered": rng.random() < 0.5, "listener_ms": 5}
    builder.groups.append(group)
