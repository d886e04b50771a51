"""Acknowledge and silence over REST, and who may not."""

import httpx
import pytest
from pydantic import SecretStr

from streaming.serve.store import Store
from streaming.serve.web.access import access
from streaming.serve.web.server import api_application
from tests.serve.dashboard.tables import MINUTE, Group
from tests.support.served import PROBLEM, answering
from tests.support.tables import append, make_tables, read_rows

pytestmark = pytest.mark.xdist_group("web")

NOW = 1_795_300_000_000
TOKEN = "a token of some length"
ACK = "/incidents/stuck/acknowledge"
SILENCE = "/incidents/stuck/silence"
CLOSE, REOPEN = "/incidents/stuck/close", "/incidents/stuck/reopen"
WANTED = {"by": "ann", "reason": "upgrade", "for": "2h"}


@pytest.fixture
def tables(tmp_path):
    group = Group("pay[1]", "Pay", ("10.0.0.5@pay-1",))
    group.state(NOW - 5 * MINUTE)
    group.incident(NOW - 2 * MINUTE, "stuck", "OPENED", NOW - 2 * MINUTE)
    group.incident(NOW - 2 * MINUTE, "over", "OPENED", NOW - 2 * MINUTE, queue_id=1)
    group.incident(NOW - MINUTE, "over", "RESOLVED", NOW - 2 * MINUTE, queue_id=1)
    folder = make_tables(tmp_path / "tables")
    append(folder, group.taken())
    return folder


@pytest.fixture
def api(tables, settings_in, tmp_path, request):
    settings = settings_in(tmp_path)
    web = settings.web.model_copy(update=getattr(request, "param", {}))
    with Store(tables) as store:
        app = api_application(settings, store, access("127.0.0.1", web))
        with answering(app) as address, httpx.Client(base_url=f"{address}/api/v1", timeout=60) as client:
            yield client


def controls(tables) -> list[tuple[str, str, str]]:
    rows = sorted(read_rows(tables, "alert_controls"), key=lambda row: row["time"])
    return [(row["control"], row["control_id"], row["author"]) for row in rows]


def test_an_incident_is_acknowledged_with_who_and_why(api, tables):
    answer = api.post(ACK, json={"by": "ann", "reason": "mine"})

    assert (answer.status_code, answer.json()["author"]) == (200, "ann")
    assert controls(tables) == [("ACK", "stuck", "ann")]


def test_a_silence_is_of_the_incidents_code_and_exactly_its_group(api, tables):
    answer = api.post(SILENCE, json=WANTED).json()

    [row] = read_rows(tables, "alert_controls")
    assert (row["control"], row["control_id"], row["code"]) == ("SILENCE", answer["silence_id"], "ORDERED_QUEUE_STUCK")
    assert row["group"] == "pay[[]1]"  # a pattern: the name itself would match pay1
    assert row["until"] - row["time"] == 120 * MINUTE == answer["until"] - row["time"]


def test_an_incident_is_closed_and_opened_again(api, tables):
    closed = api.post(CLOSE, json={"by": "ann", "reason": "queue removed"})
    assert (closed.status_code, closed.json()["author"]) == (200, "ann")
    assert "was resolved at" in api.post(CLOSE, json={"by": "ann", "reason": "again"}).json()["error"]
    assert api.post(REOPEN, json={"by": "bob", "reason": "it is not"}).status_code == 200
    assert "Nobody has closed" in api.post(REOPEN, json={"by": "bob", "reason": "x"}).json()["error"]
    assert controls(tables) == [("CLOSE", "stuck", "ann"), ("REOPEN", "stuck", "bob")]
    rows = sorted(read_rows(tables, "operator_actions"), key=lambda row: row["time"])
    assert [(row["action"], row["name"], row["result"]) for row in rows] == [
        ("CLOSE", "ann", "DONE"), ("CLOSE", "ann", "FAILED"), ("REOPEN", "bob", "DONE"), ("REOPEN", "bob", "FAILED"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "sent", "status", "says"),
    [
        (ACK, {"reason": "x"}, 422, "by: Field required."),
        (ACK, {"by": ""}, 422, "by: String should have at least 1 character."),
        (ACK, {"by": "x" * 101}, 422, "by: String should have at most 100 characters."),
        ("/incidents/nothing/acknowledge", {"by": "ann"}, 404, "incident list --all"),
        ("/incidents/over/acknowledge", {"by": "ann"}, 400, "was resolved at"),
        (SILENCE, WANTED | {"for": "soon"}, 400, "Invalid duration 'soon'. Use 90s, 30m, 2h or 1d."),
        (SILENCE, WANTED | {"for": "0s"}, 400, "A silence needs a duration above zero"),
        (SILENCE, WANTED | {"for": "9999999999w"}, 400, "366 days at most"),
        (SILENCE, WANTED | {"reason": " "}, 400, "A silence needs a reason."),
    ],
)
def test_bad_input_is_one_sentence_and_writes_nothing(api, tables, path, sent, status, says):
    answer = api.post(path, json=sent)

    assert (answer.status_code, list(answer.json())) == (status, PROBLEM)
    assert says in answer.json()["error"]
    assert not controls(tables)


def test_a_text_that_is_no_utf8_is_one_sentence_and_writes_nothing(api, tables):
    answer = api.post(ACK, content=b'{"by": "ann", "reason": "\\ud800"}')

    assert (answer.status_code // 100, list(answer.json())) == (4, PROBLEM)
    assert not controls(tables)


@pytest.mark.parametrize(
    "headers",
    [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
     {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}],
)  # fmt: skip
def test_a_page_of_another_site_writes_nothing(api, tables, headers):
    for path in (ACK, SILENCE, CLOSE):
        assert api.post(path, json=WANTED, headers=headers).status_code == 403
    assert not controls(tables)


@pytest.mark.parametrize("api", [{"token": SecretStr(TOKEN)}], indirect=True)
def test_with_a_token_set_nothing_is_written_without_it(api, tables):
    assert api.post(ACK, json={"by": "eve"}).status_code == 401
    assert not controls(tables)
    assert api.post(ACK, json={"by": "ann"}, headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
