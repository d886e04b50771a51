"""Derive the condition of each rule in `observe.rules` from the ground truth, not from telemetry.

A condition holds by the widest reading of its rule: while it does, an incident is correct. It also names the kinds of
telemetry by which it holds for certain: by them an incident is required. The difference between the two is what
telemetry cannot know: what happens between two polls, the state of an unreachable client, the time before a hook
started.
"""

import inspect
from collections.abc import Callable
from types import ModuleType

from tests.detection import oracle_of_groups, oracle_of_owners, oracle_of_pops, oracle_of_queues
from tests.detection.conditions import Conditions
from tests.detection.history import History
from tests.detection.snapshot import Snapshot

Oracle = Callable[[Snapshot, History], Conditions]


def _oracles(*modules: ModuleType) -> tuple[Oracle, ...]:
    """Return the public functions of modules that return `Conditions`."""
    return tuple(
        function
        for module in modules
        for name, function in vars(module).items()
        if inspect.isfunction(function)
        and function.__module__ == module.__name__
        and function.__annotations__.get("return") is Conditions
        and not name.startswith("_")
    )


ORACLES = _oracles(oracle_of_queues, oracle_of_owners, oracle_of_groups)
POP_ORACLES = (
    *_oracles(oracle_of_pops),
    oracle_of_groups.clients,
    oracle_of_groups.group,
    oracle_of_groups.client_id_collision,
    oracle_of_groups.stale_heartbeats,
    oracle_of_groups.retries,
    oracle_of_groups.dead_letters,
    oracle_of_groups.sources,
    oracle_of_groups.storm,
)
"""Of groups that pop: their queues have neither owners nor locks."""


def conditions(snapshot: Snapshot, history: History) -> Conditions:
    """Yield the conditions of all rules that hold now, and update the history."""
    history.update(snapshot)
    for oracle in POP_ORACLES if snapshot.spec.pops else ORACLES:
        yield from oracle(snapshot, history)
