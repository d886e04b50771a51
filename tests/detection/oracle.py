"""The condition of each rule in `observe.rules`, computed from what really is so, not from telemetry.

Of each rule: when its condition holds by the widest reading (an incident then is not wrong), and by which telemetry it
surely does, so that an incident must come. Between the two lies what the rule's telemetry cannot know: what is so
between two polls, of a client that does not answer, of a hook that has just begun to tell.
"""

from collections.abc import Callable

from tests.detection import of_groups, of_owners, of_queues
from tests.detection.facts import Facts
from tests.detection.memory import Looks, Memory

Oracle = Callable[[Facts, Memory], Looks]

ORACLES: tuple[Oracle, ...] = (
    of_queues.stuck,
    of_queues.lag_grows,
    of_queues.of_the_dead,
    of_queues.pull_expired,
    of_queues.lock_expired,
    of_queues.lock_orphaned,
    of_queues.lock_contended,
    of_queues.locks_lost,
    of_owners.unassigned,
    of_owners.double_owned,
    of_owners.mismatch,
    of_owners.stalled_rebalance,
    of_owners.route_split,
    of_owners.dropped,
    of_owners.shares,
    of_queues.regressions,
    of_groups.declarations,
    of_groups.clients,
    of_groups.group,
    of_groups.sources,
    of_groups.storm,
    of_queues.reread,
)


def conditions(facts: Facts, memory: Memory) -> Looks:
    """All that any rule is about."""
    memory.look(facts)
    for oracle in ORACLES:
        yield from oracle(facts, memory)
