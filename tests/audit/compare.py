"""Compare the answers with the audit's own evaluation: every difference, by kind, with the values of both sides."""

import random
from collections.abc import Iterator
from itertools import count, islice, pairwise

from tests.audit.answers import Api, progress, rows
from tests.audit.command_line import commands
from tests.audit.compare_queue import compare_queue
from tests.audit.compare_rebalances import SETTLING_MS, compare_polled_moves, compare_rebalances
from tests.audit.compare_rows import compare_progress, compare_rows
from tests.audit.compare_states import compare_incidents, compare_members, compare_queues, members_by_sql
from tests.audit.differences import Result
from tests.audit.reading import Reading
from tests.audit.telemetry import Place

NEAR_CHANGE_MS = 30_000
"""Half of the instants are at most this far from a change of an owner, where errors are likely."""
SILENT_EACH = 8
"""One of so many instants is in a silence of the broker, where lags become stale."""


def compare(reading: Reading, api: Api, pairs: int, seed: int) -> Result:
    """Compare random pairs of instant and queue, every rebalance, and every row's time.

    Args:
        reading: the evaluation of the telemetry that the job read.
        api: a server of the job's tables.
        pairs: the minimum number of pairs.
        seed: the seed of the random pairs.
    """
    result, derived = Result(), rows(api.root)
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


def compare_states(reading: Reading, api: Api, instants: int, seed: int) -> Result:
    """Compare queues and members at random instants, and all incidents, by REST, command line and SQL; needs hooks."""
    result = Result()
    asked = list(islice(samples(reading, random.Random(seed)), instants))
    with commands(api.root) as line:
        compare_queues(result, reading, api, line, asked)
        ways = {"REST": api.members, "CLI": line.members, "SQL": members_by_sql(line)}
        compare_members(result, reading, ways, asked)
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
    silences = _silences(reading, first)
    for number in count():
        instant = 0
        if silences and number % SILENT_EACH == 1:
            instant = chance.randint(*chance.choice(silences))
        elif changes and chance.random() < 0.5:
            instant = chance.choice(changes) + chance.randint(-NEAR_CHANGE_MS, NEAR_CHANGE_MS)
        yield instant if first <= instant <= last else chance.randint(first, last), chance.choice(places)


def _silences(reading: Reading, first: int) -> list[tuple[int, int]]:
    """Return the interval in which each lag is stale that no answer followed for three intervals."""
    answered = sorted({one.time for series in reading.quantities.lags.values() for one in series if one.time > first})
    gaps = [time for time, after in pairwise(answered) if after - time > 3 * reading.interval]
    return [(time + 2 * reading.interval, time + 3 * reading.interval) for time in gaps]
