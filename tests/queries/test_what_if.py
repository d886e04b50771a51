"""Predictions: shares that partition the queues, counts that can be checked by hand, questions that make no sense."""

import re
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_model.allocation import strategy
from rebalance_model.entities import MessageQueue, in_java_order, queue_order
from rebalance_model.observe.policy import NEED_NO_PARAMETERS as STRATEGIES
from streaming.base.errors import NotFoundError, UserError
from streaming.base.limits import WHAT_IF_CLIENTS
from streaming.queries.group_at import find_group
from streaming.queries.what_if import _member, _plan, coming, newcomers, what_if
from tests.support.asked import INSTANTS, ReportedGroup

CLIENTS = st.lists(st.text("ab-@1290", min_size=1, max_size=6), min_size=1, max_size=8, unique=True)
QUEUES = st.lists(
    st.builds(MessageQueue, st.just("Orders"), st.sampled_from(["a", "b"]), st.integers(0, 12)),
    min_size=1, max_size=20, unique=True,
)  # fmt: skip


@st.composite
def situations(draw) -> tuple[dict[MessageQueue, str | None], list[str]]:
    """Any owners, members or not, and the clients that there would be."""
    members = draw(CLIENTS)
    owner = st.none() | st.sampled_from([*members, "gone"])
    return {queue: draw(owner) for queue in draw(QUEUES)}, draw(CLIENTS)


def planned(name, queues, clients) -> dict[MessageQueue, str]:
    """Return who would get which queue, by the strategy itself."""
    shares = strategy(name).plan("g", sorted(queues, key=queue_order), in_java_order(clients))
    return {queue: client for client, share in shares.items() for queue in share}


@pytest.mark.parametrize("name", STRATEGIES)
@given(situations())
def test_a_plan_divides_every_queue_once_and_counts_what_moves(name, situation):
    owners, clients = situation
    plan = _plan(name, "g", owners, in_java_order(clients))

    then = {queue: share.client_id for share in plan.shares for queue in share.gains}
    assert len(then) == sum(len(share.gains) for share in plan.shares) == plan.queues_moved
    lost = {queue for share in plan.shares for queue in share.loses}
    after = {str(queue): then.get(str(queue), owner) for queue, owner in owners.items()}
    assert set(after.values()) <= set(clients)
    assert lost == {str(queue) for queue, owner in owners.items() if owner is not None and str(queue) in then}
    assert {share.client_id: share.then for share in plan.shares if share.then} == Counter(after.values())
    assert {share.client_id: share.now for share in plan.shares if share.now} == Counter(filter(None, owners.values()))
    assert plan.queues == len(owners)
    assert after == {str(queue): client for queue, client in planned(name, owners, clients).items()}


@given(situations())
def test_the_fewest_moves_are_what_a_matching_of_counts_needs(situation):
    owners, clients = situation
    for name in STRATEGIES:
        plan = _plan(name, "g", owners, in_java_order(clients))
        kept = sum(min(share.now, share.then) for share in plan.shares)
        assert plan.queues_moved_min == plan.queues - kept
        assert plan.queues_moved_min <= plan.queues_moved <= plan.queues


@pytest.mark.parametrize("name", STRATEGIES)
@given(QUEUES, CLIENTS)
def test_nothing_moves_where_everything_is_as_planned(name, queues, clients):
    assert _plan(name, "g", planned(name, queues, clients), in_java_order(clients)).queues_moved == 0


@given(st.lists(st.text(max_size=8), unique=True, max_size=6), st.integers(0, 5))
def test_newcomers_are_new_and_as_many_as_wanted(members, number):
    made = newcomers(members, number)
    assert len({*made}) == number
    assert not {*made} & {*members}


@pytest.mark.parametrize(
    ("members", "made"),
    [
        (["10.0.0.1@orders-1", "10.0.0.1@orders-2"], ["10.0.0.1@orders-3", "10.0.0.1@orders-4"]),
        (["a-3", "a-2"], ["a-4", "a-5"]),
        (["10.0.0.1@app"], ["10.0.0.1@app1", "10.0.0.1@app2"]),
        (["10.0.0.1@77#1009"], ["10.0.0.1@77#1010", "10.0.0.1@77#1011"]),
        ([], ["client-1", "client-2"]),
    ],
)
def test_newcomers_are_named_like_the_last_member(members, made):
    assert newcomers(members, 2) == made


@pytest.fixture(scope="module")
def model(asked_model):
    return asked_model


AT = INSTANTS[1]


def test_a_plan_is_made_of_the_members_and_owners_of_then(model):
    reported = ReportedGroup("g", AT)
    plans = what_if(model, find_group(model, "g", at=AT), leave=["a"], join=["z"]).plans

    assert {plan.strategy for plan in plans} == set(STRATEGIES)
    members = {*reported.state().members, "z"} - {"a"}
    for plan in plans:
        assert plan.queues == len(reported.queues())
        assert sum(share.then for share in plan.shares) == plan.queues
        assert {share.client_id for share in plan.shares if share.then} <= members
        assert {share.client_id: share.now for share in plan.shares if share.now} == Counter(reported.owners().values())


def test_the_groups_own_strategy_comes_first(model):
    own = strategy("AVG").name
    assert ReportedGroup("g", AT).state().strategy == "AllocateMessageQueueAveragely"
    assert what_if(model, find_group(model, "g", at=AT)).plans[0].strategy == own


def test_clients_may_be_given_instead_of_the_members(model):
    plans = what_if(model, find_group(model, "g", at=AT), clients=["x", "y"]).plans
    assert {share.client_id for share in plans[0].shares if share.then} == {"x", "y"}
    assert what_if(model, find_group(model, "g", at=AT), clients=["x", "y", "w"], leave=["w"]).plans == plans


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"leave": ["aa"]}, "aa is not a member of g: did you mean a"),
        ({"leave": ["stranger"]}, "stranger is not a member of g: `rebalance-watch group show g` lists its members"),
        ({"join": ["a"]}, "a is already a member of g"),
        ({"clients": []}, "g would have no members left"),
        ({"topic": "Order"}, "Unknown topic Order of g"),
    ],
)
def test_what_makes_no_sense_is_a_sentence(model, arguments, sentence):
    with pytest.raises(UserError, match=sentence):
        what_if(model, find_group(model, "g", at=AT), **arguments)


def test_a_groups_name_is_quoted_in_the_command_that_lists_its_members():
    with pytest.raises(UserError, match=re.escape("`rebalance-watch group show 'g;reboot'` lists its members")):
        _member("g;reboot", "stranger", [])


def test_what_is_not_divided_is_not_planned(model):
    with pytest.raises(UserError, match="everyone is broadcasting"):
        what_if(model, find_group(model, "everyone", at=AT))
    with pytest.raises(NotFoundError, match="did you mean twin"):
        what_if(model, find_group(model, "twins"))


@pytest.mark.parametrize(
    "join", [[str(WHAT_IF_CLIENTS + 1)], ["600", "401"], ["9" * 5_000], ["600", *map(str, range(1, 600))]]
)
def test_more_clients_than_the_limit_are_refused_before_they_are_named(join):
    with pytest.raises(UserError, match="at most 1,000"):
        coming(["a-1"], join)


def test_a_long_number_at_the_end_of_a_name_is_counted_on():
    assert newcomers(["a" + "1" * 5_000], 1) == ["a" + "1" * 4_999 + "2"]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_plan_of_the_most_clients_takes_about_a_second_at_most(name):
    """Of processor time; a second of a busy processor does less."""
    clients = [f"client-{number:04}" for number in range(WHAT_IF_CLIENTS)]
    owners = {MessageQueue("Orders", "b", number): clients[number % 500] for number in range(4_096)}
    began = time.process_time()
    plan = _plan(name, "g", owners, clients)
    assert time.process_time() - began < 3
    assert sum(share.then for share in plan.shares) == 4_096
