"""The stories: which groups a lab has, and the sequence of cases of each.

In a story every group has its own sequence of cases: fault, cure and time to recover, one case after the other, in
parallel with the other groups. Faults of a broker concern all groups, so they follow when all sequences are done. An
incident that no case of its group and time names is a false alarm, unless an open incident that is named explains it.
"""

from dataclasses import replace

from tests.instruments.faults.case import BROKER, Case, Group
from tests.instruments.faults.cases import (
    BROKER_KILL,
    BROKER_RESTART,
    EXPRESSION,
    FREEZE,
    GROWS,
    HAND_OVERS,
    HANG,
    IDLE,
    KILL,
    MIXED,
    NOBODY,
    PARTITION,
    PAUSE,
    POISON,
    SAME_ID,
    SHRINKS,
    SLOW_PULL,
    STALL,
    STRATEGY,
    TOPIC_SET,
)
from tests.instruments.faults.field_cases import FIELD
from tests.instruments.faults.pop_cases import POP, pop_healthy

# Every fault lasts long enough for a complete answer of mqadmin, whose round over all groups takes up to 25 s.
QUICK = {
    "orders": Group(True, 4, 2, (Case("hang", lasts=85, heal=25, due=HANG.due),)),
    "audit": Group(False, 4, 2, (Case("join", lasts=60, heal=30),)),
    "killed": Group(True, 4, 2, (Case("kill", lasts=80, heal=30, due=KILL.due, may=KILL.may),)),
    "poisoned": Group(True, 4, 1, (Case("poison", lasts=85, heal=25, due=POISON.due),)),
    "nobody": Group(True, 4, 1, (Case("leave", lasts=90, heal=20, due=NOBODY.due),)),
    "mixed": Group(True, 4, 1, (Case("mixed", lasts=75, heal=30, due=MIXED.due, may=MIXED.may),)),
    "parted": Group(True, 4, 2, (replace(PARTITION, heal=25),)),
}
ALL = {
    "orders": Group(True, 6, 3, HAND_OVERS),
    "audit": Group(False, 4, 2, (STALL,)),
    "frozen": Group(True, 4, 2, (FREEZE,)),
    "parted": Group(True, 4, 2, (PARTITION,)),
    "killed": Group(True, 4, 2, (KILL, MIXED)),
    "hung": Group(True, 4, 2, (HANG, POISON)),
    "slow": Group(True, 4, 1, (SLOW_PULL,)),
    "tags": Group(False, 4, 1, (EXPRESSION,)),
    "topics": Group(False, 4, 1, (TOPIC_SET,)),
    "twins": Group(True, 4, 2, (SAME_ID,)),
    "plans": Group(False, 4, 2, (STRATEGY,)),
    "nobody": Group(True, 4, 1, (NOBODY,)),
    "idle": Group(False, 2, 2, (IDLE,)),
}
BROKERS = {
    "orders": Group(True, 8, 3, ()),
    "audit": Group(False, 4, 2, ()),
    BROKER: Group(True, 0, 0, (BROKER_RESTART, BROKER_KILL, PAUSE)),
}
CALM = (
    Case("join", lasts=50, heal=50),
    Case("leave", lasts=40, heal=60),
    Case("freeze", lasts=6, heal=60),  # shorter than any limit: a lock is renewed every 20 s and valid for 30 s
    Case("add-queues", lasts=100, heal=100, may=GROWS, may_after=SHRINKS),
    Case("leave", lasts=15, heal=45),
    Case("join", lasts=40, heal=40),
    Case("freeze", lasts=6, heal=40),
)
FLEET, FLEET_SIZE, FLEET_PACE_SECONDS = "fleet", 50, 3.0
ROLLOUT = (
    Case("one-by-one", lasts=0, heal=60),
    Case(
        "all-at-once",
        lasts=0,
        heal=330,  # a storm is resolved after 5 quiet minutes
        may=frozenset(
            {"REBALANCE_STORM", "ORDERED_QUEUE_STUCK"}
        ),  # stuck because of locks that clients got while they left
        alerts_max=1,
    ),
)
ROLLOUTS = {FLEET: Group(True, 64, 0, ROLLOUT)}
SOAK = {
    "orders": Group(True, 4, 2, ()),
    "audit": Group(False, 4, 1, ()),  # nothing happens to these two but the faults of a broker
    "frozen": Group(True, 4, 2, (FREEZE,)),
    "killed": Group(True, 4, 2, (KILL,)),
    "hung": Group(True, 4, 2, (HANG, POISON)),
    "nobody": Group(True, 4, 1, (NOBODY,)),
    BROKER: Group(True, 0, 0, (BROKER_RESTART, BROKER_KILL)),
}
"""Whose cases the soak repeats by a random choice."""


def healthy(times, pause):
    """Return groups with hand-overs only, each followed by a further pause in seconds."""
    calm = tuple(replace(case, heal=case.heal + pause) for case in CALM) * times
    return {"orders": Group(True, 8, 3, calm), "audit": Group(False, 4, 2, calm[::-1])}


def hectic(times):
    """Return `healthy` without pauses: two clients join and leave more than 6 times in 5 minutes, which is a storm."""
    return {
        key: replace(group, cases=tuple(replace(case, may=case.may | {"REBALANCE_STORM"}) for case in group.cases))
        for key, group in healthy(times, pause=0).items()
    }


STORIES = {
    "quick": QUICK,
    "partition": {"parted": ALL["parted"]},
    "all": ALL,
    "brokers": BROKERS,
    "rollout": ROLLOUTS,
    "soak": SOAK,
    "field": FIELD,
    "half-hour": hectic(3),
    "hour": healthy(3, pause=80),
    "pop": POP,
    "pop-quarter": pop_healthy(2),
    "pop-hour": pop_healthy(6),
}
LAB_OF = {"field": {"brokers": 2, "broker": {"timerWheelEnable": True}}}
"""Further settings of the lab of a story. Without its timer a broker 5.4.0 deletes a topic and answers with an error
(AdminBrokerProcessor.deleteTopicInBroker: a NullPointerException), so that mqadmin does not ask the next one."""
