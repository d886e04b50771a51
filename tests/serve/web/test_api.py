"""The REST API over known tables: its answers and errors, equal to those of the command line."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import httpx
import pytest
from typer.testing import CliRunner

from streaming.base.limits import SENTENCE_CHARACTERS
from streaming.base.times import now_ms
from streaming.cli import output
from streaming.cli.main import app as command_line
from streaming.queries import present
from streaming.queries.plan import Plan
from streaming.queries.results import Group, IncidentDetail, Interval, Overview, Queue, Rebalance, SqlResult
from streaming.serve.web.access import access
from streaming.serve.web.server import api_application
from tests.support.asked import Asked, asked_store
from tests.support.served import PROBLEM, answering
from tests.support.world import NOON, example

pytestmark = pytest.mark.xdist_group("web")  # one server for all of them

SINCE = str(NOON - 10_000)
ROUTES = {
    "/health", "/groups", "/groups/{group}", "/groups/{group}/queues", "/groups/{group}/owners",
    "/groups/{group}/owners/{topic}/{broker}/{queue_id}", "/groups/{group}/intervals", "/groups/{group}/diff",
    "/groups/{group}/rebalances", "/groups/{group}/rebalances/{rebalance_id}", "/groups/{group}/lag",
    "/groups/{group}/what-if", "/groups/{group}/rolling-restart", "/incidents", "/incidents/{incident_id}", "/sql",
    "/clients", "/quality", "/owners/{topic}/{broker}/{queue_id}", "/groups/{group}/rebalances/totals",
    "/incidents/{incident_id}/acknowledge", "/incidents/{incident_id}/silence",
    "/incidents/{incident_id}/close", "/incidents/{incident_id}/reopen", "/actions",
    "/clients/{client_id}", "/groups/{group}/queues/{topic}/{broker}/{queue_id}",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    """The clock stands still: ages are the same in two answers."""
    now = now_ms()
    monkeypatch.setattr(present, "now_ms", lambda: now)


@pytest.fixture(scope="module")
def settings(tmp_path_factory, settings_in):
    made = settings_in(tmp_path_factory.mktemp("api"))
    made = made.model_copy(update={"web": made.web.model_copy(update={"sql_seconds": 4, "sql_rows": 8})})
    example().write(made.runtime.tables)
    return made


@pytest.fixture(scope="module")
def api(settings):
    with asked_store(settings.runtime.tables) as store:
        app = api_application(settings, store, access("127.0.0.1", settings.web))
        with answering(app) as address, httpx.Client(base_url=f"{address}/api/v1", timeout=120) as client:
            yield client


@pytest.fixture(scope="module")
def model(settings):
    """The tables, opened once for all commands: that takes longer than a command."""
    with Asked(settings.runtime.tables) as opened:
        yield opened


def body_of(answer: httpx.Response):
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_groups_are_sorted_by_health(api):
    assert [(one["group"], one["health"]) for one in body_of(api.get("/groups"))] == [
        ("orders", "BAD"), ("quiet", "UNKNOWN"), ("all", "OK"),
    ]  # fmt: skip
    assert body_of(api.get("/groups", params={"cluster": "c"})) == body_of(api.get("/groups"))


def test_after_the_last_telemetry_no_answer_says_ok_or_unassigned(api):
    later = {"at": NOON + 431_373_000}
    assert {(one["health"], one["is_stale"]) for one in body_of(api.get("/groups", params=later))} == {
        ("UNKNOWN", True)
    }
    assert {one["status"] for one in body_of(api.get("/groups/orders/queues", params=later))} == {"UNKNOWN"}
    for path in ("/groups/orders/owners", "/groups/orders/owners/Orders/b/1"):
        refused = api.get(path, params=later)
        assert refused.status_code == 400
        assert "are unknown: that is 4 d 23 h after the last telemetry" in refused.text


def test_a_group_with_its_members_and_incidents(api):
    shown_group = Overview(**body_of(api.get("/groups/orders")))

    assert [(member.client_id, member.queues) for member in shown_group.members] == [("A", 3), ("B", 0)]
    assert {incident.code for incident in shown_group.incidents} >= {"ORDERED_QUEUE_STUCK"}
    assert body_of(api.get("/groups/all"))["group"]["unowned"] is None


def test_queues_at_an_instant(api):
    queues = [Queue(**one) for one in body_of(api.get("/groups/orders/queues", params={"at": NOON + 1}))]

    assert [(one.queue_id, one.owner, one.lag) for one in queues] == [
        (0, "A", 40),
        (1, None, 9),
        (2, "A", None),
        (3, "A", 1),
    ]
    assert len(body_of(api.get("/groups/orders/queues", params={"retry": True}))) == 5
    assert body_of(api.get("/groups/orders/queues", params={"at": "2026-11-21T12:00:00.001"})) == [
        one.model_dump(mode="json") for one in queues
    ]


def test_owners_with_the_begin_and_end_of_their_ownership(api):
    owners = [Interval(**one) for one in body_of(api.get("/groups/orders/owners"))]

    assert [(one.queue_id, one.client_id, one.from_time, one.to_time) for one in owners] == [
        (0, "A", NOON, None), (2, "A", NOON, None), (3, "A", NOON, None),
    ]  # fmt: skip
    assert Interval(**body_of(api.get("/groups/orders/owners/Orders/b/0"))) == owners[0]
    assert body_of(api.get("/groups/orders/owners/Orders/b/1")) is None
    span = {"since": NOON - 5_000, "until": NOON + 5_000, "topic": "Orders"}
    assert body_of(api.get("/groups/orders/intervals", params=span)) == [one.model_dump() for one in owners]


def test_a_rebalance_with_its_causes_and_cost(api):
    changed = body_of(api.get("/groups/orders/diff", params={"from": NOON, "to": NOON + 1}))
    assert changed == []
    newest, *_ = [Rebalance(**one) for one in body_of(api.get("/groups/orders/rebalances", params={"last": 2}))]
    assert (newest.end_time, newest.trigger, len(newest.moves)) == (NOON - 2_000, "CLIENT_JOINED", 1)
    assert body_of(api.get(f"/groups/orders/rebalances/{newest.rebalance_id}"))["end_time"] == newest.end_time
    assert len(body_of(api.get("/groups/orders/rebalances", params={"since": NOON - 10_000}))) == 2


def test_lag_over_time_in_equal_slices(api):
    points = body_of(api.get("/groups/orders/lag", params={"since": NOON - 1_000, "until": NOON + 1_000, "slices": 2}))

    assert [(one["topic"], one["lag"], one["lag_unknown"]) for one in points][-1] == ("Orders", 50, 1)


def test_the_assignment_after_a_hypothetical_change(api):
    plans = [
        Plan(**one) for one in body_of(api.get("/groups/orders/what-if", params={"leave": "A", "join": ["C", "1"]}))
    ]

    assert plans[0].strategy == "AVG"
    assert [share.client_id for share in plans[0].shares] == ["A", "B", "C", "C1"]


def test_open_and_resolved_incidents(api):
    found = body_of(api.get("/incidents"))
    assert {one["incident_id"] for one in body_of(api.get("/incidents", params={"all": True}))} - {
        one["incident_id"] for one in found
    } == {"over"}
    assert [one["incident_id"] for one in body_of(api.get("/incidents", params={"resolved": True}))] == ["over"]
    assert {one["code"] for one in body_of(api.get("/incidents", params={"severity": "warning"}))} == {
        "QUEUE_UNASSIGNED"
    }
    detail = IncidentDetail(**body_of(api.get("/incidents/ordered_queue_stuck")))
    assert [one.code for one in detail.absorbed] == ["LOCK_EXPIRED"]


def test_a_select_of_the_user(api):
    asked = {"query": "SELECT g.group, g.health FROM current_groups g ORDER BY 1"}
    answer = SqlResult(**body_of(api.post("/sql", json=asked)))

    assert (answer.columns, answer.cut) == (("group", "health"), False)
    assert answer.rows[0] == ("all", "OK")


@pytest.mark.parametrize(
    "query", ["SELECT * FROM read_text('/etc/hostname')", "COPY groups TO 'x'", "SELECT 1; SELECT 2", "SET threads = 1"]
)
def test_sql_other_than_a_single_select_is_refused(api, query):
    answer = api.post("/sql", json={"query": query})

    assert (answer.status_code, list(answer.json())) == (400, PROBLEM)


def test_sql_is_limited_in_rows_time_and_concurrency(api):
    rows = body_of(api.post("/sql", json={"query": "SELECT * FROM range(20)"}))
    assert (rows["rows"], rows["cut"]) == ([[n] for n in range(8)], True)

    endless = {"query": "SELECT count(*) FROM range(1000000000) a, range(1000000000) b"}
    with ThreadPoolExecutor() as threads:
        answers = list(threads.map(lambda _: api.post("/sql", json=endless).json()["error"], range(3)))

    assert [sorted(answers)[n].partition(" ")[0] for n in range(3)] == ["2", "The", "The"], answers
    assert sum("took more than 4 seconds" in answer for answer in answers) == 2


def test_health_has_the_age_of_each_source(api):
    health = body_of(api.get("/health"))

    assert [(one["source"], one["instance"], one["time"]) for one in health["sources"]] == [
        ("hook", "hook-b", NOON - 60_000), ("poll", "poll-1", NOON + 30_000),
    ]  # fmt: skip
    assert health["telemetry_age_ms"] == min(one["age_ms"] for one in health["sources"])


@pytest.mark.parametrize(
    ("path", "status", "sentence"),
    [
        ("/groups/order", 404, "did you mean orders?"),
        ("/groups/orders/queues?topic=No", 404, "Unknown topic No"),
        ("/groups?cluster=x", 404, "Unknown cluster x"),
        ("/incidents/zzz", 404, "No incident"),
        ("/owners/Order/b/0", 404, "No group has a topic Order: did you mean Orders?"),
        ("/owners/Orders/x/0", 404, "No group has a queue Orders@x:0: Orders has queues 0 to 3 on b."),
        ("/groups/orders/rebalances/zzz", 404, "No rebalance"),
        ("/groups/orders?at=1000000000000", 400, "choose a later time"),
        ("/groups?at=soon", 400, "Invalid time"),
        (f"/groups/all/diff?from={NOON}", 400, "broadcasting"),
        ("/groups/orders/intervals?since=2026-11-21T12:00Z&until=2026-11-21T11:00Z", 400, "swap them"),
        ("/groups/orders/what-if?leave=Z", 400, "Z is not a member"),
        ("/groups/orders/what-if?join=1000000", 400, "at most"),
        ("/groups/orders/what-if?strategy=BEST", 422, "Invalid strategy 'BEST'"),
        ("/groups/orders/diff", 422, "from: "),
        ("/groups/orders/lag?slices=0", 422, "slices: "),
        ("/incidents?severity=bad", 422, "severity: "),
        ("/nothing", 404, "openapi.json"),
    ],
)
def test_an_invalid_request_is_answered_by_one_sentence(api, path, status, sentence):
    answer = api.get(path)

    assert answer.status_code == status
    assert list(answer.json()) == PROBLEM
    assert sentence in answer.json()["error"]
    assert "\n" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "sentence"),
    [
        ("POST", "/sql", "{", 422, "JSON decode error"),
        ("POST", "/sql", b"\xff", 400, "There was an error parsing the body."),
        ("DELETE", "/groups", "", 405, "Method Not Allowed."),
        ("GET", "/groups/orders/rebalances?last=10001", "", 422, "last: Input should be less than or equal to 10000."),
        ("GET", "/nothing", "", 404, "Unknown path /api/v1/nothing"),
    ],
)
def test_every_refusal_is_one_sentence_in_the_same_form(api, method, path, body, status, sentence):
    answer = api.request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert list(answer.json()) == PROBLEM
    assert sentence in answer.json()["error"]


def test_an_internal_error_shows_no_traceback(api, monkeypatch):
    monkeypatch.setattr("streaming.serve.web.api.incidents.incident_detail.incident", lambda *_: 1 / 0)

    answer = api.get("/incidents/1")

    assert (answer.status_code, answer.json()["error"]) == (500, "Internal error in rebalance-watch: see its log.")


def test_openapi_describes_every_route_with_a_typed_answer(api):
    described = body_of(api.get("/openapi.json"))

    assert {path.removeprefix("/api/v1") for path in described["paths"]} == ROUTES
    for path, methods in described["paths"].items():
        for operation in methods.values():
            assert operation["description"], path
            good = operation["responses"]["200"]["content"]["application/json"]["schema"]
            assert good, path
            for status in ("400", "403", "404", "422"):
                schema = operation["responses"][status]["content"]["application/json"]["schema"]
                assert schema["$ref"].endswith("/Failure"), path
    assert set(described["components"]["schemas"]["Group"]["properties"]) == set(Group.model_fields)


@pytest.mark.parametrize(
    ("command", "path"),
    [
        (["group", "list"], "/groups"),
        (["group", "list", "--at", str(NOON + 1)], f"/groups?at={NOON + 1}"),
        (["group", "show", "orders"], "/groups/orders"),
        (["group", "assignments", "orders", "--retry"], "/groups/orders/queues?retry=true"),
        (["group", "rebalances", "orders"], "/groups/orders/rebalances"),
        (["group", "rebalances", "orders", "--since", SINCE], f"/groups/orders/rebalances?since={SINCE}"),
        (["group", "diff", "orders", "--from", str(NOON), "--to", str(NOON + 1)],
         f"/groups/orders/diff?from={NOON}&to={NOON + 1}"),
        (["who-owned", "orders", "Orders", "b:0"], "/groups/orders/owners/Orders/b/0"),
        (["who-owned", "Orders@b:0"], "/owners/Orders/b/0"),
        (["incident", "list"], "/incidents"),
        (["incident", "list", "--all"], "/incidents?all=true"),
        (["incident", "show", "over"], "/incidents/over"),
        (["allocate", "orders", "--join", "2"], "/groups/orders/what-if?join=2"),
        (["allocate", "orders", "--strategy", "config"], "/groups/orders/what-if?strategy=CONFIG"),
        (["allocate", "orders", "--rolling-restart"], "/groups/orders/rolling-restart"),
    ],
)  # fmt: skip
def test_the_command_line_prints_the_same_bytes(api, model, monkeypatch, command, path):
    monkeypatch.setattr(output, "tables", lambda: nullcontext(model))

    printed = CliRunner().invoke(command_line, [*command, "--format", "json"])

    assert printed.exception is None, printed.output
    assert printed.stdout_bytes.removesuffix(b"\n") == api.get(path).content


def test_sql_returns_the_same_bytes_as_the_command_line(api, settings, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(settings.runtime.root))
    query = "SELECT i.*, sum(i.queue_id) OVER () AS total FROM incidents i ORDER BY ALL"

    printed = CliRunner().invoke(command_line, ["sql", query, "--format", "json"])

    assert printed.stdout_bytes.removesuffix(b"\n") == api.post("/sql", json={"query": query}).content
    assert json.loads(printed.stdout)["rows"]


@pytest.mark.parametrize("path", ["/groups/{}", "/groups?at={}", "/incidents/{}", "/{}", "/owners/{}/b/0"])
def test_an_error_repeats_little_of_what_was_asked(api, path):
    answer = api.get(path.format("x" * 50_000))
    assert 400 <= answer.status_code < 500
    assert len(answer.content) < SENTENCE_CHARACTERS
    assert f"{'x' * 500}" in answer.json()["error"]


def test_pages_of_a_list_are_the_list(api):
    whole = body_of(api.get("/groups/orders/queues", params={"at": NOON + 20_000}))
    pages, path, asked = [], "/groups/orders/queues", {"at": NOON + 20_000, "limit": 3}
    while path is not None:
        answer = api.get(path, params=asked)
        pages.append(body_of(answer))
        following = answer.links.get("next")
        path, asked = (None, None) if following is None else (following["url"].removeprefix("/api/v1"), None)

    assert [len(page) for page in pages] == [3] * (len(whole) // 3) + [len(whole) % 3] * (len(whole) % 3 > 0)
    assert [row for page in pages for row in page] == whole
    assert len(pages) > 1


@pytest.mark.parametrize("asked", [{"limit": 0}, {"limit": "many"}, {"limit": 10_001}, {"cursor": "!"}], ids=str)
def test_what_is_no_page_is_refused(api, asked):
    answer = api.get("/groups", params=asked)

    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(f"{next(iter(asked))}: Input should be ")


def test_an_answer_that_the_reader_has_is_not_sent_again(api):
    then = {"at": NOON + 20_000}
    version = api.get("/groups", params=then).headers["ETag"]
    again = api.get("/groups", params=then, headers={"If-None-Match": version})
    assert (again.status_code, again.content, again.headers["ETag"]) == (304, b"", version)

    changed = api.get("/groups", params=then, headers={"If-None-Match": 'W/"another"'})
    assert (changed.status_code, bool(changed.json())) == (200, True)


def test_an_answer_about_now_has_another_version_later(api, monkeypatch):
    """The ages in it grow while the tables stay the same."""
    at = time.time()
    monkeypatch.setattr("streaming.serve.web.api.route.time.time", lambda: at)
    version = api.get("/groups").headers["ETag"]
    assert api.get("/groups", headers={"If-None-Match": version}).status_code == 304
    at += 60
    assert api.get("/groups", headers={"If-None-Match": version}).status_code == 200
    assert "ETag" not in api.get("/health").headers


def test_an_error_is_a_problem_with_its_details(api):
    answer = api.get("/groups/order")

    assert answer.headers["Content-Type"] == "application/problem+json"
    sentence = "Unknown consumer group order: did you mean orders?"
    assert answer.json() == {"title": "Not Found", "status": 404, "detail": sentence, "error": sentence}


def test_operations_have_names_and_lists_their_pages(api):
    described = body_of(api.get("/openapi.json"))
    routes = [(path, method, route) for path, of in described["paths"].items() for method, route in of.items()]
    names = [route["operationId"] for _, _, route in routes]

    assert len(set(names)) == len(names)
    assert all(name.isidentifier() and "api" not in name for name in names)
    [parameters] = [route["parameters"] for path, _, route in routes if path == "/api/v1/incidents"]
    assert {"limit", "cursor"} <= {one["name"] for one in parameters}


def test_the_description_is_a_page_that_needs_no_other_site(api):
    page = httpx.get(str(api.base_url).replace("/api/v1/", "/docs"))
    described = body_of(api.get("/openapi.json"))

    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    for path, of in described["paths"].items():
        for route in of.values():
            assert f'id="{route["operationId"]}"' in page.text
        assert path in page.text
    assert "http://" not in page.text
    assert "https://" not in page.text
    assert "<script" not in page.text
