"""Groups of lite-pull consumers, beside the other groups of some seeds; see `generator`.

Their applications commit every 5 s, as by default, or at checkpoints, every one or three minutes.
"""

from tests.detection.builder import Action, ScenarioBuilder

_GROUP, _TOPIC = "reader", "Read"


def _no_change(builder: ScenarioBuilder) -> float:
    """Nothing happens for longer than between two checkpoints."""
    del builder
    return 240


def _leave(builder: ScenarioBuilder) -> float:
    builder.add_step("leave", lasts := builder.rng.uniform(5, 120), who=_member(builder))
    return lasts + 60


def _join(builder: ScenarioBuilder) -> float:
    builder.add_step("join", 150, who=f"{_GROUP}-x", group=_GROUP)
    return 240


def _roll_out(builder: ScenarioBuilder) -> float:
    builder.add_step("rollout", group=_GROUP, every=30, down=builder.rng.uniform(3, 15))
    return 150


def _more_queues(builder: ScenarioBuilder) -> float:
    builder.add_step("add-queues", topic=_TOPIC, queues=builder.rng.randint(1, 4))
    return 120


HEALTHY: dict[str, Action] = {
    "readers": _no_change,
    "a reader leaves": _leave,
    "a reader joins": _join,
    "readers are rolled out": _roll_out,
    "more queues for readers": _more_queues,
}


def _hung(builder: ScenarioBuilder) -> float:
    """The application hangs: it polls no more, and so commits nothing; its queues are still pulled."""
    builder.add_step("hang", 220, who=_member(builder))
    return 250


def _frozen(builder: ScenarioBuilder) -> float:
    builder.add_step("freeze", 170, who=_member(builder))
    return 330


def _killed(builder: ScenarioBuilder) -> float:
    builder.add_step("kill", builder.rng.choice([5, 40, 100]), who=_member(builder))
    return 160


FAULTS: dict[str, Action] = {"hung reader": _hung, "frozen reader": _frozen, "killed reader": _killed}


def add_group(builder: ScenarioBuilder, actions: dict[str, Action]) -> str:
    """Add a group of readers, and one of the actions on it; return the action's name."""
    rng, queues = builder.rng, builder.rng.choice([4, 6])
    rate = queues * len(builder.brokers) * rng.choice([0.2, 0.5])
    builder.topics.append({"name": _TOPIC, "queues": queues, "messages_per_second": rate})
    builder.groups.append(
        {
            "name": _GROUP,
            "topics": [_TOPIC],
            "consumers": rng.randint(2, 3),
            "lite_pull": True,
            "commit_interval_ms": rng.choice([5_000, 60_000, 180_000]),
            "listener_ms": rng.choice([1, 20]),
        }
    )
    name = rng.choice(list(actions))
    builder.now += actions[name](builder)
    return name


def _member(builder: ScenarioBuilder) -> str:
    return f"{_GROUP}-{builder.rng.randint(1, 2)}"
