"""Derive the condition of each rule in `observe.rules` from the ground truth, not from telemetry.

A condition holds by the widest reading of its rule: while it does, an incident is correct. It also names the kinds of
telemetry by which it holds for certain: by them an incident is required. The difference between the two is what
telemetry cannot know: what happens between two polls, the state of an unreachable client, the time before a hook
started.
"""

import inspect
from collections.abc import Callable

from tests.detection import oracle_of_groups, oracle_of_owners, oracle_of_queues
from tests.detection.conditions import Conditions
from tests.detection.history import History
from tests.detection.snapshot import Snapshot

Oracle = Callable[[Snapshot, History], Conditions]

ORACLES: tuple[Oracle, ...] = tuple(
    function
    for module in (oracle_of_queues, oracle_of_owners, oracle_of_groups)
    for name, function in vars(module).items()
    if inspect.isfunction(function)
    and function.__annotations__.get("return") is Conditions
    and not name.startswith("_")
)
"""The public functions of these modules that return `Conditions`."""


def conditions(snapshot: Snapshot, history: History) -> Conditions:
    """Yield the conditions of all rules that hold now, and update the history."""
    history.update(snapshot)
    for oracle in ORACLES:
        yield from oracle(snapshot, history)
