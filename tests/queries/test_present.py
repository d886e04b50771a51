"""End of history, by the Delta log's statistics or, if these are missing, by the rows; stale answers."""

import pytest
from deltalake import DeltaTable

from rebalance_model.observe.effects import QueueProgress
from streaming.queries import present
from streaming.queries.present import STALE_AFTER, UNHEARD_AFTER, Heard, HistoryBounds, known_ends
from streaming.tables import ReadModel, table
from streaming.tables.files import File, files_of
from tests.serve.dashboard.tables import HOUR, MINUTE, NOW
from tests.support.story import COMMON, Story
from tests.support.tables import append, make_tables


def progress(time: int, source: str) -> QueueProgress:
    return QueueProgress(
        time=time, asked_at=time, source=source, kind="CONSUME_STATS", cluster=COMMON["cluster"], group=COMMON["group"],
        broker="b", interval_ms=1_000, topic=("Orders",), queue_id=(0,), lag=(1,),
    )  # fmt: skip


def without_statistics(name: str, delta: DeltaTable) -> list[File]:
    return [file._replace(begins=0, ends=0) for file in files_of(name, delta)]


@pytest.fixture(params=[True, False], ids=["statistics", "no statistics"])
def folder(tmp_path, request, monkeypatch):
    if not request.param:
        monkeypatch.setattr(table, "files_of", without_statistics)
    return make_tables(tmp_path)


def test_empty_tables_have_no_span_and_no_ends(folder):
    with ReadModel(folder) as model:
        assert model.span("group_state") is None
        assert known_ends(model) is None


def test_the_span_of_a_table_is_that_of_all_its_files(folder):
    for time in (700, 300, 500):
        story = Story()
        story.group(time, "OK")
        append(folder, story.rows)

    with ReadModel(folder) as model:
        assert model.span("group_state") == (300, 700)
        assert model.span("queue_state") is None


@pytest.mark.parametrize(
    ("observed", "last"),
    [
        ([], 800),
        ([progress(900, "POLL")], 900),
        ([progress(900, "HOOK")], 800),
        ([progress(900, "POLL"), progress(950, "HOOK")], 900),
        ([progress(600, "POLL"), progress(950, "HOOK")], 800),
    ],
)
def test_the_last_row_is_of_any_table_but_a_hook_s_observation(folder, observed, last):
    story = Story()
    story.group(500, "OK")
    story.queue(800)
    append(folder, [*story.rows, *observed])

    with ReadModel(folder) as model:
        found = known_ends(model)
        assert found is not None
        assert (found.first, found.last) == (500, last)


def test_the_span_follows_what_refresh_shows(folder):
    story = Story()
    story.group(500, "OK")
    append(folder, story.rows)
    with ReadModel(folder) as model:
        story.rows.clear()
        story.group(900, "OK")
        append(folder, story.rows)

        assert model.span("group_state") == (500, 500)
        assert model.refresh()
        assert model.span("group_state") == (500, 900)


def test_now_is_the_clock_unless_telemetry_is_silent():
    def live(clock: int) -> tuple[int, bool]:
        found = HistoryBounds(0, Heard(NOW, clock))
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
    assert HistoryBounds(0, Heard(NOW, NOW + age)).has_turned() is turned
