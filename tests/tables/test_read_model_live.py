"""A read model that lives on, beside a job that appends and somebody who maintains."""

import threading

import msgspec
import pytest
from deltalake import DeltaTable

from rebalance_model.observe.effects import TABLE_OF, AssignmentChange
from streaming.base.errors import UserError
from streaming.tables import ReadModel, table
from streaming.tables.files import File, files_of
from streaming.tables.maintenance import Limits, maintain
from tests.support.story import Story, log, orders
from tests.support.tables import accepted, append, archive, make_tables, selected

HISTORY = TABLE_OF[AssignmentChange]


def own(folder, time: int, client: str, queue_id: int = 0) -> None:
    story = Story()
    story.owner(time, queue_id, client, "ASSIGNED")
    append(folder, [msgspec.structs.replace(row, seq=time) for row in story.rows])


def times(model: ReadModel) -> list[int]:
    query = f"SELECT h.time FROM {HISTORY} h WHERE h.time > from_ms(1000) ORDER BY h.time"
    return [row["time"] for row in model.rows(query)]


@pytest.fixture
def folder(tmp_path):
    append(make_tables(tmp_path), orders())
    return tmp_path


def test_it_sees_what_is_appended_once_it_looks(folder):
    with ReadModel(folder) as model:
        assert (model.refresh(), model.version) == (False, 0)
        before = selected(model, "current_owners", "orders")
        own(folder, 2_000, "C")

        assert selected(model, "current_owners", "orders") == before
        assert (model.refresh(), model.version, model.refresh()) == (True, 1, False)
        assert [o["client_id"] for o in selected(model, "current_owners", "orders") if o["since"] == 2_000] == ["C"]


def test_memory_equals_the_files_through_merges_and_appends(folder):
    with ReadModel(folder) as model:
        for time in range(2_000, 2_005):
            own(folder, time, "C")
            model.refresh()
        assert times(model) == [2_000, 2_001, 2_002, 2_003, 2_004]
        maintain(folder, HISTORY, Limits())
        own(folder, 2_005, "C")

        assert times(model) == [2_000, 2_001, 2_002, 2_003, 2_004]
        assert model.refresh()
        assert times(model) == [2_000, 2_001, 2_002, 2_003, 2_004, 2_005]


def test_rows_in_memory_are_limited_and_the_rest_is_read_from_files(folder, monkeypatch):
    monkeypatch.setattr(table, "KEPT_ROWS", 6)
    with ReadModel(folder) as model:
        for time in range(2_000, 2_020):
            own(folder, time, "C")
            model.refresh()
            kept = model.sql(f"SELECT * FROM kept.{HISTORY}").num_rows
            assert kept <= 6
            assert times(model) == list(range(2_000, time + 1))


def test_a_look_that_failed_leaves_what_was_and_the_next_one_begins_anew(folder):
    """Its new file is gone: a disk that fails, or somebody who clears up."""
    with ReadModel(folder) as model:
        own(folder, 2_000, "C")
        model.refresh()
        assert times(model) == [2_000]
        before = set((folder / HISTORY).glob("*.parquet"))
        own(folder, 2_001, "C")
        [new] = set((folder / HISTORY).glob("*.parquet")) - before
        moved = new.rename(folder / "moved")
        with pytest.raises(UserError, match=rf"The file {new} of the table {HISTORY} can't be read .it is missing."):
            model.refresh()
        assert times(model) == [2_000]

        moved.rename(new)
        assert (model.refresh(), model.version) == (True, 2)  # pages ask again
        assert times(model) == [2_000, 2_001]


@pytest.mark.parametrize("failing", [HISTORY, "telemetry"])
def test_what_a_look_that_failed_had_found_is_shown_by_the_next(folder, monkeypatch, failing):
    """Either the table itself can't be read, or one that is read after it."""

    def fail(name: str, delta: DeltaTable) -> list[File]:
        if name == failing:
            raise OSError(name)
        return files_of(name, delta)

    with ReadModel(folder) as model:
        model.refresh()
        own(folder, 2_000, "C")
        archive(folder, log())
        with monkeypatch.context() as patch:
            patch.setattr(table, "files_of", fail)
            with pytest.raises(OSError, match=failing):
                model.refresh()

        assert (model.refresh(), model.version, model.refresh()) == (True, 1, False)
        assert times(model) == [2_000]
        assert model.rows("SELECT count(*) AS n FROM telemetry")[0]["n"] == len(accepted(log()))


def test_questions_of_many_threads_go_on_while_it_looks(folder):
    wrong: list[object] = []

    def ask(model: ReadModel, over: threading.Event) -> None:
        last = 0
        while not over.is_set():
            answer = times(model)
            if answer != list(range(2_000, 2_000 + len(answer))) or len(answer) < last:
                wrong.append(answer)
            last = len(answer)

    over = threading.Event()
    with ReadModel(folder) as model:
        threads = [threading.Thread(target=ask, args=(model, over)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for time in range(2_000, 2_020):
            own(folder, time, "C")
            model.refresh()
            if time % 7 == 0:
                maintain(folder, HISTORY, Limits())
        over.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        model.refresh()
        assert times(model) == list(range(2_000, 2_020))
