"""The demo's result is the golden file's, and each of its lines is explained by a line of the fault log."""

import re
from collections import defaultdict
from itertools import chain

import msgspec
import pytest

from rebalance_model.observe.effects import TABLE_OF
from schemas.tables import TABLES
from streaming.tables.reader import ReadModel
from tests.support.findings import CAPTURE, Line, begun, effects, events, faults, findings, golden
from tests.support.folding import Fold
from tests.support.tables import stored

POLLED_S = 10
"""What happens is seen at the next poll."""


@pytest.fixture(scope="module")
def rows():
    return effects()


@pytest.fixture(scope="module")
def explained() -> list[Line]:
    return golden()


def test_the_capture_leads_to_the_golden_findings(rows, explained):
    assert list(findings(rows, begun())) == [(line.at, line.what) for line in explained]


def test_every_finding_follows_the_fault_that_explains_it(explained):
    log = faults()
    for line in explained:
        at = begun() + 1000 * float(line.at.removesuffix(" s"))
        if line.fault:
            assert log[line.fault - 1].time <= at + 1000 * POLLED_S, line
        elif not line.what.startswith("RESOLVED"):  # the lab's own start; what it opened ends later
            assert at <= log[0].time, line
        assert len(line.why) > 10, line


def test_every_fault_shows(explained):
    assert {line.fault for line in explained} == set(range(len(faults()) + 1))


def test_the_capture_is_what_the_issue_asks_for():
    kinds = {fault.kind for fault in faults()}
    assert kinds >= {"join", "leave", "kill", "freeze", "hang", "poison", "slow-pull", "broker-restart"}
    assert CAPTURE.stat().st_size < 3_000_000


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_command_shows_it_and_its_tables_are_those_of_the_plain_loop(demo_run):
    ran = demo_run.ran
    assert ran.returncode == 0, ran.stderr
    for text in (
        "ORDERED_QUEUE_STUCK SUSPEND_LOOP",
        "PULL_EXPIRED",
        "127.0.0.1@orders-3",
        "poison message",
        " dashboard, then http://127.0.0.1:8411/incident/",
        " incident show ",
        " who-owned orders-group Orders broker-a:",
    ):
        assert text in ran.stdout
    ending = ran.stdout.rstrip("\n").rpartition("\n\n")[2].splitlines()
    assert [line.partition(":")[0] for line in ending] == [
        "Found", "Open", "Why it was stuck", "Who owned it", "Your own cluster",
    ]  # fmt: skip
    assert "Traceback" not in ran.stdout + ran.stderr
    assert not [path for path in demo_run.root.rglob("*") if path.lstat().st_mode & 0o007 and not path.is_symlink()]
    assert demo_run.root.stat().st_mode & 0o777 == 0o750  # the group may read
    rows = defaultdict(list)
    loop = Fold()
    for effect in chain.from_iterable(map(loop.push, events())):  # not to an end of all sources: a job knows none
        table = TABLE_OF[type(effect)]
        rows[table].append(stored(table, msgspec.to_builtins(effect)))
    with ReadModel(demo_run.root / "tables") as model:
        for table in TABLE_OF.values():
            assert _plain(model.rows(f"SELECT * FROM {table}")) == _plain(rows[table])
        [read] = model.rows(
            "SELECT (SELECT count(*) FROM telemetry) AS kept, (SELECT count(*) FROM telemetry_rejected) AS no"
        )
    assert re.search(rf"\b{read['kept'] + read['no']} telemetry rows", ran.stderr)
    assert set(TABLES) >= set(TABLE_OF.values())


def _plain(rows: list[dict[str, object]]) -> list[bytes]:
    """Rows without the log's stamps, which are the files' own."""
    kept = ({name: value for name, value in row.items() if name != "known_at"} for row in rows)
    return sorted(msgspec.json.encode(row, order="sorted") for row in kept)
