"""Limits of events fit into the state: a looser field would be written and never read again."""

from collections.abc import Iterator

import msgspec
import pytest
from msgspec import inspect

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.engine.salvage import ShardState
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.progress import ProgressState
from rebalance_model.observe.state import GroupState

OF_NO_QUEUE = {
    *((kind, "broker") for kind in ("ProxyConnection", "ConsumerRunningInfo", "TopicRoute")),
    *((kind, "broker") for kind in ("Tick", "TelemetryLost", "ClockStep", "ProxyStatus")),
    *((kind, "queue_id") for kind in ("PopMessage", "PopProcessQueueInfo", "InvokeBrokerToResetOffset")),
}
"""Fields that may be looser, because they are part of no `MessageQueue`: of no broker, or of all queues of one."""
Limits = dict[str, int]


def structs_of(*roots: object) -> dict[type, inspect.StructType]:
    """Return all structs that are part of these types."""
    structs: dict[type, inspect.StructType] = {}

    def walk(part: object) -> None:
        if isinstance(part, inspect.StructType):
            if part.cls in structs:
                return
            structs[part.cls] = part
            for field in part.fields:
                walk(field.type)
        for name in ("key_type", "value_type", "item_type"):
            if hasattr(part, name):
                walk(getattr(part, name))
        for name in ("types", "item_types"):
            for one in getattr(part, name, ()):
                walk(one)

    for root in roots:
        walk(inspect.type_info(root))
    return structs


def limits_of(struct: inspect.StructType) -> Iterator[tuple[str, Limits]]:
    """Yield the limits of each field that is a number or a text; absent ones are left out."""
    for field in struct.fields:
        for kind in getattr(field.type, "types", (field.type,)):
            if isinstance(kind, inspect.StrType | inspect.IntType):
                names = ("ge", "le", "min_length", "max_length")
                yield field.name, {one: value for one in names if (value := getattr(kind, one, None)) is not None}


def is_looser(event: Limits, state: Limits) -> bool:
    for name, limit in state.items():
        own = event.get(name)
        if own is None or (own < limit if name in {"ge", "min_length"} else own > limit):
            return True
    return False


EVENTS = structs_of(*AnyEvent.__args__)
STATE = structs_of(GroupState, ProgressState, *(kind for kind in structs_of(ShardState) if kind not in EVENTS))
KEPT = {name: limits for struct in STATE.values() for name, limits in limits_of(struct) if limits}
"""The limits of the state, by the field's name."""


def test_the_limits_of_the_state_are_found():
    assert {"topic", "broker", "queue_id"} <= KEPT.keys()
    assert KEPT["broker"] == {"min_length": 1, "max_length": 1_000}
    assert MessageQueue in STATE
    assert set(AnyEvent.__args__) <= EVENTS.keys()


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
def test_no_field_of_an_event_is_looser_than_the_state(kind):
    """If this fails: give the field the type of the state, as `BrokerGroupEvent.broker` has that of `MessageQueue`."""
    looser = {
        (kind.__name__, name)
        for name, limits in limits_of(EVENTS[kind])
        if name in KEPT and is_looser(limits, KEPT[name])
    }
    assert looser == {one for one in OF_NO_QUEUE if one[0] == kind.__name__}


def test_a_looser_field_is_seen():
    loose = msgspec.defstruct("Loose", [("broker", str), ("topic", str | None)])
    assert [is_looser(limits, KEPT[name]) for name, limits in limits_of(structs_of(loose)[loose])] == [True, True]
