"""A group's state that contradicts itself is noticed, whatever is wrong with it."""

from collections.abc import Callable

import msgspec
import pytest

from rebalance_model.observe.state import GroupState, IncidentKey, InvariantError, Pending
from tests.rules.test_incidents import healthy, stuck_rounds
from tests.support.trace import Held, Member, Trace, mq

OPEN = IncidentKey("CLOCK_SKEW", "a")


def _without_a_client(state: GroupState) -> None:
    del state.clients["a"]


def _another_channel(state: GroupState) -> None:
    table = state.views["broker-a"].info.channel_info_table
    channel, info = next(iter(table.items()))
    table[channel] = msgspec.structs.replace(info, channel="elsewhere")


def _filed_wrongly(state: GroupState) -> None:
    state.incidents[OPEN].code = "LOCK_EXPIRED"


def _before_its_begin(state: GroupState) -> None:
    assert state.episode is not None
    state.episode.last_change = state.episode.start_time - 1


@pytest.mark.parametrize(
    ("contradict", "sentence"),
    [
        (_another_channel, "broker-a has a member under another's channel"),
        (lambda state: setattr(state, "members", ("b",)), "the members are not those of the brokers' views"),
        (_without_a_client, "a member has no client view"),
        (lambda state: setattr(state.queues[mq(0)], "owner", "ghost"), "the owner of Orders@broker-a:0 is no member"),
        (lambda state: setattr(state.queues[mq(0)], "stalled_ms", -1), "Orders@broker-a:0 has stalled for a negative"),
        (lambda state: setattr(state.queues[mq(1)], "claimants", ("c",)), "Orders@broker-a:1 is claimed by a client"),
        (lambda state: setattr(state.queues[mq(0)], "claimants", ()), "a queue of a lacks it as a claimant"),
        (lambda state: state.shares.update(a=7), "the members' shares are not counted right"),
        (_filed_wrongly, f"incident {OPEN} is filed wrongly"),
        (lambda state: state.pending.update({OPEN: Pending(0)}), f"incident {OPEN} is open and pending"),
        (lambda state: state.unsettled.clear(), "the subjects of incidents are not counted right"),
        (_before_its_begin, "a rebalance changed before it began"),
    ],
)
def test_a_state_that_contradicts_itself_is_seen(contradict: Callable[[GroupState], object], sentence: str) -> None:
    trace = Trace()
    healthy(trace, 0, 20)
    stuck_rounds(trace, Member((Held(0, consume_age=50, in_listener=1), Held(1))), rounds=5)
    trace.poll(70, {"a": Member((Held(0, consume_age=70, in_listener=1),))})  # an incident is open, a rebalance begins
    trace.state.validate()
    contradict(trace.state)
    with pytest.raises(InvariantError, match=f"c/g: {sentence}"):
        trace.state.validate()
