"""Backtests over small tables that were written without Spark: what another policy would have told."""

import csv
import io
import json
import random
import shutil
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rebalance_model.observe.effects import AnyEffect, IncidentTransition
from rebalance_model.observe.events import AnyEvent, GroupEvent
from rebalance_model.observe.policy import Policy
from schemas.rows import AlertControl
from streaming.base.errors import UserError
from streaming.base.times import duration_ms, instant_ms
from streaming.cli import main
from streaming.log.rows import encode
from streaming.pipeline.archive_rows import LogRow
from streaming.pipeline.backtest import BacktestPeriod, BacktestResult, IncidentPeriod, backtest, last_time
from streaming.serve.alerting.follow import write_control
from streaming.tables import ReadModel
from tests.core.test_shard import LOG
from tests.support.folding import folded
from tests.support.tables import append, archive, make_tables
from tests.support.trace import START

END = START + 700_000
STUCK = "ORDERED_QUEUE_STUCK"
CAUSES = {"CLIENT_UNRESPONSIVE", "STALE_HEARTBEAT"}
PATIENT_MS = 3_000_000


@cache
def partitions() -> list[list[AnyEvent]]:
    """The log of the shard's tests in two partitions: group g, group h, and a copy of every broadcast in each."""
    return [[e for e in LOG if not isinstance(e, GroupEvent) or e.group == group] for group in "gh"]


@cache
def observed() -> list[AnyEffect]:
    """Return what is observed under the default policy."""
    return effects(Policy())


def effects(policy: Policy) -> list[AnyEffect]:
    return [effect for log in partitions() for effect in folded(log, policy)]


def write(tables: Path, policy: Policy) -> None:
    """Return what a job under the policy leaves; the archive's rows in no order."""
    append(make_tables(tables), observed() if policy == Policy() else effects(policy))
    log = [
        LogRow(partition, offset, None, encode(event), END + 86_400_000)
        for partition, events in enumerate(partitions())
        for offset, event in enumerate(events)
    ]
    random.Random(1).shuffle(log)
    archive(tables, log)


@pytest.fixture(scope="module")
def tables(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("backtest") / "tables"
    write(folder, Policy())
    return folder


def run(tables: Path, since: float = 0, until: float = 700, warm_up: float = 0, groups: str = "*", **changed: object):
    with ReadModel(tables) as model:
        span = BacktestPeriod(START + round(since * 1000), START + round(until * 1000), round(warm_up * 1000), groups)
        return backtest(model, Policy(**changed), span)


@pytest.fixture(scope="module")
def patient(tables) -> BacktestResult:
    """Of a policy under which no queue is stuck."""
    return run(tables, stuck_after=PATIENT_MS)


@pytest.fixture(scope="module")
def impatient(tables) -> BacktestResult:
    return run(tables, stuck_after=20_000)


def changes(result: BacktestResult) -> list[tuple[str, str, str]]:
    return [(one.change, one.group, one.code) for one in result.differences]


def changes_of_stuck(result):
    """Return the changes without those of causes, whose severity and end follow the stuck queues that they explain."""
    return [one for one in changes(result) if one[2] not in CAUSES]


def seconds(life: IncidentPeriod | None) -> tuple[float, float | None]:
    assert life is not None
    return (life.opened_at - START) / 1000, None if life.resolved_at is None else (life.resolved_at - START) / 1000


def test_under_the_same_policy_everything_is_the_same(tables):
    result = run(tables)

    assert changes(result) == []
    assert result.same == len({e.incident_id for e in observed() if hasattr(e, "incident_id")}) > 4
    assert result.rows == sum(map(len, partitions()))
    assert result.warnings == ()


def test_less_patience_moves_the_opening(impatient):
    g, h = [one for one in impatient.differences if one.subject == "Orders@broker-a:0"]

    assert [one.change for one in (g, h)] == ["MOVED", "MOVED"]
    assert seconds(g.was)[0] - seconds(g.would_be)[0] == 40
    assert seconds(g.was)[1] == seconds(g.would_be)[1]


def test_higher_thresholds_open_nothing_and_only_the_given_groups_are_read(tables, patient):
    missing = changes_of_stuck(patient)
    assert Counter(missing) == {("NOT_OPENED", group, STUCK): 3 for group in "gh"}
    result = run(tables, stuck_after=PATIENT_MS, groups="[h]*")
    assert changes_of_stuck(result) == [("NOT_OPENED", "h", STUCK)] * 3
    assert result.rows < sum(map(len, partitions()))


def test_the_numbers_by_code_add_up(impatient):
    result = impatient
    assert sum(one.same for one in result.codes) == result.same
    for change, name in (("OPENED", "additional"), ("NOT_OPENED", "missing"), ("MOVED", "changed")):
        counted = Counter(one.code for one in result.differences if one.change == change)
        assert Counter({one.code: getattr(one, name) for one in result.codes}) == counted
    assert {one.code for one in result.codes} >= {STUCK}


def test_a_changed_incident_says_what_changes(tables, monkeypatch, tmp_path):
    (tmp_path / "policy.toml").write_text("stuck_after = 20_000\n")
    arguments = ("--since", str(START), "--warm-up", "0s", "--policy", str(tmp_path / "policy.toml"), "--group", "g")

    changed = [line for line in ask(tables, monkeypatch, *arguments).splitlines() if line.startswith("changed")]
    assert changed
    assert all("opens 40 s earlier" in line for line in changed)


def test_a_policy_for_one_group_changes_that_group_only(tables):
    result = run(tables, group=({"pattern": "h", "stuck_after": 3_000_000},))

    assert changes_of_stuck(result) == [("NOT_OPENED", "h", STUCK)] * 3


def test_what_was_not_told_would_have_opened(tmp_path):
    write(tmp_path, Policy(stuck_after=PATIENT_MS))

    result = run(tmp_path)
    assert Counter(changes_of_stuck(result)) == {("OPENED", group, STUCK): 3 for group in "gh"}
    assert result.differences[0].was is None


def test_a_span_ends_lives_at_its_ends(tables, patient):
    """Opened before the span is opened at its begin, to both; resolved after it is open, to both."""
    opened, resolved = seconds(patient.differences[0].was)
    middle = (opened + resolved) / 2

    within = run(tables, since=middle, until=middle + 4, warm_up=middle, stuck_after=PATIENT_MS)
    assert seconds(within.differences[0].was) == (middle, None)
    assert run(tables, since=middle, until=middle + 4, warm_up=middle).differences == ()
    later = run(tables, since=resolved + 6, warm_up=resolved + 6, stuck_after=PATIENT_MS)
    assert {one.subject for one in later.differences if one.code == STUCK} == {"Orders@broker-a:3", "Orders@broker-b:3"}


def test_an_archive_that_does_not_reach_back_is_warned_of(tables):
    (warning,) = run(tables, since=60, warm_up=120).warnings

    assert "begins only 1.0 minutes before --since, not 2.0 (--warm-up)" in warning
    assert run(tables, since=60, warm_up=60).warnings == ()


@pytest.mark.parametrize(("since", "until"), [(10_000, 20_000), (-20_000, -10_000)])
def test_a_span_without_telemetry_is_refused(tables, since, until):
    with pytest.raises(UserError, match="no telemetry of that time"):
        run(tables, since=since, until=until)


def test_nothing_of_the_tables_is_touched(tables):
    before = {file: file.stat().st_mtime_ns for file in tables.rglob("*")}
    run(tables, stuck_after=1)

    assert {file: file.stat().st_mtime_ns for file in tables.rglob("*")} == before


def test_an_incident_that_a_person_closed_is_compared_as_it_was_observed(tables, patient, tmp_path):
    middle = sum(seconds(patient.differences[0].was)) / 2
    closed = shutil.copytree(tables, tmp_path / "tables")
    for one in {effect.incident_id for effect in observed() if isinstance(effect, IncidentTransition)}:
        write_control(closed, AlertControl(
            time=START, control="CLOSE", control_id=one, cluster=None, group=None, code=None, until=None,
            reason="known", author="ann", severity="critical",
        ))  # fmt: skip
    assert run(closed, since=middle, warm_up=middle) == run(tables, since=middle, warm_up=middle)


def test_the_end_is_that_of_the_archive_by_the_clock_of_its_collectors(tables):
    with ReadModel(tables) as model:
        assert last_time(model) == max(e.time for e in LOG if e.source == "poll")


def ask(tables: Path, monkeypatch, *arguments: str) -> str:
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(tables.parent))
    answer = CliRunner().invoke(main.app, ["backtest", *arguments])
    if answer.exception is not None:
        raise answer.exception
    return answer.stdout


@pytest.fixture
def patient_file(tmp_path) -> str:
    file = tmp_path / "policy.toml"
    file.write_text(f"stuck_after = {PATIENT_MS}\n")
    return str(file)


def test_the_command_prints_a_table_json_or_csv(tables, monkeypatch, patient_file):
    arguments = ("--since", str(START), "--warm-up", "0s", "--policy", patient_file, "--group", "g")

    table = ask(tables, monkeypatch, *arguments)
    (header, *rows), (titles, *codes), (total,) = [part.splitlines() for part in table.strip().split("\n\n")]
    assert header.split()[:7] == ["difference", "severity", "opened", "duration", "group", "incident", "subject"]
    missing = [line for line in rows if line.startswith("missing")]  # not folded
    assert len(missing) == 3 == len(rows) - 1
    assert all(STUCK in line for line in missing)
    assert titles.split()[:4] == ["incident", "recorded", "with", "this"]
    assert [line.split() for line in codes if line.startswith(STUCK)] == [[STUCK, "3", "0", "0", "0", "3", "0"]]
    assert total.startswith("4 incidents differ")
    answer = json.loads(ask(tables, monkeypatch, *arguments, "--format", "json"))
    assert Counter(one["change"] for one in answer["differences"]) == {"NOT_OPENED": 3, "MOVED": 1}
    rows = list(csv.DictReader(io.StringIO(ask(tables, monkeypatch, *arguments, "--format", "csv"))))
    row = next(row for row in rows if row["code"] == STUCK)
    assert (row["code"], row["was_severity"], row["would_be_severity"]) == (STUCK, "critical", "")
    same = ask(tables, monkeypatch, "--since", "2027-01-15T08:00", "--until", "2027-01-15T08:11:39Z")
    assert "0 incidents differ" in same


@pytest.mark.parametrize("times", [("--since", "1d", "--until", "2d"), ("--since", str(END + 1))])
def test_a_span_that_ends_before_it_begins_is_refused(tables, monkeypatch, times):
    with pytest.raises(UserError, match="between --since and --until"):
        ask(tables, monkeypatch, *times)


def test_times_are_read_as_people_write_them():
    assert instant_ms("1800000000000", 0) == 1_800_000_000_000
    assert instant_ms(" 2h", 10_000_000) == 2_800_000
    assert instant_ms("2027-01-15T08:00", 0) == instant_ms("2027-01-15T09:00+01:00", 0) == 1_800_000_000_000
    assert [duration_ms(text) for text in ("90s", "30m", "1d")] == [90_000, 1_800_000, 86_400_000]
    for wrong in ("yesterday", "2x", ""):
        with pytest.raises(UserError, match="Invalid time"):
            instant_ms(wrong, 0)
    with pytest.raises(UserError, match=r"Invalid duration .* Use 90s"):
        duration_ms("soon")
