"""A seed becomes a scenario: a cluster, and what happens to it, as it may happen to somebody's.

A third of the seeds are healthy: members come and go cleanly, versions are rolled out, topics grow. In the others one
or two faults follow one another, each with the time that it takes in reality and time to settle after it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from rebalance_model.simulation import scenario, story
from rebalance_model.simulation.scenario import Scenario

SETTLED = 90
"""Seconds until a cluster has settled after its start; and after a fault, as often as not."""


@dataclass
class Telling:
    """A scenario in the making."""

    rng: random.Random
    brokers: list[dict[str, object]] = field(default_factory=list)
    topics: list[dict[str, object]] = field(default_factory=list)
    groups: list[dict[str, object]] = field(default_factory=list)
    steps: list[dict[str, object]] = field(default_factory=list)
    now: float = SETTLED
    gone: set[str] = field(default_factory=set)
    """Members that have left for good."""
    joined: int = 0

    def members(self, group: dict[str, object]) -> list[str]:
        """Who is there from the start, and still is."""
        names = [f"{group['name']}-{number}" for number in range(1, int(str(group["consumers"])) + 1)]
        return [name for name in names if name not in self.gone]

    def group(self) -> dict[str, object]:
        return self.rng.choice(self.groups)

    def member(self) -> str:
        groups = [group for group in self.groups if len(self.members(group)) > 0]
        return self.rng.choice(self.members(self.rng.choice(groups)))

    def do(self, kind: str, lasts: float | None = None, *, after: float = 0, **what: object) -> None:
        """Add a step; time goes on to its end."""
        step = {"at": round(self.now + after, 3), "do": kind, **what}
        self.steps.append(step if lasts is None else {**step, "lasts": round(lasts, 3)})

    def newcomer(self, group: dict[str, object]) -> str:
        """A name of a client that is not there yet: it may sort before or after the others."""
        self.joined += 1
        return f"{group['name']}-{self.rng.choice('0x')}{self.joined}"

    def ordered_group(self, per_second: float) -> dict[str, object]:
        """A group, made ordered; each of its queues gets so many messages a second."""
        group = self.group()
        group["ordered"] = True
        for topic in self.topics:
            if topic["name"] in _topics(group):
                topic["messages_per_second"] = int(str(topic["queues"])) * len(self.brokers) * per_second
        return group


Happening = Callable[[Telling], float]
"""Adds its steps, and returns how long it takes."""


def _join(t: Telling) -> float:
    group = t.group()
    t.do("join", t.rng.choice([None, 120]), who=t.newcomer(group), group=group["name"])
    return 150


def _leave(t: Telling) -> float:
    lasts, who = t.rng.uniform(5, 120), t.member()
    if _of(t, who) == [who]:
        lasts = min(lasts, 40)  # for longer it would be a group without anybody, whose messages wait
    t.do("leave", lasts, who=who)
    return lasts


def _leave_for_good(t: Telling) -> float:
    who = t.member()
    if sum(len(t.members(group)) for group in t.groups) > len(t.groups) and len(_of(t, who)) > 1:
        t.gone.add(who)
        t.do("leave", who=who)
    return 30


def _roll_out(t: Telling) -> float:
    group, every = t.group(), t.rng.uniform(20, 60)
    if t.gone:
        return 0  # who is gone would have to be left out
    t.do("rollout", group=group["name"], every=every, down=t.rng.uniform(3, min(15, every - 5)))
    return every * int(str(group["consumers"]))


def _scale_out(t: Telling) -> float:
    group = t.group()
    for number in range(t.rng.randint(1, 3)):
        t.do("join", who=t.newcomer(group), group=group["name"], after=number * t.rng.uniform(0.1, 8))
    return 60


def _add_queues(t: Telling) -> float:
    t.do("add-queues", topic=t.rng.choice(t.topics)["name"], queues=t.rng.randint(1, 6))
    return 90


HEALTHY: dict[str, Happening] = {
    "join": _join,
    "leave": _leave,
    "leave for good": _leave_for_good,
    "rollout": _roll_out,
    "scale out": _scale_out,
    "add queues": _add_queues,
}


def _kill(t: Telling) -> float:
    t.do("kill", lasts := t.rng.choice([5, 40, 100, 200]), who=t.member())
    return lasts


def _freeze(t: Telling) -> float:
    t.do("freeze", lasts := t.rng.choice([8, 25, 45, 90, 160, 250]) * t.rng.uniform(0.8, 1.2), who=t.member())
    return lasts + (150 if lasts > 100 else 0)


def _hang(t: Telling) -> float:
    t.do("hang", lasts := t.rng.choice([40, 130, 220]), who=t.member())
    return lasts


def _hang_and_lose(t: Telling) -> float:
    """A listener hangs, and members join meanwhile: the queue has to be given up and can't, for up to 40 s."""
    group = t.ordered_group(t.rng.choice([0.2, 0.5]))
    t.do("hang", 200, who=t.rng.choice(t.members(group)))
    t.do("join", 160, who=t.newcomer(group), group=group["name"], after=20)
    t.do("join", 120, who=t.newcomer(group), group=group["name"], after=t.rng.uniform(33, 38))
    return 220


def _hang_and_get_back(t: Telling) -> float:
    """A member joins, and leaves before the queue could be given up: it is the first one's once more."""
    group = t.ordered_group(0.5)
    t.do("hang", 220, who=t.rng.choice(t.members(group)))
    t.do("join", t.rng.uniform(6, 22), who=t.newcomer(group), group=group["name"], after=t.rng.uniform(5, 25))
    return 280


def _poison(t: Telling) -> float:
    t.do("poison", lasts := t.rng.choice([40, 140, 200]), who=t.member())
    return lasts


def _slow_pull(t: Telling) -> float:
    group = t.group()
    t.do("join", 320, who=t.newcomer(group), group=group["name"], pull_interval_ms=150_000)
    return 320


def _slow_listener(t: Telling) -> float:
    """More messages come than it consumes."""
    group = t.ordered_group(0.5)
    lasts = t.rng.uniform(430, 500)
    t.do("join", lasts, who=t.newcomer(group), group=group["name"], listener_ms=t.rng.choice([5_000, 8_000]))
    return lasts + 30


def _old_commit(t: Telling) -> float:
    """A member sleeps, and commits where it was over what its heir has consumed: a long way, at a slow listener."""
    group = t.ordered_group(0.5)
    group["ordered"], group["listener_ms"] = t.rng.random() < 0.5, 1_000
    t.do("freeze", lasts := t.rng.uniform(200, 260), who=t.rng.choice(t.members(group)))
    return lasts + 120


def _one_broker_away(t: Telling) -> float:
    """One of two brokers is out of reach for one member, until that one forgets it."""
    if len(t.brokers) < 2:
        t.brokers.append({"name": "broker-b"})
    t.do("partition", lasts := t.rng.uniform(320, 360), who=t.member(), broker=t.rng.choice(t.brokers)["name"])
    return lasts + 60


def _same_id(t: Telling) -> float:
    """A new process has the client id of another one."""
    group = t.group()
    other = t.rng.choice(t.members(group))
    t.do("join", 320, who=t.newcomer(group), group=group["name"], client_id=other)
    return 360


def _partition(t: Telling) -> float:
    broker = t.rng.choice([*(str(one["name"]) for one in t.brokers), ""])
    t.do("partition", lasts := t.rng.choice([15, 60, 90, 200]), who=t.member(), broker=broker)
    return lasts + (150 if lasts > 100 else 0)


def _no_name_server(t: Telling) -> float:
    """One client does not hear of the new queues."""
    who = t.member()
    group = next(group for group in t.groups if who in t.members(group))
    t.do("partition", 250, who=who, broker="name server")
    t.do("add-queues", topic=t.rng.choice(list(_topics(group))), queues=t.rng.randint(2, 6), after=10)
    return 300


def _none_has_name_server(t: Telling) -> float:
    """None of a group hears of the new queues."""
    group = t.group()
    for who in t.members(group):
        t.do("partition", 270, who=who, broker="name server")
    t.do("add-queues", topic=t.rng.choice(list(_topics(group))), queues=t.rng.randint(2, 6), after=10)
    return 320


def _stop_broker(t: Telling) -> float:
    broker = t.rng.choice(t.brokers)["name"]
    t.do("stop-broker", lasts := t.rng.choice([5, 15, 40, 90]), broker=broker)
    return lasts + 60


def _lose_notifications(t: Telling) -> float:
    t.do("lose-notifications", 180, share=t.rng.choice([0.3, 1]))
    group = t.group()
    t.do("join", who=t.newcomer(group), group=group["name"], after=10)
    t.do("leave", 60, who=t.member(), after=70)
    return 200


def _strategy_mistake(t: Telling) -> float:
    group = t.group()
    strategy = "AVG" if group["strategy"] == "AVG_BY_CIRCLE" else "AVG_BY_CIRCLE"
    t.do("join", lasts := t.rng.choice([100, 260]), who=t.newcomer(group), group=group["name"], strategy=strategy)
    return lasts


def _mode_mistake(t: Telling) -> float:
    group = t.group()
    t.do("join", 120, who=t.newcomer(group), group=group["name"], ordered=not group["ordered"])
    return 120


def _topic_mistake(t: Telling) -> float:
    group = t.group()
    other = [str(topic["name"]) for topic in t.topics if topic["name"] not in _topics(group)]
    topics = [*_topics(group), *other[:1]] if other else list(_topics(group))[:1]
    t.do("join", lasts := t.rng.choice([60, 260]), who=t.newcomer(group), group=group["name"], topics=topics)
    return lasts


def _expression_mistake(t: Telling) -> float:
    group = t.group()
    t.do("join", lasts := t.rng.choice([60, 260]), who=t.newcomer(group), group=group["name"], expression="a || b")
    return lasts


def _too_many(t: Telling) -> float:
    """More members than queues."""
    group = min(t.groups, key=lambda group: _queues(t, group) - len(t.members(group)))
    more = _queues(t, group) - len(t.members(group)) + 1
    for number in range(min(more, 14)):
        t.do("join", 200 + number, who=t.newcomer(group), group=group["name"], after=number * 0.4)
    return 220


def _flap(t: Telling) -> float:
    """One member goes and comes, again and again."""
    who, times = t.member(), t.rng.randint(5, 7)
    for number in range(times):
        t.do("kill", 12, who=who, after=number * 30)
    return times * 30


def _all_leave(t: Telling) -> float:
    """A whole group is down."""
    for number, who in enumerate(t.members(t.group())):
        t.do(t.rng.choice(["kill", "leave"]), 150, who=who, after=number * 0.5)
    return 170


def _hook_full(t: Telling) -> float:
    t.do("hook-full", 60, broker=t.rng.choice(t.brokers)["name"])
    t.do("leave", 40, who=t.member(), after=10)
    return 100


def _collector_away(t: Telling) -> float:
    t.do("collector-away", 60)
    t.do("leave", 40, who=t.member(), after=10)
    return 100


def _wrong_clock(t: Telling) -> float:
    group, offset = t.group(), t.rng.choice([-3_600_000, -9_000, 9_000, 600_000])
    t.do("join", 200, who=t.newcomer(group), group=group["name"], clock_offset_ms=offset)
    return 200


FAULTS: dict[str, Happening] = {
    "kill": _kill,
    "freeze": _freeze,
    "hang": _hang,
    "hang and lose": _hang_and_lose,
    "hang and get back": _hang_and_get_back,
    "poison": _poison,
    "slow pull": _slow_pull,
    "slow listener": _slow_listener,
    "old commit": _old_commit,
    "partition": _partition,
    "one broker away": _one_broker_away,
    "same id": _same_id,
    "no name server": _no_name_server,
    "none has name server": _none_has_name_server,
    "stop broker": _stop_broker,
    "lose notifications": _lose_notifications,
    "strategy mistake": _strategy_mistake,
    "mode mistake": _mode_mistake,
    "topic mistake": _topic_mistake,
    "expression mistake": _expression_mistake,
    "too many": _too_many,
    "flap": _flap,
    "all leave": _all_leave,
    "hook full": _hook_full,
    "collector away": _collector_away,
    "wrong clock": _wrong_clock,
}


def is_healthy(seed: int) -> bool:
    """Whether nothing goes wrong in this seed's scenario."""
    return seed % 3 == 0


def scenario_of(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = random.Random(seed)
    t = Telling(rng)
    _cluster(t, least=8 if is_healthy(seed) else 4)
    kinds = HEALTHY if is_healthy(seed) else FAULTS
    names = rng.sample(sorted(kinds), rng.choice([0, 1, 1, 2] if is_healthy(seed) else [1, 1, 2]))
    for name in names:
        t.now += kinds[name](t) + rng.choice([SETTLED, rng.uniform(20, 60)])
    steps = sorted(t.steps, key=lambda step: float(str(step["at"])))
    made = scenario.read(
        {
            "title": ", ".join(names) or "nothing happens",
            "minutes": (t.now + SETTLED) / 60,
            "brokers": t.brokers,
            "topics": t.topics,
            "groups": t.groups,
            "story": steps,
        }
    )
    story.check(made)
    return made


def _cluster(t: Telling, least: int) -> None:
    """Every topic has so many queues at least: a healthy group has more of them than members."""
    rng = t.rng
    for name in ["broker-a", "broker-b"][: rng.choice([1, 1, 2])]:
        t.brokers.append({"name": name, "clock_offset_ms": rng.choice([0, 0, rng.randint(-2000, 2000)])})
    for number in range(1, rng.choice([1, 1, 1, 2]) + 1):
        queues = max(least, rng.choice([4, 4, 8, 16]))
        of_group = [f"Topic{number}"]
        if rng.random() < 0.25:
            of_group.append(f"More{number}")
        for topic in of_group:
            rate = round(queues * len(t.brokers) * rng.choice([0.05, 0.2, 0.5]), 3)
            t.topics.append({"name": topic, "queues": queues, "messages_per_second": rate})
        t.groups.append(
            {
                "name": f"g{number}",
                "topics": of_group,
                "ordered": rng.random() < 0.6,
                "consumers": rng.randint(2, 4),
                "strategy": rng.choice(["AVG", "AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH"]),
                "listener_ms": rng.choice([1, 5, 20]),
            }
        )


def _of(t: Telling, who: str) -> list[str]:
    return next(t.members(group) for group in t.groups if who in t.members(group))


def _topics(group: dict[str, object]) -> list[str]:
    return list(group["topics"])


def _queues(t: Telling, group: dict[str, object]) -> int:
    of = {str(topic["name"]): int(str(topic["queues"])) for topic in t.topics}
    return len(t.brokers) * sum(of[topic] for topic in _topics(group))
