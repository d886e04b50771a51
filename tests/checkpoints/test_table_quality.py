"""The quality gate of the tables: what each check finds, what a good table passes, and how much is read."""

import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from checkpoints import table_quality
from checkpoints.manifest import ARCHIVE
from checkpoints.quality import QualityStop
from checkpoints.table_quality import OVERLAP_MS, SPAN_MS, TableGate, suites
from streaming.base.errors import NotReadyError, SettingsError, UserError
from streaming.base.sections.job import Quality
from streaming.base.settings import load_settings
from streaming.base.times import DAY_MS, now_ms
from streaming.log.files import offset_of
from streaming.queries.quality import quality
from streaming.tables import ReadModel
from tests.support.story import Story
from tests.support.suites import only_shipped, own_suite, with_suites
from tests.support.tables import append, append_rows, make_tables, read_rows

pytestmark = pytest.mark.xdist_group("quality")  # one process imports Great Expectations for all of them: 3 s
START = now_ms() // DAY_MS * DAY_MS
"""Midnight of today: the archive's files are written now."""
MINUTE, HOUR = 60_000, 3_600_000
CAUSE = "poll-1@1|c/g|7"
OPTIONAL = ("clients_answers",)


class Root:
    """A runtime root whose tables are filled by hand."""

    def __init__(self, path: Path, kind: str = "files") -> None:
        self.path, self.tables = path, make_tables(path / "tables")
        self.settings = load_settings(runtime={"root": path}, source={"kind": kind, "partitions": 2})
        self.group = "g"
        """Whose rows are appended."""
        self.seq = 0

    def add(self, table: str, time: int = START, **fields: object) -> None:
        """Append a row that the observer derived."""
        self.seq += 1
        common = {"cluster": "c", "group": self.group, "time": time, "known_at": time, "seq": self.seq, "cause": CAUSE}
        append_rows(self.tables, table, [common | fields])

    def owner(self, client: str, action: str = "ASSIGNED", time: int = START, **fields: object) -> None:
        queue = {"topic": "T", "broker": "b", "queue_id": 0, "client_id": client, "action": action}
        more = {"evidence": "ANSWER", "expected_owner": None, "rebalance_id": ""}
        self.add("assignment_history", time, **queue, **(more | fields))

    def state(self, owner: str | None, time: int = START) -> None:
        self.add(
            "queue_state", time, topic="T", broker="b", queue_id=0, owner=owner, expected_owner=owner, locked=None,
            lock_at=None, pull_at=None, consume_at=None, status="OK", status_reason="",
        )  # fmt: skip

    def incident(self, transition: str, time: int = START, **fields: object) -> None:
        self.add(
            "anomalies", time,
            **{
                "incident_id": "i1", "code": "LAG_GROWTH", "sub_cause": "", "severity": "warning",
                "transition": transition, "subject": "T@b:0", "opened_at": START, "topic": None, "broker": None,
                "queue_id": None, "client_id": None, "evidence": "{}", "explanation": "", "first_step": "",
                "parent": None, "main_cause": "", "main_client_id": None, "main_explanation": "", "alert_after": None,
                **fields,
            },
        )  # fmt: skip

    def rebalance(self, rebalance_id: str, time: int = START, pause_ms_max: int | None = None) -> None:
        self.add(
            "rebalances", time, rebalance_id=rebalance_id, start_time=time, end_time=time, trigger="CLIENT_JOINED",
            trigger_client=None, causes=[], members_before=[], members_after=[], queues_moved=0, queues_interrupted=0,
            queues_unassigned=0, moves=[], pause_ms_max=pause_ms_max, converged=True, queues_moved_min=0,
            pause_is_at_most=False,
        )  # fmt: skip

    def events(self, *rows: tuple[int, int, int], kind: str = "CONSUME_STATS", value: str = "{}") -> None:
        """Append rows of the archive: (partition, offset, ingest time); the first one of a partition is the cause."""
        append_rows(self.tables, "telemetry", [
            {"date": dt.date(1970, 1, 1) + dt.timedelta(milliseconds=time), "type": kind, "time": time, "cluster": "c",
             "broker": "b", "broker_id": 0, "source": "poll", "source_id": "poll-1@1", "seq": 7 + offset, "group": "g",
             "key": "c/g", "value": value, "partition": partition, "offset": offset, "ingest_time": time}
            for partition, offset, time in rows
        ])  # fmt: skip

    def rejected(self, partition: int, offset: int, time: int = START) -> None:
        append_rows(self.tables, "telemetry_rejected", [
            {"partition": partition, "offset": offset, "key": None, "value": b"", "reason": "bad_json", "detail": "",
             "origin": "log", "ingest_time": time}
        ])  # fmt: skip

    def quantities(self, time: int = START, kind: str = "CONSUME_STATS", **arrays: tuple[object, ...]) -> None:
        """Append what one answer, or a hook, says of a queue."""
        story = Story(group=self.group)
        story.progress(time, kind, queue_id=(0,), **arrays)
        append(self.tables, story.rows)

    def archived(self, **positions: int) -> None:
        """Write the archive's checkpoint: the offset after the last row of each partition that it has read."""
        for folder in ("offsets", "commits"):
            (self.path / "checkpoints" / ARCHIVE / folder).mkdir(parents=True, exist_ok=True)
        read = {name.removeprefix("p"): position for name, position in positions.items()}
        text = f"v1\n{{}}\n{json.dumps({'topic': read})}\n"
        (self.path / "checkpoints" / ARCHIVE / "offsets/0").write_text(text)
        (self.path / "checkpoints" / ARCHIVE / "commits/0").write_text("v1\n{}")

    def check(self, now: int = START + HOUR, since: int | None = None):
        return TableGate(self.settings).check(now, since)

    def failed(self, **how: int) -> dict[str, str | None]:
        """Check; return what was observed by the name of each check that failed."""
        return {f"{one.suite} {one.column}": one.observed for one in self.check(**how).results if not one.success}


@pytest.fixture
def root(tmp_path):
    """A root with the event that every row names as its cause, and one group."""
    made = Root(tmp_path)
    made.events((0, 0, START), (1, 0, START))
    made.archived(p0=1, p1=1)
    return made


def test_good_tables_pass_every_check(root):
    root.owner("A")
    root.state("A")
    root.owner("A", "RELEASED", START + MINUTE, rebalance_id="r1")
    root.owner("B", time=START + MINUTE, rebalance_id="r1")
    root.rebalance("r1", START + MINUTE)
    root.state("B", START + MINUTE)
    root.incident("OPENED")
    root.incident("ESCALATED", START + MINUTE, parent="i1")
    root.incident("RESOLVED", START + 2 * MINUTE)

    checked = root.check()

    assert [one for one in checked.results if not one.success] == []
    assert checked.left_out == []
    assert {one.suite for one in checked.results} == suites(root.settings.quality).keys()
    assert all(one.why and one.checked_at == START + HOUR and one.stops_job is False for one in checked.results)


def again(root):
    """Write the row of the last owner again, as if its batch were written twice."""
    root.owner("A")
    root.seq -= 1
    root.owner("A")


def transitions(*names: str) -> Callable[[Root], None]:
    """Return what appends these transitions of one incident."""
    return lambda root: [root.incident(name) for name in names]


FAULTS: dict[str, tuple[Collection[str], Callable[[Root], object]]] = {
    "a second owner beside the first": (
        ["ownership owned_twice"], lambda root: (root.owner("A"), root.owner("B", time=START + MINUTE))
    ),
    "a second owner, the first of long ago": (
        ["ownership owned_twice"], lambda root: (root.owner("A", time=START - 40 * DAY_MS), root.owner("B"))
    ),
    "a batch that was written twice": (["ownership owned_twice"], again),
    "a release by another than the owner": (
        ["ownership released_by_other"], lambda root: (root.owner("B"), root.owner("A", "RELEASED", START + MINUTE))
    ),
    "a release by who was the owner": (
        ["ownership released_by_other"],
        lambda root: (root.owner("A"), root.owner("A", "RELEASED"), root.owner("A", "RELEASED", START + MINUTE)),
    ),
    "intervals that overlap": (
        ["ownership out_of_order"], lambda root: (root.owner("A", time=START + MINUTE), root.owner("A", "RELEASED"))
    ),
    "a state with another owner than the history": (
        ["ownership another_owner"], lambda root: (root.owner("A"), root.state("B"))
    ),
    "a commit beyond the newest offset": (
        ["quantities commit_beyond_newest", "quantities lag_differs"],
        lambda root: root.quantities(broker_offset=(425,), commit_offset=(428,), lag=(100,)),
    ),
    "another lag than that of its offsets": (
        ["quantities lag_differs"],
        lambda root: root.quantities(broker_offset=(425,), commit_offset=(420,), lag=(100,)),
    ),
    "a lower bound above the lag": (
        ["quantities lag_differs"],
        lambda root: root.quantities(
            kind="HOOK", broker_offset=(425,), commit_offset=(420,), lag=(6,), lag_is_at_least=(True,)
        ),
    ),
    "a commit later than its row": (
        ["quantities later_than_itself"],
        lambda root: root.quantities(kind="HOOK", commit_offset=(420,), commit_at=(START + 1,)),
    ),
    "an incident that does not begin": (["incidents opened_wrongly"], transitions("ESCALATED")),
    "an incident that begins twice": (["incidents opened_wrongly"], transitions("OPENED", "OPENED")),
    "an incident that ends twice": (["incidents resolved_wrongly"], transitions("OPENED", "RESOLVED", "RESOLVED")),
    "an incident after its end": (["incidents resolved_wrongly"], transitions("OPENED", "RESOLVED", "ESCALATED")),
    "an incident that is resolved before it opens": (
        ["incidents resolved_wrongly"], lambda root: (root.incident("OPENED"), root.incident("RESOLVED", START - 1))
    ),
    "two open incidents about one subject": (
        ["incidents open_twice"] * 2, lambda root: (root.incident("OPENED"), root.incident("OPENED", incident_id="i2"))
    ),
}  # fmt: skip
"""The checks that each must fail, and what makes it in a group of its own."""


def test_each_fault_is_found_by_its_check_and_by_no_other(root):
    """All in one check of the tables, which takes half a second of processor time."""
    for root.group, (_, make) in FAULTS.items():
        make(root)

    failed = [one for one in root.check().results if not one.success]

    found = {f"{one.suite} {one.column}": one.unexpected_count for one in failed}
    assert found == Counter(check for checks, _ in FAULTS.values() for check in checks)
    [twice] = [one.observed for one in failed if one.column == "owned_twice"]
    assert "A from" in twice
    assert "B from" in twice


def test_what_only_looks_like_a_fault_passes_every_check(root):
    root.group = "the first release that is known"  # retention has dropped the row that assigned the queue
    root.owner("A", "RELEASED", START + MINUTE)
    root.group = "a state from before the last change"  # history is opened after the states: it may have a batch more
    root.owner("A")
    root.state("A")
    root.owner("A", "RELEASED", START + MINUTE)
    root.group = "a lower bound, and what is unknown"
    root.quantities(broker_offset=(425,), commit_offset=(420,), lag=(5,))
    root.quantities(START + 1, "HOOK", commit_offset=(424,), commit_at=(START,), lag=(0,), lag_is_at_least=(True,))
    root.quantities(START + 2, broker_offset=(3,), commit_offset=(424,), lag=(None,))  # its topic was made again

    assert root.failed() == {}


def test_references_that_lead_nowhere_are_found(root):
    root.events((0, 1, START + MINUTE), (1, 1, START + MINUTE))
    root.archived(p0=2, p1=2)
    root.owner("A", cause="poll-1@1|c/g|999", rebalance_id="lost")
    root.rebalance("later", START + MINUTE)
    root.incident("OPENED", parent="nobody")

    assert root.failed() == {
        "references cause": '["poll-1@1|c/g|999"]',
        "references rebalance_id": '["c g lost"]',
        "references parent": '["c nobody"]',
    }


def test_what_is_not_archived_or_not_over_yet_is_no_fault(root):
    root.owner("A", time=START + 1, cause="poll-1@1|c/g|999", rebalance_id="under way")

    assert root.failed() == {}


def test_accepted_and_rejected_rows_together_are_all_rows_of_the_log(root):
    root.events((0, 1, START), (0, 3, START))
    root.rejected(0, 2)
    root.events((1, 2, START))  # of an unfinished batch: accepted rows are appended first, perhaps without 1 between
    root.events((2, 0, START), (2, offset_of(1, 0), START), (2, offset_of(1, 1), START))  # the next file is no gap
    root.archived(p0=4, p1=1, p2=offset_of(2, 0))

    assert root.failed() == {}


def test_rows_that_are_missing_or_double_in_the_archive_are_found(root):
    root.events((0, 3, START), (0, 3, START))
    root.archived(p0=6, p1=1)

    failed = root.failed()

    assert failed == {
        "archive missing": '["partition 0: 1 to 2, 2 gaps in all"]',
        "archive doubled": '["partition 0: 3, 1 rows in all"]',
    }


def test_how_far_the_archive_is_behind_kafka_is_known(tmp_path, monkeypatch):
    root = Root(tmp_path, kind="kafka")
    root.events((0, 5, START), (1, 0, START))
    root.archived(p0=6, p1=1)
    offsets = {0: (0, 9), 1: (0, 1)}
    monkeypatch.setattr(table_quality, "offsets_of", lambda *_: offsets)

    assert root.failed(now=START + 10 * MINUTE) == {}
    assert root.failed(now=START + 11 * MINUTE) == {"archive behind_seconds": "[660.0]"}

    offsets[0] = (8, 9)
    assert root.failed(now=START) == {"archive rows_deleted": "[2]"}


def test_nothing_is_said_about_a_kafka_that_does_not_answer(tmp_path, monkeypatch):
    def refuse(*_):
        raise UserError("Kafka does not respond.")

    monkeypatch.setattr(table_quality, "offsets_of", refuse)
    root = Root(tmp_path, kind="kafka")
    root.events((0, 0, START), (1, 0, START))
    root.archived(p0=1, p1=1)

    checked = root.check()

    assert "archive" not in {one.suite for one in checked.results}
    [why] = checked.left_out
    assert str(why) == "The archive was not compared with the log: Kafka does not respond."
    assert not isinstance(why, NotReadyError)


def test_an_archive_that_has_finished_no_batch_is_compared_later(tmp_path):
    root = Root(tmp_path)
    root.events((0, 0, START))
    root.path.joinpath("checkpoints", ARCHIVE).mkdir(parents=True)

    [why] = root.check().left_out

    assert isinstance(why, NotReadyError)
    assert str(why).endswith("not compared with the log: the archive has finished no batch yet.")


def test_an_unreadable_checkpoint_keeps_no_other_suite_from_its_turn(root):
    root.path.joinpath("checkpoints", ARCHIVE, "offsets/0").write_text("v1\n")

    checked = root.check()

    [why] = checked.left_out
    assert str(why).startswith("The archive was not compared with the log: ")
    assert {one.suite for one in checked.results} == suites(root.settings.quality).keys() - {"archive"}


def test_an_operator_that_is_behind_the_archive_is_found(root):
    root.state("A")
    root.owner("A")
    root.events((0, 1, START + 10 * MINUTE))
    assert "freshness operator_behind_seconds" not in root.failed()

    root.events((0, 2, START + 11 * MINUTE))
    assert root.failed()["freshness operator_behind_seconds"] == "[660.0]"


@pytest.mark.parametrize(("rate", "failed"), [(1, True), (2, False), (110, False), (130, True)])
def test_ten_times_the_events_of_before_or_a_tenth_are_found(root, rate, failed, monkeypatch):
    only_shipped(monkeypatch, "volume")
    rows = [(0, 1 + n, START + n * 5_000) for n in range(720)]  # an hour, 12 a minute
    root.events(*rows, *((0, 1_000 + n, START + HOUR + n * MINUTE // rate) for n in range(rate * 10 + 1)))

    assert ("volume times" in root.failed(since=START)) is failed


def test_a_check_reads_what_is_new_since_the_last_one_that_passed(root, monkeypatch):
    only_shipped(monkeypatch, "ownership")
    root.owner("A", time=START - 2 * OVERLAP_MS)
    root.owner("B", time=START - 2 * OVERLAP_MS)
    root.state("B")
    assert root.failed().keys() == {"ownership owned_twice"}
    assert root.failed().keys() == {"ownership owned_twice"}, "until it is mended, or a day old"

    root.state("B", START + SPAN_MS)
    root.events((0, 1, START + SPAN_MS), (2, 0, START + SPAN_MS))  # the second is its cause
    assert root.failed() == {}

    root.owner("B", time=START + SPAN_MS - OVERLAP_MS - 1)
    assert root.failed() == {}, "checked before"
    assert root.failed(since=START - SPAN_MS).keys() == {"ownership owned_twice"}


def test_results_are_numbered_and_the_last_ones_are_shown(root, monkeypatch):
    only_shipped(monkeypatch, "ownership")
    root.owner("A")
    root.check()
    root.owner("B")
    root.check(now=START + 2 * HOUR)

    with ReadModel(root.tables) as model:
        checks = quality(model)

    assert {row["batch_id"] for row in read_rows(root.tables, "quality_results")} == {0, 1}
    assert {one.checked_at for one in checks} == {START + 2 * HOUR}
    assert [(one.suite, one.column) for one in checks if not one.success] == [("ownership", "owned_twice")]
    assert not checks[0].success


def test_a_suite_of_ones_own_is_added_or_replaces_one(root, tmp_path):
    own_suite(tmp_path / "suites", "mine", "SELECT 'bad' AS found")
    with_suites(root, own_suite(tmp_path / "suites", "ownership", "SELECT NULL AS found"))
    root.owner("A")
    root.owner("B")

    assert root.failed() == {"mine found": '["bad"]'}


def answer(client: str, *queue_ids: int, orderly: bool = True, **fields: object) -> str:
    """Return a client's answer to GET_CONSUMER_RUNNING_INFO as it is in the log."""
    mqs = [{"topic": "T", "broker": "b", "queue_id": one} for one in queue_ids]
    queues = [{"mq": mq, "locked": True, "dropped": False, **fields} for mq in mqs]
    asked = START + 10 * MINUTE - 50
    return json.dumps({"client_id": client, "asked": asked, "orderly": orderly, "queues": queues})


ANSWERS = {
    "right": ([answer("B", 0)], set()),
    "of another": ([answer("A", 0)], {"not_owned"}),
    "without it": ([answer("B")], {"not_held"}),
    "dropped": ([answer("B", 0, dropped=True)], {"not_held"}),
    "without its lock": ([answer("B", 0, locked=False)], {"not_held"}),
    "concurrent": ([answer("B", 0, locked=False, orderly=False)], set()),
    "two have it": ([answer("A", 0), answer("B", 0)], set()),
    "none": ([json.dumps({"client_id": "B", "asked": START, "error": {"code": 1, "remark": ""}})], set()),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_owners_are_compared_with_the_clients_own_answers(root, case):
    values, failed = ANSWERS[case]
    root.settings = root.settings.model_copy(update={"quality": Quality(check_seconds=0, suites="", optional=OPTIONAL)})
    root.owner("A")
    root.owner("A", "RELEASED", START + MINUTE)
    root.owner("B", time=START + MINUTE)
    story = Story()
    story.group(START + HOUR, "OK")
    append(root.tables, story.rows)
    for offset, value in enumerate(values, 1):
        root.events((0, offset, START + 10 * MINUTE), kind="CONSUMER_RUNNING_INFO", value=value)
    suite = [one for one in root.check().results if one.suite == "clients_answers"]
    assert {one.column for one in suite} == {"not_owned", "not_held"}
    assert {one.column for one in suite if not one.success} == failed


def test_an_optional_suite_that_does_not_exist_is_refused():
    with pytest.raises(SettingsError, match=r"There is no optional suite answers: .* may have clients_answers"):
        suites(Quality(check_seconds=0, suites="", optional=("answers",)))


def test_a_folder_of_suites_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"correct quality\.suites"):
        suites(load_settings(quality={"suites": str(tmp_path / "nowhere")}).quality)


def test_a_failed_check_stops_the_job_if_its_suite_says_so(root, tmp_path, monkeypatch):
    only_shipped(monkeypatch, "ownership")
    root.owner("A")
    root.owner("B")
    with_suites(root, own_suite(tmp_path / "suites", "mine", "SELECT 'bad' AS found", stops_job=True))
    root.check()
    with pytest.raises(UserError, match=r"A check of the tables stops the job \(mine found: \[\"bad\"\]\)"):
        QualityStop(root.tables).check()

    own_suite(tmp_path / "suites", "mine", "SELECT NULL AS found", stops_job=True)
    root.check(now=START + 2 * HOUR)
    QualityStop(root.tables).check()


def test_a_failed_check_of_another_suite_does_not_stop_the_job(root):
    root.owner("A")
    root.owner("B")
    assert root.failed()

    QualityStop(root.tables).check()
