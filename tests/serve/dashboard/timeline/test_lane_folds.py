"""First view of a large group: problems by reason, and folds."""

import pytest

from streaming.base.errors import UserError
from streaming.queries.health import WithoutOwner
from streaming.queries.results import Queue
from streaming.serve.dashboard.pages.group_state import state
from streaming.serve.dashboard.parts.moment import Window
from streaming.serve.dashboard.timeline.lane_folds import (
    History,
    LaneFilter,
    checked,
    has_moved,
    history,
    lanes_of,
    owner_spans,
    reasons,
)
from tests.serve.dashboard.tables import MINUTE, STORM_QUEUES, orders, storm
from tests.support.asked import Asked
from tests.support.tables import append, make_tables

NOW = 1_795_300_000_000
HOUR = 60 * MINUTE


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = make_tables(tmp_path_factory.mktemp("tables"))
    append(folder, [row for group in [orders(NOW), *storm(NOW)] for row in group.taken()])
    with Asked(folder) as opened:
        yield opened


def place(queue: Queue):
    return queue.topic, queue.broker, queue.queue_id


def folded(queues, fold="", moved=(), without_owner=WithoutOwner.UNASSIGNED):
    found = sorted(map(place, queues))
    return lanes_of(found, {place(q): q for q in queues}, moved, fold, without_owner)


@pytest.fixture(scope="module")
def queues(model):
    return state(model, "storm-group", None, None).queues


def sane(queues, count):
    """Return so many queues without a problem."""
    known = {"status": "OK", "status_reason": "", "lag": 2, "lag_is_stale": False, "lag_is_at_least": False}
    return [q.model_copy(update={**known, "expected_owner": q.owner}) for q in queues if q.owner is not None][:count]


def test_many_problems_are_folded_by_reason_and_rare_ones_listed(queues):
    lanes = folded(queues)

    assert lanes.top == [5, 7]
    first = lanes.folds[0]
    assert (first.name, first.status, len(first.lanes)) == ("BROKER_UNREACHABLE", "BAD", STORM_QUEUES // 2)
    assert [one.name for one in lanes.folds[1:]] == ["broker-a", "broker-b"]


def test_a_fold_counts_all_its_queues_and_has_their_worst_status(queues):
    a, b = folded(queues, moved={5, 30}).bands

    assert (a.name, len(a.lanes), a.status, a.problems, a.moved, a.unassigned) == ("broker-a", 60, "BAD", 2, 2, 1)
    assert (b.problems, b.unassigned) == (60, 0)
    assert sorted([*a.lanes, *b.lanes]) == list(range(STORM_QUEUES))
    assert a.facts.startswith("60 queues, 2 with a problem, 1 unassigned, 2 moved, lag ")


def test_folds_by_client_have_one_for_queues_without_an_owner(queues):
    lanes = folded(queues, "client")

    unassigned = next(one for one in lanes.bands if one.name == "unassigned")
    assert unassigned.lanes == [5]
    assert {one.name for one in lanes.bands} == {q.owner or "unassigned" for q in queues}
    shared = folded(
        [q.model_copy(update={"owner": None}) for q in queues], "client", without_owner=WithoutOwner.EVERY_CLIENT
    )
    assert [(one.name, one.unassigned) for one in shared.bands] == [("every client", 0)]


@pytest.mark.parametrize(
    ("lag", "text"),
    [({}, "lag 120"), ({"lag": None}, "lag ≥118"), ({"lag_is_stale": True}, "lag ≥118"),
     ({"lag_is_at_least": True}, "lag ≥120")],
)  # fmt: skip
def test_the_lag_of_a_fold_is_a_lower_bound_if_one_is_unknown(queues, lag, text):
    folds = sane(queues, 60)
    folds[0] = folds[0].model_copy(update=lag)

    [fold] = folded(folds, "ok").folds
    assert fold.facts.endswith(text)


def test_a_queue_that_does_not_exist_at_the_instant_is_unknown(queues):
    found = sane(queues, 60)
    lanes = lanes_of(sorted(map(place, found)), {place(q): q for q in found[1:]}, (), "client", WithoutOwner.UNASSIGNED)

    assert next(one for one in lanes.folds if one.name == "not known at this time").status == "UNKNOWN"


def test_small_groups_are_folded_on_a_narrow_screen_only(queues):
    small = folded(queues[:20])
    assert small.narrow
    assert [one.name for one in small.folds] == ["OK queues"]
    assert set(small.top) | set(small.folds[0].lanes) == set(range(20))
    assert folded(queues[:20], "none").folds == ()
    assert not folded(queues[:20], "ok").narrow
    assert not folded(queues).narrow
    one_broker = [q for q in queues if q.broker == "broker-a"] * 2
    more = [q.model_copy(update={"queue_id": n}) for n, q in enumerate(one_broker)]
    assert {one.name for one in folded(more).bands} == {q.owner or "unassigned" for q in more}


def test_reasons_name_the_owners_and_brokers_of_their_queues(queues):
    unlike = [q.model_copy(update={"status": "OK", "status_reason": "", "expected_owner": "x"}) for q in queues[9:10]]
    by_reason = reasons([*queues[:9], *unlike, *queues[10:]], {}, WithoutOwner.UNASSIGNED)

    assert [(one.status, one.queues, one.why) for one in by_reason] == [
        ("BAD", 60, "BROKER_UNREACHABLE"), ("BAD", 1, "QUEUE_DOUBLE_OWNED STRATEGY_MISMATCH"),
        ("BAD", 1, "QUEUE_UNASSIGNED, unexpected owner"), ("OK", 1, "unexpected owner"),
    ]  # fmt: skip
    assert by_reason[0].brokers == "broker-b"
    assert by_reason[0].owners == "10.2.0.10@710 (8), 10.2.0.11@711 (8), 10.2.0.12@712 (8) and 5 more"
    assert by_reason[2].owners == "unassigned"


def test_an_unknown_way_to_fold_is_refused_in_a_sentence():
    assert checked(LaneFilter(fold="client")).fold == "client"
    with pytest.raises(UserError, match=r"Invalid fold 'room': use one of broker, client, ok, none"):
        checked(LaneFilter(fold="room"))


def test_a_queue_has_moved_if_its_owner_changed_or_it_has_lost_it(model):
    past = history(model, "storm-group", None, Window(NOW - HOUR, NOW))
    spans = owner_spans(past, NOW)

    moved = {queue_id for (_, _, queue_id), of in spans.items() if has_moved(of)}
    assert moved == {5, 24, 25, 26, 27, 28, 29, 30, 31}  # unassigned now, and those of the client that died
    assert not any(map(has_moved, owner_spans(shortened(past, NOW - 26 * MINUTE), NOW).values()))


def shortened(past: History, until: int) -> History:
    """Return the part of a history until a time."""
    kept = [i.model_copy(update={"to_time": None}) for i in past.intervals if i.from_time < until]
    return History(Window(past.window.since, until), kept, past.unassigned, [], past.totals, [], [])
