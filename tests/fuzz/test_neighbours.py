"""Mutated events of one group, source or cluster change no row of any other: the capture with and without them."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from rebalance_model.observe.effects import AnyRow, QueueProgress
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent, GroupEvent
from rebalance_model.observe.events.decoding import RejectedError, decode
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from schemas.rows import RejectedRow
from streaming.pipeline.archive_rows import LogRow, Transport, archive_row
from tests.fuzz.mutations import mutated, operations_of
from tests.fuzz.test_events import KINDS, LINES
from tests.fuzz.test_state_of_each_field import VALUES, changed, places_of

HONEST = LINES[:3_000]
TAIL = LINES[3_000:6_000]
"""Honest lines after the last mutant, for three minutes: a source that has gone silent is waited for so long."""
END = decode(HONEST[-1], key=None, stamp=2**62, keyed=False).time
CLUSTER = decode(HONEST[0], key=None, stamp=2**62, keyed=False).cluster
SOURCES = sorted({decode(line, key=None, stamp=2**62, keyed=False).source_id for line in HONEST})
SAMPLES = [*KINDS, *LINES[2_000:4_000:10]]
_TIME = re.compile(rb'"time":\d+')
BYTEWISE = 0.3
BATCH = 500
"""After so many honest lines a batch ends, and the state is read again."""


def of_another_group(event: AnyEvent, _: random.Random) -> AnyEvent | None:
    return _replaced(event, source_id="evil-1@1") if isinstance(event, GroupEvent) else None


def of_the_same_source(event: AnyEvent, choice: random.Random) -> AnyEvent | None:
    """Broadcasts are left out: what a source says of itself, only the source can have said."""
    return _replaced(event, source_id=choice.choice(SOURCES)) if isinstance(event, GroupEvent) else None


def of_another_source(event: AnyEvent, choice: random.Random) -> AnyEvent | None:
    return _replaced(event, source_id=f"evil-{choice.randrange(20)}@1", broker="evil-broker")


def of_another_cluster(event: AnyEvent, _: random.Random) -> AnyEvent | None:
    return _replaced(event, cluster="evil")


def _replaced(event: AnyEvent, **fields: object) -> AnyEvent:
    fields = {"cluster": CLUSTER} | fields
    return msgspec.structs.replace(event, **(fields | {"group": "evil"} if isinstance(event, GroupEvent) else fields))


class Folded:
    """The rows of the honest lines, with mutated ones among them."""

    def __init__(self, count: int = 0, change: Callable[[AnyEvent, random.Random], AnyEvent | None] | None = None):
        self.rows: list[AnyRow] = []
        self.outcomes = Counter[str]()
        self.rejected: list[RejectedRow] = []
        self._choice = random.Random(count)
        groups, stamp = GroupsInMemory(), 0
        shard = Shard(None, groups, Policy())
        for number, line in enumerate([*HONEST, *TAIL]):
            event = decode(line, key=None, stamp=2**62, keyed=False)
            stamp = max(stamp, event.time)
            self.rows += shard.push(event, stamp, len(line))
            for _ in range(
                0 if number >= len(HONEST) else count * (number + 1) // len(HONEST) - count * number // len(HONEST)
            ):
                if change is not None and (hostile := self._hostile(change, stamp)) is not None:
                    self.rows += shard.push(hostile, stamp, 500)
            if number % BATCH == BATCH - 1:
                shard = Shard(shard.flush(), groups, Policy())

    def _hostile(self, change: Callable[[AnyEvent, random.Random], AnyEvent | None], stamp: int) -> AnyEvent | None:
        line = self._mutant(_TIME.sub(b'"time":%d' % stamp, self._choice.choice(SAMPLES), count=1))
        kept = archive_row(LogRow(0, 0, None, line, stamp), Transport(None))
        if isinstance(kept, RejectedRow):
            self.outcomes["rejected"] += 1
            self.rejected.append(kept)
            return None
        changed = change(decode(line, key=None, stamp=stamp, keyed=False), self._choice)
        try:  # the change is not to make an event that none could send
            event = changed and decode(msgspec.json.encode(changed), key=None, stamp=stamp, keyed=False)
        except RejectedError:
            event = None
        self.outcomes["accepted" if event is not None else "left out"] += 1
        return event

    def _mutant(self, sample: bytes) -> bytes:
        """Change some bytes, which seldom leaves JSON, or some values."""
        if self._choice.random() < BYTEWISE:
            return mutated(sample, operations_of(self._choice, most=2), SAMPLES)
        event = json.loads(sample)
        for _ in range(self._choice.randint(1, 2)):
            place = self._choice.choice([one for one in places_of(event) if one[0] != "type"])
            event = changed(event, place, self._choice.choice(VALUES))
        return json.dumps(event).encode()

    def of_neighbours(self, *, quantities: bool = True) -> dict[tuple[str, bool], list[AnyRow]]:
        """Return the rows of each group, and its quantities; when the job knew them depends on the other sources.

        Quantities of hooks are written when ticks have advanced for ten seconds, of whatever source.
        """
        by_group: dict[tuple[str, bool], list[AnyRow]] = {}
        for row in self.rows:
            if row.cluster == CLUSTER and row.group not in {"evil", ""} and row.time <= END:
                is_quantity = isinstance(row, QueueProgress)
                if quantities or not is_quantity:
                    kept = row if is_quantity else msgspec.structs.replace(row, known_at=0)
                    by_group.setdefault((row.group, is_quantity), []).append(kept)
        return by_group


@pytest.fixture(scope="module")
def honest():
    return Folded()


@pytest.mark.parametrize("form", ["short", pytest.param("long", marks=pytest.mark.prove)])
@pytest.mark.parametrize(
    ("change", "ticks"),
    [
        (of_another_group, False),
        (of_the_same_source, False),
        (of_another_source, True),
        (of_another_cluster, True),
    ],
)
def test_rows_of_neighbours_are_the_same(honest, change, ticks, form, tally):
    folded = Folded(800 if form == "short" else 30_000, change)
    expected = honest.of_neighbours(quantities=not ticks)
    assert folded.of_neighbours(quantities=not ticks) == expected
    assert {group for group, _ in expected} == {"orders-group", "audit-group"}
    assert folded.outcomes["accepted"] > (80 if form == "short" else 3_000)
    assert folded.rejected
    assert all(row.reason and row.detail for row in folded.rejected)
    for outcome, count in folded.outcomes.items():
        tally.add(outcome, count)
