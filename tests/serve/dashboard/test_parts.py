"""The functions that prepare the content of the pages."""

from collections import Counter
from itertools import pairwise

import pytest

from checkpoints.generation import claimed
from checkpoints.manifest import Basis
from rebalance_model.observe.policy import Policy
from streaming.queries import labels, present
from streaming.queries.column import Context
from streaming.queries.columns import MOVE
from streaming.queries.group_at import find_group
from streaming.queries.incident_detail import incident
from streaming.queries.lag import lag
from streaming.queries.present import STALE_AFTER, UNHEARD_AFTER, Ends, Heard
from streaming.queries.results import Move
from streaming.serve.dashboard import group_state
from streaming.serve.dashboard.cards import cards
from streaming.serve.dashboard.group_list import GroupFilters
from streaming.serve.dashboard.incident import evidence_rows
from streaming.serve.dashboard.lane_folds import LaneFilter
from streaming.serve.dashboard.markup import clock, count, duration, rendered
from streaming.serve.dashboard.moment import Window, until, window
from streaming.serve.dashboard.owner_spans import owner_spans
from streaming.serve.dashboard.ownership_timeline import Shown, timeline_data
from streaming.serve.dashboard.page_data import history, overview, state
from streaming.serve.dashboard.paging import page_of
from streaming.serve.dashboard.palette import COLOURS, colours, short_names
from streaming.serve.links import group_link, incident_link
from streaming.tables import ReadModel
from tests.serve.dashboard.tables import CLIENTS, DIED, MINUTE, Group, shop
from tests.support.tables import append, make_tables

NOW = 1_795_300_000_000
HOUR = 60 * MINUTE
SNAPSHOT_INTERVAL = 5 * MINUTE


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = make_tables(tmp_path_factory.mktemp("tables"))
    append(folder, all_rows())
    with ReadModel(folder) as opened:
        yield opened


def all_rows():
    gaps = Group("gaps-group", "Gaps", ("a@1", "a@2"))
    gaps.state(NOW - 2 * HOUR)
    gaps.owner(NOW - 2 * HOUR, 0, "a@1")
    gaps.owner(NOW - 90 * MINUTE, 0, "a@1", "RELEASED")  # before the hour that is shown
    gaps.owner(NOW - 30 * MINUTE, 0, "a@2")
    gaps.owner(NOW - 20 * MINUTE, 0, "a@2", "RELEASED")
    for queue_id in (0, 1):
        gaps.queue(NOW - 40 * MINUTE, queue_id, None, lag=5)
    gaps.queue(NOW - 35 * MINUTE, 0, None, lag=7)
    gaps.queue(NOW - 34 * MINUTE, 1, None, lag=None)
    return [row for group in [*shop(NOW), gaps] for row in group.taken()]


def test_a_client_keeps_its_colour_and_few_clients_share_none():
    few = colours(CLIENTS)

    assert len(set(few.values())) == len(CLIENTS)
    assert colours(reversed(CLIENTS)) == few
    assert set(colours(f"client-{n}" for n in range(100)).values()) == set(range(COLOURS))


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        (["10.0.0.5@a-1", "10.0.0.5@a-2"], ["a-1", "a-2"]),
        (["10.0.0.5@1", "10.0.0.6@1"], ["10.0.0.5@1", "10.0.0.6@1"]),
        (["plain"], ["plain"]),
    ],
)
def test_names_are_shortened_only_if_they_stay_unique(ids, short):
    assert [short_names(ids)[client] for client in ids] == short


def test_now_is_the_clock_unless_telemetry_is_silent():
    def live(clock: int) -> tuple[int, bool]:
        found = Ends(0, Heard(NOW, clock))
        return found.live, found.silent

    assert live(NOW + MINUTE) == (NOW + MINUTE, False)
    assert live(NOW + UNHEARD_AFTER) == (NOW, True)
    assert live(NOW - MINUTE) == (NOW, False)  # a source's clock is ahead


@pytest.mark.parametrize(("age", "later", "turned"), [
    (STALE_AFTER - 1, STALE_AFTER, True), (0, STALE_AFTER - 1, False), (UNHEARD_AFTER - 1, UNHEARD_AFTER, True),
    (STALE_AFTER, STALE_AFTER + 5_999, False), (STALE_AFTER, STALE_AFTER + 6_000, True),
    (10 * HOUR, 10 * HOUR + 59 * MINUTE, False), (10 * HOUR, 11 * HOUR, True),
])  # fmt: skip
def test_a_page_is_shown_again_as_what_it_says_of_age_becomes_wrong(monkeypatch, age, later, turned):
    monkeypatch.setattr(present, "now_ms", lambda: NOW + later)
    assert Ends(0, Heard(NOW, NOW + age)).has_turned() is turned


def test_a_span_ends_now_or_is_centred_on_the_instant():
    available = Ends(NOW - 100 * HOUR, Heard(NOW, NOW))

    assert window(available, "1h", None) == Window(NOW - HOUR, NOW)
    assert window(available, "1h", NOW - HOUR // 2) == Window(NOW - HOUR, NOW)
    assert window(available, "1h", NOW - 10 * HOUR) == Window(NOW - 10 * HOUR - HOUR // 2, NOW - 10 * HOUR + HOUR // 2)
    assert until(available, "1h", NOW + HOUR).until == NOW
    assert window(available, "7d", None).since == available.first - 1_000


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (0, "0 s"),
        (999, "999 ms"),
        (12_340, "12.3 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_durations_in_words(span, text):
    assert duration(span) == text


def test_an_unknown_value_is_not_shown_as_a_number():
    assert {str(formatted(None)) for formatted in (duration, count, clock)} == {'<span class="unknown">unknown</span>'}


def test_the_list_of_incidents_says_how_many_the_tile_above_does_not_count(tmp_path):
    group = Group("parent-group", "Parent", ("a@1",))
    group.state(NOW - HOUR)
    group.incident(NOW - HOUR, "cause", "OPENED", NOW - HOUR)
    group.incident(NOW - HOUR, "effect", "OPENED", NOW - HOUR, parent="cause", code="LAG_GROWTH", severity="warning")
    tables = make_tables(tmp_path / "tables")
    append(tables, group.taken())
    with ReadModel(tables) as model:
        found = state(model, "parent-group", None, None)
    assert found.group.incidents.critical + found.consequences == len(found.incidents) == 2
    shown = page_of(cards(found.incidents), 0, 6)
    text = rendered(
        "incident_list", cards=shown.rows, **shown.pager, consequences=found.consequences, with_group=False,
        at=None, now=NOW,
    )  # fmt: skip
    assert "1 of these incidents is explained by another one and shown under it" in text


def test_equal_incidents_of_several_queues_are_one_card_under_their_cause(tmp_path):
    group = Group("frozen-group", "Parent", ("a@1",))
    group.state(NOW - HOUR)
    nothing = dict.fromkeys(("topic", "broker", "queue_id"))
    group.incident(NOW - HOUR, "cause", "OPENED", NOW - HOUR, code="CLIENT_UNRESPONSIVE", subject="a@1", **nothing)
    for number in range(6):
        group.incident(
            NOW - MINUTE, f"stuck-{number}", "OPENED", NOW - MINUTE, parent="cause", absorbed=False, queue_id=number,
            subject=f"Parent@broker-a:{number}",
        )  # fmt: skip
    group.incident(NOW - MINUTE, "lag", "OPENED", NOW - MINUTE, parent="cause", code="LAG_GROWTH", severity="warning")
    tables = make_tables(tmp_path / "tables")
    append(tables, group.taken())
    with ReadModel(tables) as model:
        found, all_groups = state(model, "frozen-group", None, None), overview(model)
    assert (found.group.incidents.critical, found.consequences) == (7, 1)
    assert len(all_groups.incidents) == 7  # as the tile counts: stuck queues have alerts of their own
    [card] = cards(found.incidents)
    assert [(len(under.incidents), under.first.absorbed) for under in card.under] == [(6, False), (1, True)]
    text = rendered(
        "incident_list", cards=[card], page=0, pages=1, total=1, consequences=found.consequences, with_group=False,
        at=None, now=NOW,
    )  # fmt: skip
    assert "6 queues: " in text
    assert text.count("has an alert of its own") == 1
    assert text.index("CLIENT_UNRESPONSIVE") < text.index("ORDERED_QUEUE_STUCK") < text.index("LAG_GROWTH")


@pytest.mark.parametrize(("broker", "affects"), [("broker-a", True), ("broker-b", False), ("poll-1", True)])
def test_the_tile_of_open_incidents_counts_what_the_list_below_has(tmp_path, broker, affects):
    group, other = (Group(name, "Orders", ("a@1",), broker_of=lambda _, of=of: of)
                    for name, of in (("hit-group", "broker-a"), ("other-group", "broker-b")))  # fmt: skip
    cluster = Group("", "", ("a@1",))
    for one in (group, other):
        one.state(NOW - MINUTE, "BAD", "BROKER_UNREACHABLE")
        one.queue(NOW - MINUTE, 0, "a@1")
    group.incident(NOW - MINUTE, "effect", "OPENED", NOW - MINUTE, parent="cause")
    nothing = dict.fromkeys(("topic", "broker", "queue_id", "client_id"))
    cluster.incident(
        NOW - MINUTE, "cause", "OPENED", NOW - MINUTE, code="BROKER_UNREACHABLE", subject=broker, **nothing
    )
    tables = make_tables(tmp_path / "tables")
    append(tables, [*group.taken(), *other.taken(), *cluster.taken()])
    with ReadModel(tables) as model:
        found = state(model, "hit-group", None, None)
        listed_groups = {one.group: one.incidents for one in overview(model).groups}
    assert found.group.incidents == listed_groups["hit-group"]
    assert found.group.incidents.critical == affects
    assert listed_groups["other-group"].critical == (broker != "broker-a")
    assert found.group.incidents.critical + found.consequences == len(found.incidents)
    tile = rendered(
        "group_head", group=found.group, at=None, note="", ends=found.ends, coverage="", differing=0, unpredicted=0,
        consequences=found.consequences,
    ).split("<dd>")[1]  # fmt: skip
    assert "+ 1 explained by another" in tile


def test_the_home_page_says_the_age_of_telemetry_as_soon_as_it_is_stale():
    def head(age: int, at: int | None = None) -> str:
        ends = Ends(0, Heard(NOW, NOW + age), None if at is None else Heard(NOW, at))
        stale = {"OK": (2, age)} if ends.shown.is_stale else {}
        return rendered(
            "home_head", at=at, ends=ends, incidents=[], counts=Counter(OK=2), stale=stale, wanted=GroupFilters()
        )  # fmt: skip

    assert "No telemetry since" not in head(STALE_AFTER - 1)
    assert 'class="status OK"' in head(STALE_AFTER - 1)
    late = head(85_000)
    assert ", for 1 min 25 s: what is shown is stale." in late
    assert "2 stale, 1 min 25 s old" in late
    assert 'class="status OK old"' in late
    assert ", for 3 min. Showing the last known state." in head(UNHEARD_AFTER)
    later = head(0, at=NOW + 431_373_000)
    assert "That is 4 d 23 h after the last telemetry" in later
    assert "-4" not in later


@pytest.mark.parametrize("shown", [duration, labels.duration])
def test_a_duration_below_zero_is_unknown(shown):
    assert "unknown" in str(shown(-1)) or shown(-1) == labels.NOT_KNOWN


@pytest.mark.parametrize(
    ("estimate", "least", "most", "text"),
    [
        (7, 0, 65, "7 (0 to 65)"),
        (7, 7, 7, "7"),
        (None, 0, 110, "0 to 110"),
        (None, 5, None, "at least 5"),
        (None, None, None, "-"),
    ],
)
def test_duplicates_are_shown_as_an_estimate_with_bounds(estimate, least, most, text):
    move = Move(
        topic="T", broker="b", queue_id=0, from_client="a", to_client="b", kind="MOVED",
        pause_ms=0, pause_is_at_most=False,
        reconsumed=estimate, reconsumed_min=least, reconsumed_max=most,
    )  # fmt: skip

    assert str(MOVE["reconsumed"].value(move, Context(NOW))) == text


def test_text_from_telemetry_is_escaped():
    page = rendered("error", title="<script>", sentence='<img src=x onerror="alert(1)">')

    assert "<script>" not in page
    assert "<img" not in page


def test_links_contain_the_instant_and_escape_names():
    assert group_link("c", "a/b%&c", 5, "6h") == "/group/a%2Fb%25%26c?cluster=c&at=1970-01-01T00:00:00.005Z&span=6h"
    assert incident_link("x") == "/incident/x"


def test_a_page_number_beyond_the_last_shows_the_last():
    assert page_of(range(5), 9, 2) == (range(4, 5), 2, 3, 5)
    assert page_of([], 0, 2) == ([], 0, 1, 0)


def test_the_timeline_has_a_span_for_each_owner_and_for_none(model):
    available = Ends(NOW - 2 * HOUR, Heard(NOW, NOW))
    past = history(model, "gaps-group", None, window(available, "1h", None))
    spans = owner_spans(past, available.live)
    data = timeline_data(past, spans, [], available, Shown(lambda place: place[2] == 0, colours={"a@2": 0}))

    assert data["lanes"] == ["Gaps:0"]
    spans = data["spans"]
    minutes = [
        (begin // MINUTE, end // MINUTE, client) for _, begin, end, client in zip(*[iter(spans)] * 4, strict=True)
    ]
    assert minutes == [(0, 30, -1), (30, 40, 0), (40, 60, -1)]


def lags(group, queues):
    [column] = [column for column in group_state.MEMBER_COLUMNS if column.name == "lag"]
    return [str(column.value(member, Context(NOW))) for member in group_state.members(group, queues)]


def test_differences_changes_and_members_at_an_instant(model):
    now, then = (state(model, "orders-group", None, at) for at in (None, NOW - DIED - 1))

    assert [m.client_id for m in group_state.members(now.group, now.queues)] == [CLIENTS[0], CLIENTS[1]]
    assert [m.queues for m in group_state.members(then.group, then.queues)] == [2, 2, 2]
    fresh = {"lag": 3, "lag_is_stale": False, "lag_is_at_least": False}
    first, *others = (queue.model_copy(update=fresh) for queue in then.queues)
    assert lags(then.group, [first, *others]) == ["6", "6", "6"]
    for unlike, shown in (({"lag_is_at_least": True}, "≥6"), ({"lag_is_stale": True}, "≥3"), ({"lag": None}, "≥3")):
        of_owner = lags(then.group, [first.model_copy(update=unlike), *others])
        assert sorted(of_owner) == sorted([shown, "6", "6"])
    times = group_state.changes(history(model, "orders-group", None, Window(NOW - HOUR, NOW)))
    assert group_state.before(times, NOW - DIED) == NOW - DIED - 2_300  # the rebalance's begin
    assert group_state.after(times, NOW - DIED - 2_300) == NOW - DIED
    assert group_state.after(times, NOW) is None


def test_a_lag_that_is_older_than_two_intervals_is_not_in_the_sum(model):
    """Both queues are reported at -40 min, one again at -35; each is stale after 10 minutes and removed after 15."""
    points = lag(model, find_group(model, "gaps-group"), NOW - HOUR, NOW)

    shown = [(round((p.time - NOW) / MINUTE, 1), p.lag, p.lag_unknown, p.waiting_ms) for p in points]
    changes = [one for before, one in pairwise([(0, None, None, 0), *shown]) if before[1:] != one[1:]]
    assert changes == [
        (-40, 10, 0, 5_000),
        (-35, 12, 0, 7_000),
        (-29.5, 7, 1, 7_000),
        (-24.5, None, 2, None),
        (-19.5, None, 1, None),
    ]
    assert shown[-1][0] == -19


def test_a_group_with_an_hourly_snapshot_is_not_silent_in_between(tmp_path, monkeypatch):
    monkeypatch.setattr("time.time_ns", lambda: NOW * 1_000_000)
    hourly = Policy(group=({"pattern": "gaps-*", "snapshot_interval": HOUR},))
    basis = Basis(source="test", partitions=1, state_partitions=1, code_version="0", policy=hourly)
    with claimed(tmp_path / "checkpoints", tmp_path / "tables", basis):
        append(tmp_path / "tables", all_rows())

    with ReadModel(tmp_path / "tables") as model:
        assert {group.group: group.health for group in overview(model).groups}["gaps-group"] == "OK"


def test_evidence_is_formatted_and_unknown_values_are_marked(model):
    detail = incident(model, "stuck")
    first, last = (
        detail.life[0].model_copy(update={"evidence": evidence})
        for evidence in (
            {"lag": 12_000, "stalled_ms": 90_000, "commit_at": NOW - 1_000, "owner": None},
            {"lag": 12_001, "stalled_ms": -90_000, "commit_at": 0},
        )
    )

    rows = {name: (before, after) for name, before, after in evidence_rows(detail.incident, first, last, NOW)}
    assert rows["lag"] == ("12\u202f000", "12\u202f001")
    assert rows["stalled"] == ("1 min 30 s", "-1 min 30 s")
    assert rows["commit at"][0] == clock(NOW - 1_000, NOW)
    assert ["unknown" in text for text in (rows["commit at"][1], rows["owner"][0])] == [True, True]
    assert "not reported" in rows["owner"][1]


def test_a_healthy_shared_queue_is_no_problem(model):
    queue = state(model, "orders-group", None, None).queues[0]
    shared = queue.model_copy(update={"owner": None, "expected_owner": None, "status": "OK"})

    problems = LaneFilter(only_problems=True)
    assert not group_state.matches(shared, problems)
    assert group_state.matches(shared.model_copy(update={"status": "UNKNOWN"}), problems)
    assert group_state.matches(shared.model_copy(update={"expected_owner": "a"}), problems)
