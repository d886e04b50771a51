"""Every event that is accepted leaves a state that can be read again, and rows that fit their tables.

Each field of each sample is set to each of some hostile values, or removed, one at a time.
"""

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import count

import pytest

from rebalance_model.observe.effects import AnyRow
from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.events.decoding import RejectedError, decode
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from schemas.arrow import table_of_json
from streaming.pipeline.effects import by_table
from tests.fuzz.test_events import KINDS
from tests.support.fitting import check_readable

REMOVED = object()
VALUES = (
    "", REMOVED, None, 0, -1, 1, 2**31 - 1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, 253402300799999, True, False, [], {},
    "x" * 255, "x" * 1_000, "x" * 1_001, "\0", "\U0001f600", "a/b", "%RETRY%x", " ", "progress lab", "\x1f",
)  # fmt: skip
ALWAYS = 2
"""The first values, which names of brokers once had, are tried for each field also in the short form."""
EVERY = 6
"""Of the other ones the short form tries one in so many."""
LATER = 400_000
POLICY = Policy()


def samples() -> Iterator[dict]:
    """Yield one sample of each form: of each type with the fields that it has."""
    seen = set()
    for line in KINDS:
        event = json.loads(line)
        form = (event["type"], *sorted(event), event["source"], str(event.get("error"))[:20])
        if form not in seen:
            seen.add(form)
            yield event


def places_of(part: object, at: tuple = ()) -> Iterator[tuple]:
    """Yield the place of each value of an event; of a list those of its first two parts."""
    if at:
        yield at
    inner = part.items() if isinstance(part, dict) else enumerate(part[:2]) if isinstance(part, list) else ()
    for name, value in inner:
        yield from places_of(value, (*at, name))


def changed(event: dict, place: tuple, value: object) -> dict:
    event = deepcopy(event)
    part = event
    for name in place[:-1]:
        part = part[name]
    if value is REMOVED:
        del part[place[-1]]
    else:
        part[place[-1]] = value
    return event


class Job:
    """A shard whose every event is a batch of its own, so that each reads the state that the one before has left."""

    def __init__(self) -> None:
        self.groups = GroupsInMemory()
        self.saved: Saved | None = None
        self.rows: list[AnyRow] = []

    def push(self, event: AnyEvent | None, stamp: int) -> None:
        """Fold an event; None: those that still wait."""
        shard = Shard(self.saved, self.groups, POLICY)
        self.rows += shard.push(event, stamp, 1) if event is not None else shard.finish()
        self.saved = shard.flush()
        check_readable(self.groups)


def drive(event: dict, sample: dict) -> None:
    """Fold an event, then a tick of its source, the event as it was, and a tick some minutes later."""
    time, seq = (event.get(name) if type(event.get(name)) is int else 1 for name in ("time", "seq"))
    tick = {"type": "TICK", **{name: event.get(name, "lab") for name in ("cluster", "source", "source_id")}}
    following = (
        {**tick, "time": time + 1, "seq": seq + 1},
        {**sample, "time": time + 2_000, "seq": seq + 2},
        {**tick, "time": time + LATER, "seq": seq + 3},
    )
    job, stamp = Job(), max(1, time)
    job.push(decode(json.dumps(event).encode(), key=None, stamp=stamp, keyed=False), stamp)
    for one in following:
        try:
            job.push(decode(json.dumps(one).encode(), key=None, stamp=stamp + LATER, keyed=False), stamp)
        except RejectedError:
            continue
    job.push(None, stamp)
    for table, number, lines in by_table(job.rows):
        assert table_of_json(table, lines).num_rows == number


@pytest.mark.parametrize("form", ["short", pytest.param("long", marks=pytest.mark.prove)])
def test_each_accepted_field_leaves_a_state_that_can_be_read(form, tally):
    number, unreadable = count(), []
    for sample in samples():
        for place in (place for place in places_of(sample) if place[0] != "type"):
            for index, value in enumerate(VALUES):
                if form == "short" and index >= ALWAYS and next(number) % EVERY:
                    continue
                try:
                    drive(changed(sample, place, value), sample)
                except RejectedError:
                    tally.add("rejected")
                    continue
                except Exception as error:  # noqa: BLE001  all of them are shown at once
                    unreadable.append((sample["type"], place, value, repr(error)[:110]))
                tally.add("accepted")
    assert unreadable == []
    assert tally.counts["accepted"] > (600 if form == "short" else 3_500)
    assert tally.counts["rejected"] > tally.counts["accepted"]


def test_each_type_is_tried():
    assert {event["type"] for event in samples()} == {kind.__struct_config__.tag for kind in AnyEvent.__args__}
