"""Compare the answers with the audit's own evaluation: every difference, by kind, with the values of both sides."""

import random
from collections.abc import Iterable, Iterator
from itertools import islice

from tests.audit.answers import Api, progress, rows
from tests.audit.command_line import commands
from tests.audit.compare_queue import compare_queue
from tests.audit.compare_rebalances import SETTLING_MS, compare_polled_moves, compare_rebalances
from tests.audit.compare_rows import compare_progress, compare_rows
from tests.audit.compare_states import compare_incidents, compare_members, compare_queues
from tests.audit.differences import Result
from tests.audit.reading import Reading, read_all
from tests.audit.telemetry import Event, Place

NEAR_CHANGE_MS = 30_000
"""Half of the instants are at most this far from a change of an owner, where errors are likely."""


def compare(recorded: list[Event], sources: Iterable[str], api: Api, pairs: int, seed: int) -> Result:
    """Compare random pairs of instant and queue, every rebalance, and every row's time.

    Args:
        recorded: all events of the recording.
        sources: the kinds of sources that the job read.
        api: a server of the job's tables.
        pairs: the minimum number of pairs.
        seed: the seed of the random pairs.
    """
    reading, result, derived = read_all(recorded, sources), Result(), rows(api.root)
    settled = {row.rebalance_id: row.time for row in derived if row.table == "rebalances"}
    for instant, place in samples(reading, random.Random(seed)):
        shown = api.queues(place, instant)
        for queue in reading.queues(place, instant):
            compare_queue(result, reading, place, queue, instant, shown.get(queue))
        if result.compared["queue shown"] >= pairs:
            break
    for place in sorted(reading.truth.keys() & reading.places()):  # the sources given may lack a group
        rebalances = api.rebalances(place, settled)
        (compare_rebalances if reading.hooks else compare_polled_moves)(result, reading, place, rebalances)
    compare_rows(result, reading, derived)
    compare_progress(result, reading, progress(api.root))
    return result


def compare_states(recorded: list[Event], sources: Iterable[str], api: Api, instants: int, seed: int) -> Result:
    """Compare queues and members at random instants, and all incidents, by REST, command line and SQL; needs hooks."""
    reading, result = read_all(recorded, sources), Result()
    asked = list(islice(samples(reading, random.Random(seed)), instants))
    with commands(api.root) as line:
        compare_queues(result, reading, api, line, asked)
        compare_members(result, reading, api, line, asked)
        compare_incidents(result, reading, api, line)
    return result


def samples(reading: Reading, chance: random.Random) -> Iterator[tuple[int, Place]]:
    """Yield random instants, each with a group, without end."""
    first, last = reading.events[0].time + SETTLING_MS, reading.events[-1].time
    places = sorted(reading.places())
    changes = sorted(
        change.time
        for group in reading.truth.values()
        for history in group.queues.values()
        for change in history.changes
        if change.time > first
    )
    while True:
        near = bool(changes) and chance.random() < 0.5
        instant = chance.choice(changes) + chance.randint(-NEAR_CHANGE_MS, NEAR_CHANGE_MS) if near else 0
        yield instant if first <= instant <= last else chance.randint(first, last), chance.choice(places)
