"""Questions of a user to a model, through a real client over both transports: the answers are those of REST."""

from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from msgspec.structs import replace

from rebalance_model.observe.rules.registry import RULES
from streaming.base.times import written
from streaming.queries.results import QueryResult, times_of
from streaming.serve.web.access import access
from streaming.serve.web.server import api_application
from tests.support.asked import asked_store
from tests.support.mcp_client import McpClient, over_http, over_stdio
from tests.support.served import answering
from tests.support.world import NOON, example

pytestmark = pytest.mark.xdist_group("mcp")  # one server for all of them

AT = NOON + 20_000
TIMES = frozenset().union(*map(times_of, QueryResult.__subclasses__()))
LATER = NOON + 431_373_000
"""Five days after the last telemetry."""


@pytest.fixture(scope="module")
def settings(tmp_path_factory, settings_in):
    made = settings_in(tmp_path_factory.mktemp("mcp"))
    world = example()
    world.incident("orders", "STALE_HEARTBEAT", client_id="B", subject="B", severity="warning")
    world.rebalance("orders", NOON - 1_000)
    [move] = world.effects[-1].moves
    world.effects[-1] = replace(world.effects[-1], moves=(replace(move, pause_ms=70),))
    world.write(made.runtime.tables)
    return made


@pytest.fixture(scope="module")
def address(settings) -> Iterator[str]:
    with asked_store(settings.runtime.tables) as store:
        app = api_application(settings, store, access("127.0.0.1", settings.web))
        with answering(app) as address:
            yield address


@pytest.fixture(scope="module")
def rest(address):
    with httpx.Client(base_url=f"{address}/api/v1", timeout=120) as client:

        def get(path: str, **parameters: object) -> object:
            answer = client.get(path, params=parameters)
            assert answer.status_code == 200, answer.text
            return _in_iso(answer.json())

        get.client = client
        yield get


def _in_iso(answer: object) -> object:
    """Return an answer of REST with its points in time in ISO 8601, as MCP gives them."""
    if isinstance(answer, list):
        return [_in_iso(one) for one in answer]
    if not isinstance(answer, dict):
        return answer
    return {
        name: written(one) if name in TIMES and isinstance(one, int) else _in_iso(one) for name, one in answer.items()
    }


@pytest.fixture(scope="module", params=["stdio", "http"])
def model(request, settings, address) -> Iterator[McpClient]:
    with ExitStack() as stack:
        over = over_stdio(settings.runtime.root) if request.param == "stdio" else over_http(address)
        yield stack.enter_context(over)


def test_which_groups_are_unhealthy(model, rest):
    answer = model.ask("list_groups", at=AT)

    assert answer["answer"] == rest("/groups", at=AT)
    assert [(one["group"], one["health"]) for one in answer["answer"]][:2] == [("orders", "BAD"), ("quiet", "UNKNOWN")]
    assert (answer["time"], answer["note"]) == ("2026-11-21T12:00:20.000Z", None)
    assert [(one["cluster"], one["is_stale"]) for one in answer["telemetry"]] == [("c", False)]


def test_who_owned_a_queue_at_an_instant(model, rest):
    [answer] = model.ask("who_owned", queue="Orders@b:0", group="orders", at=AT)["answer"]

    assert answer["owner"] == rest("/groups/orders/owners/Orders/b/0", at=AT)
    assert answer["owner"]["client_id"] == "A"


def test_who_owned_a_queue_in_every_group(model, rest):
    answer = model.ask("who_owned", queue="Orders@b:0", at=AT)["answer"]

    assert answer == rest("/owners/Orders/b/0", at=AT)
    owners = {one["group"]: (one["owner"] and one["owner"]["client_id"], one["unknown"]) for one in answer}
    assert owners["orders"] == ("A", None)
    assert owners["all"][0] is None
    assert "broadcasting" in owners["all"][1]


def test_why_a_queue_is_stuck(model, rest):
    answer = model.ask("show_queue", group="orders", queue="Orders@b:0", since=NOON - 60_000, at=AT)["answer"]

    assert answer == rest("/groups/orders/queues/Orders/b/0", since=NOON - 60_000, at=AT)
    assert {one["code"] for one in answer["history"]["incidents"]} >= {"ORDERED_QUEUE_STUCK"}
    problems = model.ask("list_queues", group="orders", at=AT, problems_only=True)["answer"]
    assert [(one["queue_id"], one["status"]) for one in problems] == [(0, "BAD"), (1, "WARN")]


def test_the_open_incidents_with_their_next_step(model, rest):
    answer = model.ask("list_incidents", at=AT)["answer"]

    assert answer == rest("/incidents", at=AT)
    assert {one["first_step"] for one in answer} == {"what"}
    detail = model.ask("show_incident", incident_id="ordered_queue_stuck")["answer"]
    assert detail == rest("/incidents/ordered_queue_stuck")
    assert detail["incident"]["evidence"] == {"stalled_ms": 61_000}
    assert {one["code"] for one in model.ask("list_incidents", state="resolved")["answer"]} == {"LAG_GROWTH"}


def test_the_costliest_rebalance(model, rest):
    answer = model.ask("list_rebalances", group="orders", moves=True)["answer"]

    assert answer["rebalances"] == rest("/groups/orders/rebalances")
    assert answer["totals"] == rest("/groups/orders/rebalances/totals")
    costliest = model.ask("show_rebalance", group="orders", rebalance_id=answer["totals"]["costliest"])["answer"]
    assert costliest == rest(f"/groups/orders/rebalances/{costliest['rebalance_id']}")
    assert costliest["moves"][0]["pause_ms"] == 70


def test_the_lag_at_an_instant_and_over_a_period(model, rest):
    assert model.ask("show_group", group="orders", at=AT)["answer"] == rest("/groups/orders", at=AT)
    answer = model.ask("show_lag", group="orders", since=NOON - 1_000, until=NOON + 1_000, slices=2)["answer"]

    assert answer == rest("/groups/orders/lag", since=NOON - 1_000, until=NOON + 1_000, slices=2)
    assert [(one["topic"], one["lag"], one["lag_unknown"]) for one in answer][-1] == ("Orders", 50, 1)


def test_what_happens_if_a_client_leaves(model, rest):
    answer = model.ask("what_if", group="orders", leave=["A"], at=AT)["answer"]

    assert answer == rest("/groups/orders/what-if", leave="A", at=AT)
    assert {one["to_client"] for one in answer[0]["moves"]} == {"B"}
    short = model.ask("what_if", group="orders", leave=["A"], queues=False, at=AT)["answer"]
    assert (short[0]["moves"], short[0]["queues_moved"]) == ([], answer[0]["queues_moved"])
    assert [(one["now"], one["then"], one["gains"]) for one in short[0]["shares"]] == [
        (one["now"], one["then"], []) for one in answer[0]["shares"]
    ]
    assert model.ask("plan_rolling_restart", group="orders", at=AT)["answer"] == rest(
        "/groups/orders/rolling-restart", at=AT
    )


def test_which_clients_are_unhealthy(model, rest):
    answer = model.ask("list_clients", group="orders", at=AT)["answer"]

    assert answer == rest("/clients", group="orders", at=AT)
    assert [one["client_id"] for one in answer if one["open_incidents"]] == ["B"]
    detail = model.ask("show_client", client_id="B", at=AT)["answer"]
    assert detail == rest("/clients/B", at=AT)
    assert [one["code"] for one in detail["incidents"]] == ["STALE_HEARTBEAT"]


def test_a_question_in_sql(model, rest):
    query = "SELECT g.group, g.health FROM current_groups g ORDER BY 1"
    answer = model.ask("sql", query=query)["answer"]

    assert answer == rest.client.post("/sql", json={"query": query}).json()
    assert (answer["rows"][0], answer["cut"]) == (["all", "OK"], False)
    assert model.ask("sql", query=query, limit=1)["answer"]["cut"] is True


def test_a_group_that_does_not_exist(model, rest):
    refusal = model.refusal("show_group", group="order")

    assert refusal == "Unknown consumer group order: did you mean orders?"
    assert refusal == rest.client.get("/groups/order").json()["error"]


def test_a_time_after_the_data(model, rest):
    answer = model.ask("list_groups", at=LATER)

    assert answer["answer"] == rest("/groups", at=LATER)
    assert {(one["health"], one["is_stale"]) for one in answer["answer"]} == {("UNKNOWN", True)}
    assert answer["telemetry"][0]["is_silent"]
    assert "4 d 23 h after the last telemetry (2026-11-21T12:00:30.000Z): nothing is known" in answer["note"]
    [owner] = model.ask("who_owned", queue="Orders@b:0", group="orders", at=LATER)["answer"]
    assert owner["owner"] is None
    assert "are unknown: that is 4 d 23 h after the last telemetry" in owner["unknown"]


def test_now_long_after_the_last_telemetry(model):
    answer = model.ask("list_groups")

    assert answer["time"] == written(NOON + 30_000)
    assert answer["telemetry"][0]["is_silent"]
    assert answer["note"].startswith("As of 2026-11-21T12:00:30.000Z, the last telemetry, ")


def test_the_text_of_a_rule(model):
    code = "ORDERED_QUEUE_STUCK"
    [rule] = [one for one in RULES if one.code == code]
    text = model.ask("explain_rule", code=code.lower())
    page = model.read(f"rebalance-watch://rules/{code}")

    assert {one["sub_cause"]: one["first_step"] for one in text["sub_causes"]} == {
        sub: rule.advise(sub).first_step for sub in rule.sub_causes
    }
    for sub in rule.sub_causes:
        assert rule.advise(sub).what in page
        assert rule.advise(sub).first_step in page


def test_a_long_list_is_cut_and_says_so(model):
    answer = model.ask("list_queues", group="orders", at=AT, limit=1)

    assert [one["queue_id"] for one in answer["answer"]] == [0]
    assert answer["left_out"] == {"answer": 3}
