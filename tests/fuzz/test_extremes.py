"""Each number of each event at its limits, among the capture's events: the job goes on, and all rows fit their tables.

A mutation seldom puts the highest valid number into the one field where it is added to another one.
"""

from collections.abc import Iterator

import msgspec
import pytest

from rebalance_model.entities import TIME_MAX
from rebalance_model.observe.events import corrected
from rebalance_model.observe.events.decoding import FUTURE_MS_MAX, decode
from tests.fuzz.test_events import KINDS, LINES
from tests.support.fitting import fold

EVENTS = [decode(line, key=None, stamp=2**62, keyed=False) for line in LINES[3_000:3_200]]
Path = tuple[str | int, ...]


def numbers_of(part: msgspec.Struct) -> Iterator[tuple[Path, int]]:
    """Yield each number of an event with its lowest and its highest value; of a list, the first element's."""
    for field in msgspec.inspect.type_info(type(part)).fields:
        value, types = getattr(part, field.encode_name), getattr(field.type, "types", (field.type,))
        for limits in (one for one in types if isinstance(one, msgspec.inspect.IntType)):
            yield from (((field.encode_name,), limit) for limit in (limits.ge, limits.le))
        inner = value[0] if isinstance(value, tuple) and value else value
        if isinstance(inner, msgspec.Struct):
            place = (field.encode_name, 0) if isinstance(value, tuple) else (field.encode_name,)
            yield from (((*place, *path), limit) for path, limit in numbers_of(inner))


def with_number(part: object, path: Path, number: int) -> object:
    """Return an event with another number at a path."""
    if not path:
        return number
    if isinstance(part, tuple):
        return (with_number(part[0], path[1:], number), *part[1:]) if part else part
    name = path[0]
    if getattr(part, name, None) is None:
        return part
    return msgspec.structs.replace(part, **{name: with_number(getattr(part, name), path[1:], number)})


def is_valid(part: msgspec.Struct, path: Path, number: int) -> bool:
    """Return whether the decoder accepts the event with that number: another field may contradict it."""
    try:
        with_number(part, path, number)
    except ValueError:
        return False
    return True


EXAMPLES = {type(event): event for event in (decode(line, key=None, stamp=2**62, keyed=False) for line in KINDS)}
EXAMPLES |= {type(event): event for event in EVENTS if getattr(event, "error", None) is None}


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("count", [80, pytest.param(len(EVENTS), marks=pytest.mark.prove)])
def test_no_number_ends_the_job(kind, count):
    """One event has it; or each second one of the kind, so that it comes and goes."""
    among = EVENTS[:count]
    middle, stamp = count // 2, among[-1].time
    own = [event for event in among if type(event) is kind] or [EXAMPLES[kind]]
    for path, limit in numbers_of(EXAMPLES[kind]):
        if path == ("seq",) or not is_valid(EXAMPLES[kind], path, limit):
            continue
        for chosen in (own[:1], own[::2]):
            changed = {id(event): with_number(event, path, limit) for event in chosen}
            events = [changed.get(id(event), event) for event in (*among[:middle], EXAMPLES[kind], *among[middle:])]
            fold([event for event in events if event.time <= stamp + FUTURE_MS_MAX], stamp)


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
def test_a_corrected_time_can_be_read_again(kind):
    event = EXAMPLES[kind]
    times = [path for path, limit in numbers_of(event) if limit == TIME_MAX and is_valid(event, path, limit)]
    for path in times:
        event = with_number(event, path, TIME_MAX)
    kept = msgspec.msgpack.encode(corrected(event, TIME_MAX + 1, -1))
    assert msgspec.msgpack.decode(kept, type=kind).time == TIME_MAX
