"""Healthy changes and faults, each drawn at random for some seeds; see `generator`."""

from tests.detection.builder import Action, ScenarioBuilder, queue_count, topics_of


def _join(builder: ScenarioBuilder) -> float:
    group = builder.group()
    builder.add_step("join", builder.rng.choice([None, 120]), who=builder.newcomer(group), group=group["name"])
    return 150


def _leave(builder: ScenarioBuilder) -> float:
    lasts, who = builder.rng.uniform(5, 120), builder.member()
    if builder.members_with(who) == [who]:
        lasts = min(lasts, 40)  # a group without members and with lag is a fault if it lasts longer
    builder.add_step("leave", lasts, who=who)
    return lasts


def _leave_permanently(builder: ScenarioBuilder) -> float:
    who = builder.member()
    total = sum(len(builder.members(group)) for group in builder.groups)
    if total > len(builder.groups) and len(builder.members_with(who)) > 1:
        builder.gone.add(who)
        builder.add_step("leave", who=who)
    return 30


def _roll_out(builder: ScenarioBuilder) -> float:
    group, every = builder.group(), builder.rng.uniform(20, 60)
    if builder.gone:
        return 0  # a rollout restarts every member, and must not restart one that has left permanently
    builder.add_step("rollout", group=group["name"], every=every, down=builder.rng.uniform(3, min(15, every - 5)))
    return every * int(str(group["consumers"]))


def _scale_out(builder: ScenarioBuilder) -> float:
    group = builder.group()
    for number in range(builder.rng.randint(1, 3)):
        builder.add_step(
            "join", who=builder.newcomer(group), group=group["name"], after=number * builder.rng.uniform(0.1, 8)
        )
    return 60


def _add_queues(builder: ScenarioBuilder) -> float:
    builder.add_step("add-queues", topic=builder.rng.choice(builder.topics)["name"], queues=builder.rng.randint(1, 6))
    return 90


HEALTHY: dict[str, Action] = {
    "more queues": _add_queues,
    "join": _join,
    "leave": _leave,
    "permanent leave": _leave_permanently,
    "rollout": _roll_out,
    "scale-out": _scale_out,
}
"""By name, in the order from which `scenario_of` draws; another order gives other scenarios, also of `FAULTS`."""


def _kill(builder: ScenarioBuilder) -> float:
    builder.add_step("kill", lasts := builder.rng.choice([5, 40, 100, 200]), who=builder.member())
    return lasts


def _freeze(builder: ScenarioBuilder) -> float:
    builder.add_step(
        "freeze",
        lasts := builder.rng.choice([8, 25, 45, 90, 160, 250]) * builder.rng.uniform(0.8, 1.2),
        who=builder.member(),
    )
    return lasts + (150 if lasts > 100 else 0)


def _hung_listener(builder: ScenarioBuilder) -> float:
    builder.add_step("hang", lasts := builder.rng.choice([40, 130, 220]), who=builder.member())
    return lasts


def _hung_listener_while_queue_moves(builder: ScenarioBuilder) -> float:
    """A listener hangs while members join: its client must unlock the queue, and can't for up to 40 s."""
    group = builder.ordered_group(builder.rng.choice([0.2, 0.5]))
    builder.add_step("hang", 200, who=builder.rng.choice(builder.members(group)))
    builder.add_step("join", 160, who=builder.newcomer(group), group=group["name"], after=20)
    builder.add_step("join", 120, who=builder.newcomer(group), group=group["name"], after=builder.rng.uniform(33, 38))
    return 220


def _hung_listener_while_queue_returns(builder: ScenarioBuilder) -> float:
    """A listener hangs, and a member joins and leaves: its client owns the queue again before it could unlock it."""
    group = builder.ordered_group(0.5)
    builder.add_step("hang", 220, who=builder.rng.choice(builder.members(group)))
    builder.add_step(
        "join",
        builder.rng.uniform(6, 22),
        who=builder.newcomer(group),
        group=group["name"],
        after=builder.rng.uniform(5, 25),
    )
    return 280


def _poison_message(builder: ScenarioBuilder) -> float:
    builder.add_step("poison", lasts := builder.rng.choice([40, 140, 200]), who=builder.member())
    return lasts


def _slow_pull(builder: ScenarioBuilder) -> float:
    group = builder.group()
    builder.add_step("join", 320, who=builder.newcomer(group), group=group["name"], pull_interval_ms=150_000)
    return 320


def _slow_listener(builder: ScenarioBuilder) -> float:
    """A member's listener is slower than messages arrive."""
    group = builder.ordered_group(0.5)
    lasts = builder.rng.uniform(430, 500)
    builder.add_step(
        "join", lasts, who=builder.newcomer(group), group=group["name"], listener_ms=builder.rng.choice([5_000, 8_000])
    )
    return lasts + 30


def _stale_commit(builder: ScenarioBuilder) -> float:
    """A frozen member resumes and commits its old offset, below that of the new owner."""
    group = builder.ordered_group(0.5)
    group["ordered"], group["listener_ms"] = builder.rng.random() < 0.5, 1_000
    builder.add_step("freeze", lasts := builder.rng.uniform(200, 260), who=builder.rng.choice(builder.members(group)))
    return lasts + 120


def _partition_from_one_broker(builder: ScenarioBuilder) -> float:
    """One of two brokers is unreachable to one member until that broker removes the member."""
    if len(builder.brokers) < 2:
        builder.brokers.append({"name": "broker-b"})
    builder.add_step(
        "partition",
        lasts := builder.rng.uniform(320, 360),
        who=builder.member(),
        broker=builder.rng.choice(builder.brokers)["name"],
    )
    return lasts + 60


def _client_id_collision(builder: ScenarioBuilder) -> float:
    """A new process has another one's client id."""
    group = builder.group()
    other = builder.rng.choice(builder.members(group))
    builder.add_step("join", 320, who=builder.newcomer(group), group=group["name"], client_id=other)
    return 360


def _partition(builder: ScenarioBuilder) -> float:
    broker = builder.rng.choice([*(str(one["name"]) for one in builder.brokers), ""])
    builder.add_step("partition", lasts := builder.rng.choice([15, 60, 90, 200]), who=builder.member(), broker=broker)
    return lasts + (150 if lasts > 100 else 0)


def _partition_of_client_from_name_server(builder: ScenarioBuilder) -> float:
    """The topic gets queues while one client can't reach the name server."""
    who = builder.member()
    group = next(group for group in builder.groups if who in builder.members(group))
    builder.add_step("partition", 250, who=who, broker="name server")
    builder.add_step(
        "add-queues", topic=builder.rng.choice(list(topics_of(group))), queues=builder.rng.randint(2, 6), after=10
    )
    return 300


def _partition_group_topics_from_name_server(builder: ScenarioBuilder) -> float:
    """The topic gets queues while no client of the group can reach the name server."""
    group = builder.group()
    for who in builder.members(group):
        builder.add_step("partition", 270, who=who, broker="name server")
    builder.add_step(
        "add-queues", topic=builder.rng.choice(list(topics_of(group))), queues=builder.rng.randint(2, 6), after=10
    )
    return 320


def _broker_restart(builder: ScenarioBuilder) -> float:
    broker = builder.rng.choice(builder.brokers)["name"]
    builder.add_step("stop-broker", lasts := builder.rng.choice([5, 15, 40, 90]), broker=broker)
    return lasts + 60


def _lost_notifications(builder: ScenarioBuilder) -> float:
    builder.add_step("lose-notifications", 180, share=builder.rng.choice([0.3, 1]))
    group = builder.group()
    builder.add_step("join", who=builder.newcomer(group), group=group["name"], after=10)
    builder.add_step("leave", 60, who=builder.member(), after=70)
    return 200


def _strategy_mismatch(builder: ScenarioBuilder) -> float:
    group = builder.group()
    strategy = "AVG" if group["strategy"] == "AVG_BY_CIRCLE" else "AVG_BY_CIRCLE"
    builder.add_step(
        "join",
        lasts := builder.rng.choice([100, 260]),
        who=builder.newcomer(group),
        group=group["name"],
        strategy=strategy,
    )
    return lasts


def _mixed_consume_mode(builder: ScenarioBuilder) -> float:
    group = builder.group()
    builder.add_step("join", 120, who=builder.newcomer(group), group=group["name"], ordered=not group["ordered"])
    return 120


def _inconsistent_topics(builder: ScenarioBuilder) -> float:
    group = builder.group()
    other = [str(topic["name"]) for topic in builder.topics if topic["name"] not in topics_of(group)]
    topics = [*topics_of(group), *other[:1]] if other else list(topics_of(group))[:1]
    builder.add_step(
        "join", lasts := builder.rng.choice([60, 260]), who=builder.newcomer(group), group=group["name"], topics=topics
    )
    return lasts


def _inconsistent_expressions(builder: ScenarioBuilder) -> float:
    group = builder.group()
    builder.add_step(
        "join",
        lasts := builder.rng.choice([60, 260]),
        who=builder.newcomer(group),
        group=group["name"],
        expression="a || b",
    )
    return lasts


def _more_members_than_queues(builder: ScenarioBuilder) -> float:
    """Members join until there are more than queues."""
    group = min(builder.groups, key=lambda group: queue_count(builder, group) - len(builder.members(group)))
    more = queue_count(builder, group) - len(builder.members(group)) + 1
    for number in range(min(more, 14)):
        builder.add_step("join", 200 + number, who=builder.newcomer(group), group=group["name"], after=number * 0.4)
    return 220


def _flapping_member(builder: ScenarioBuilder) -> float:
    """One member is killed and restarted several times."""
    who, times = builder.member(), builder.rng.randint(5, 7)
    for number in range(times):
        builder.add_step("kill", 12, who=who, after=number * 30)
    return times * 30


def _all_members_leave(builder: ScenarioBuilder) -> float:
    """All members of a group are killed or leave."""
    for number, who in enumerate(builder.members(builder.group())):
        builder.add_step(builder.rng.choice(["kill", "leave"]), 150, who=who, after=number * 0.5)
    return 170


def _hook_disk_full(builder: ScenarioBuilder) -> float:
    builder.add_step("hook-full", 60, broker=builder.rng.choice(builder.brokers)["name"])
    builder.add_step("leave", 40, who=builder.member(), after=10)
    return 100


def _collector_down(builder: ScenarioBuilder) -> float:
    builder.add_step("collector-away", 60)
    builder.add_step("leave", 40, who=builder.member(), after=10)
    return 100


def _wrong_clock(builder: ScenarioBuilder) -> float:
    group, offset = builder.group(), builder.rng.choice([-3_600_000, -9_000, 9_000, 600_000])
    builder.add_step("join", 200, who=builder.newcomer(group), group=group["name"], clock_offset_ms=offset)
    return 200


FAULTS: dict[str, Action] = {
    "all members leave": _all_members_leave,
    "collector down": _collector_down,
    "inconsistent expressions": _inconsistent_expressions,
    "flapping member": _flapping_member,
    "freeze": _freeze,
    "hung listener": _hung_listener,
    "hung listener while the queue moves and returns": _hung_listener_while_queue_returns,
    "hung listener while the queue moves": _hung_listener_while_queue_moves,
    "hook's disk full": _hook_disk_full,
    "kill": _kill,
    "lost notifications": _lost_notifications,
    "mixed consume mode": _mixed_consume_mode,
    "partition of one client from the name server": _partition_of_client_from_name_server,
    "partition of a group from the name server": _partition_group_topics_from_name_server,
    "stale commit": _stale_commit,
    "partition from one broker": _partition_from_one_broker,
    "partition": _partition,
    "poison message": _poison_message,
    "client id collision": _client_id_collision,
    "slow listener": _slow_listener,
    "slow pull": _slow_pull,
    "broker restart": _broker_restart,
    "strategy mismatch": _strategy_mismatch,
    "more members than queues": _more_members_than_queues,
    "inconsistent topics": _inconsistent_topics,
    "wrong clock": _wrong_clock,
}


def _dead_letter(builder: ScenarioBuilder) -> float:
    """A newcomer refuses one message, and has no further attempt for it."""
    group = builder.group()
    who = builder.newcomer(group)
    builder.add_step("join", 200, who=who, group=group["name"], max_reconsume_times=0)
    builder.add_step("poison", 120, who=who, after=builder.rng.uniform(30, 60))
    return 220


def _consume_disabled(builder: ScenarioBuilder) -> float:
    builder.add_step("disable-consume", 150, group=builder.group()["name"])
    return 150


LATER_FAULTS: dict[str, Action] = {"dead letter": _dead_letter, "consume disabled": _consume_disabled}
"""Faults that were added later: they follow those of some seeds, whose own draws stay what they were."""
LATER_SHARE = 0.1


def _removed_queues(builder: ScenarioBuilder) -> float:
    """A topic gets queues, and loses them while no member runs: what was not consumed of them is stranded."""
    group = builder.group()
    builder.add_step(
        "add-queues", 140, topic=builder.rng.choice(list(topics_of(group))), queues=builder.rng.randint(1, 4)
    )
    for who in builder.members(group):
        builder.add_step("leave", 40, who=who, after=125)
    return 230


LAST_FAULTS: dict[str, Action] = {"removed queues": _removed_queues}
"""Faults that were added after those, for another share of the seeds."""


def _pull_client(builder: ScenarioBuilder) -> float:
    """A tool joins under the group's name: a pull client, which subscribes nothing."""
    group = builder.group()
    builder.add_step("join", 200, who=builder.newcomer(group), group=group["name"], pull_client=True)
    return 230


FOREIGN_CLIENTS: dict[str, Action] = {"pull client": _pull_client}
"""Clients that do not belong into their group, for another share of the seeds."""


def _broadcasting_member(builder: ScenarioBuilder) -> float:
    """A newcomer broadcasts, as some clients do by default: it has a share of the queues, and commits none of it."""
    group = builder.group()
    builder.add_step("join", 200, who=builder.newcomer(group), group=group["name"], message_model="BROADCASTING")
    return 230


def _client_without_running_info(builder: ScenarioBuilder) -> float:
    """A newcomer works, and does not answer GET_CONSUMER_RUNNING_INFO, as clients that are not Java."""
    group, code = builder.group(), builder.rng.choice([1, 3])
    builder.add_step("join", 200, who=builder.newcomer(group), group=group["name"], running_info_code=code)
    return 230


def _hung_first_message(builder: ScenarioBuilder) -> float:
    """A topic gets queues, and their first message never ends: nothing above 0 is committed."""
    group = builder.ordered_group(0.5) if builder.rng.random() < 0.5 else builder.group()
    topic = builder.rng.choice([one for one in builder.topics if one["name"] in topics_of(group)])
    for who in builder.members(group):
        builder.add_step("hang", 200, who=who, queue=topic["queues"])
    builder.add_step("add-queues", topic=topic["name"], queues=1, after=5)
    return 230


MEMBER_FAULTS: dict[str, Action] = {
    "broadcasting member": _broadcasting_member,
    "client without running info": _client_without_running_info,
    "hung first message": _hung_first_message,
}
"""Members of other kinds, and a first message that never ends: for another share of the seeds."""


def _wrong_topic(builder: ScenarioBuilder) -> float:
    """A group whose members agree subscribes from the start a topic that the cluster does not have."""
    group = builder.group()
    if any("topics" in step for step in builder.steps):
        return 0
    builder.topics.append({"name": "Missing", "queues": 0})
    group["topics"] = [*topics_of(group), "Missing"]
    return 150


WRONG_NAMES: dict[str, Action] = {"wrong topic": _wrong_topic}
"""Subscriptions of what the cluster does not have, for another share of the seeds."""


def _deleted_group(builder: ScenarioBuilder) -> float:
    """A group is deleted on one of two brokers, which still accepts its heartbeats, and registers no member."""
    if len(builder.brokers) < 2:
        builder.brokers.append({"name": "broker-b"})
    broker = builder.rng.choice(builder.brokers)["name"]
    builder.add_step("delete-group", 300, group=builder.group()["name"], broker=broker)
    return 330


def _refused_heartbeats(builder: ScenarioBuilder) -> float:
    builder.add_step("refuse-heartbeats", 250, group=builder.group()["name"])
    return 280


def _topic_created_again(builder: ScenarioBuilder) -> float:
    """A topic is deleted and created again: its offsets begin at 0, and its consumers ask for what is not there."""
    topic = builder.rng.choice([one["name"] for one in builder.topics if one["queues"]])
    builder.add_step("delete-topic", builder.rng.choice([15, 60, 120]), topic=topic)
    return 240


BROKER_FAULTS: dict[str, Action] = {
    "deleted group": _deleted_group,
    "refused heartbeats": _refused_heartbeats,
    "topic created again": _topic_created_again,
}
"""What an operator or a broker did to a group or topic, for another share of the seeds."""
