"""The condition of each rule in `observe.rules`, computed from what really is so, not from telemetry.

Of each rule: when its condition holds by the widest reading (an incident then is not wrong), and by which telemetry it
surely does, so that an incident must come. Between the two lies what the rule's telemetry cannot know: what is so
between two polls, of a client that does not answer, of a hook that has just begun to tell.
"""

import inspect
from collections.abc import Callable

from tests.detection import of_groups, of_owners, of_queues
from tests.detection.facts import Facts
from tests.detection.memory import Looks, Memory

Oracle = Callable[[Facts, Memory], Looks]

ORACLES: tuple[Oracle, ...] = tuple(
    function
    for module in (of_queues, of_owners, of_groups)
    for function in vars(module).values()
    if inspect.isfunction(function) and function.__annotations__.get("return") is Looks
)
"""Every function of these modules that returns `Looks`."""


def conditions(facts: Facts, memory: Memory) -> Looks:
    """All that any rule is about."""
    memory.look(facts)
    for oracle in ORACLES:
        yield from oracle(facts, memory)
