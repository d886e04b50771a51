"""Suites of a user's own: each that can't be read or run is a failed result with a sentence; nothing else suffers."""

import json
import re
import shutil

import pandas as pd
import pytest
from typer.testing import CliRunner

from checkpoints.expectations import Suite
from checkpoints.quality import QualityStop
from checkpoints.table_quality import TableGate, suites
from streaming.base.errors import UserError
from streaming.cli import main
from streaming.queries.labels import checked
from tests.checkpoints.test_table_quality import HOUR, START, Root
from tests.docs.source import ROOT
from tests.support.suites import NULL, expect, only_shipped, own_suite, with_suites
from tests.support.unprivileged import run_unprivileged

pytestmark = pytest.mark.xdist_group("quality")  # one process imports Great Expectations for all of them: 3 s
NUMBERS = "SELECT * FROM (VALUES (1.5, 'a'), (2.5, 'b'), (NULL, NULL)) v(n, s)"
TIMES = "SELECT TIMESTAMPTZ '2026-11-01 00:00:00Z' + to_days(d::INT) AS t, d::DECIMAL(9, 1) AS n FROM range(30) r(d)"


@pytest.fixture
def root(tmp_path):
    made = Root(tmp_path)
    made.events((0, 0, START), (1, 0, START))
    made.archived(p0=1, p1=1)
    return made


def results_of(root, folder):
    """Check; return the results of own suites by their name, and see that each shipped suite passed."""
    shipped = suites(root.settings.quality)
    with_suites(root, folder)
    checked = root.check()
    by_suite = {}
    for result in checked.results:
        by_suite.setdefault(result.suite, []).append(result)
    assert checked.left_out == []
    assert all(one.success for name in shipped for one in by_suite.pop(name))
    return by_suite


DAYS = [f"2026-11-{day:02}T00:00:00" for day in range(1, 21)]
QUANTILES = {"quantiles": [0.5], "value_ranges": [[0, 1]]}
OF_ANY_TYPE = {
    "mean": (NUMBERS, expect("mean_to_be_between", "n", max_value=1), False, 2.0),
    "median": (NUMBERS, expect("median_to_be_between", "n", max_value=3), True, 2.0),
    "stdev": (NUMBERS, expect("stdev_to_be_between", "n", max_value=0.1), False, 0.7071067811865476),
    "max": (NUMBERS, expect("max_to_be_between", "n", max_value=2), False, 2.5),
    "sum": (NUMBERS, expect("sum_to_be_between", "n", min_value=4), True, 4.0),
    "infinity": ("SELECT 'inf'::DOUBLE AS n", expect("max_to_be_between", "n", max_value=2), False, "inf"),
    "nothing": (f"{NUMBERS} WHERE n > 9", expect("mean_to_be_between", "n", max_value=1), False, None),
    "values": (NUMBERS, expect("values_to_be_between", "n", max_value=2), False, [2.5]),
    "texts": (NUMBERS, expect("distinct_values_to_be_in_set", "s", value_set=["a"]), False, ["b"]),
    "struct": (NUMBERS, expect("quantile_values_to_be_between", "n", quantile_ranges=QUANTILES), False,
               {"quantiles": [0.5], "values": [1.5]}),
    "times": (TIMES, expect("values_to_be_null", "t"), False, [f"{day}+00:00" for day in DAYS]),
    "numpy times": (TIMES, expect("most_common_value_to_be_in_set", "t", value_set=[]), False,
                    [f"{day}.000000" for day in DAYS]),
    "no value": (NUMBERS, expect("to_exist", "m"), False, None),
}  # fmt: skip
"""Query, expectation, success and what is observed."""


def test_a_result_of_any_type_is_stored_as_json(root, tmp_path):
    for name, (query, expectation, _, _) in OF_ANY_TYPE.items():
        own_suite(tmp_path / "suites", name, query, expectation)

    by_suite = results_of(root, tmp_path / "suites")

    assert {
        name: (one.success, one.observed and json.loads(one.observed), one.why) for name, [one] in by_suite.items()
    } == {name: (success, observed, "Why.") for name, (_, _, success, observed) in OF_ANY_TYPE.items()}


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"max_value": "2026-11-20"}, "values_to_be_between"),
        ({"min_value": "2026-11-01", "max_value": "2026-11-20T00:00:00Z"}, "values_to_be_between"),
        ({"max_value": "2026-11-20"}, "max_to_be_between"),
        ({"value_set": [f"2026-11-{day:02}" for day in range(1, 21)]}, "values_to_be_in_set"),
    ],
)
def test_a_timestamp_column_takes_dates(arguments, name):
    times = pd.to_datetime(DAYS, utc=True)

    def judged(frame):
        written = {"name": "own", "expectations": [expect(name, "t", **arguments)]}
        [verdict] = Suite(json.dumps(written).encode(), "own.json").judge(frame, {})
        return verdict.success, verdict.why

    assert judged(pd.DataFrame({"t": times})) == (True, "Why.")
    assert judged(pd.DataFrame({"t": times.tz_localize(None)})) == (True, "Why.")
    assert judged(pd.DataFrame({"t": times + pd.Timedelta(days=1)})) == (False, "Why.")


def test_three_expectations_on_one_column_are_three_lines():
    names = ("values_to_be_between", "values_to_not_be_null", "mean_to_be_between")
    said = {checked("n", f"expect_column_{name}") for name in names}
    assert said == {"n: to be between", "n: to not be null", "n: mean to be between"}
    assert checked(None, "expect_table_row_count_to_be_between") == "rows: table row count to be between"


def test_a_check_fails_that_could_not_be_compared_with_the_log(root):
    shutil.rmtree(root.path / "checkpoints" / "archive")
    asked = ["--root", str(root.path), "quality", "--now", "--check"]
    ended = CliRunner().invoke(main.app, asked, env={"REBALANCE_WATCH_SOURCE__KIND": "files"})
    assert "The archive was not compared with the log" in ended.stderr
    assert ended.exit_code == 3


NOT_JUDGED = {
    "misspelt column": (expect("mean_to_be_between", "nn", max_value=1),
                        "expect_column_mean_to_be_between of the column nn: its query does not return nn, but n, s."),
    "no column": (expect("values_to_be_null", "nn"),
                  "expect_column_values_to_be_null of the column nn: its query does not return nn, but n, s."),
    "unknown": (expect("meen_to_be_between", "n", max_value=1),
                "meen_to_be_between of the column n: there is no such expectation, but expect_column_mean_to_be_b"),
    "arguments": (expect("mean_to_be_between", "n", max=1),
                  "to_be_between of the column n: its kwargs are wrong (max: extra fields not permitted)."),
    "regex": (expect("values_to_match_regex", "s", regex="("), "of the column s: missing ), unterminated subpattern"),
    "parameter": (expect("mean_to_be_between", "n", max_value={"$PARAMETER": "x"}), "No value found for $PARAMETER x."),
    "types": (expect("values_to_be_between", "s", max_value=1), "of the column s: Column values, min_value, and max"),
}  # fmt: skip
"""Expectation, and what is said of it."""


def test_what_can_not_be_judged_has_failed_and_the_others_are_judged(root, tmp_path):
    for name, (expectation, _) in NOT_JUDGED.items():
        own_suite(tmp_path / "suites", name, NUMBERS, expectation, expect("max_to_be_between", "n", max_value=3))

    by_suite = results_of(root, tmp_path / "suites")

    assert by_suite.keys() == NOT_JUDGED.keys()
    for name, results in by_suite.items():
        [passed, failed] = sorted(results, key=lambda one: not one.success)
        assert (passed.success, failed.success, failed.observed) == (True, False, None)
        assert failed.why.startswith(f"The suite {name} can't judge ")
        assert NOT_JUDGED[name][1] in failed.why
        assert len(failed.why) < 400


QUERY, JSON = ".sql", ".json"
NOT_RUN = {
    "no json": (JSON, None, r"no json\.sql has no no json\.json beside it: add its expectations\."),
    "no query": (QUERY, None, r"needs one query: in meta\.query, or in no query\.sql beside it\."),
    "no object": (JSON, b"{", r"no object\.json can't be read \(.*\): correct it\."),
    "no text": (JSON, b"\xff", r"no text\.json can't be read \(.*\): correct it\."),
    "no part": (JSON, b'{"name": "no part"}', r"missing required field `expectations`"),
    "nothing": (JSON, b'{"name": "nothing", "expectations": []}', r"length >= 1 - at `\$\.expectations`"),
    "no why": (JSON, b'{"name": "no why", "expectations": [{"type": "a", "meta": {}}]}',
               r"missing required field `why` - at `\$\.expectations\[0\]\.meta`"),
    "name": (JSON, json.dumps({"name": "telemetry", "expectations": [NULL]}).encode(), r"give it another one\."),
    "no sql": (QUERY, b"\xff", r"no sql can't be read"),
    "table": (QUERY, b"SELECT * FROM incident", r"Unknown table or view incident: use one of .*incidents"),
    "column": (QUERY, b"SELECT clint_id FROM assignment_history",
               r'column "clint_id" not found .*candidate bindings: "client_id"'),
    "syntax": (QUERY, b"SELEC 1", r"syntax error at or near"),
    "parameter": (QUERY, b"SELECT $nothing", r"parameters: nothing\."),
    "cast": (QUERY, b"SELECT 'x'::INT AS found", r"Could not convert string 'x' to INT32\."),
    "statement": (QUERY, b"DROP VIEW incidents", r"Only a single SELECT is allowed\."),
    "file": (QUERY, b"SELECT * FROM read_text('/etc/hosts')", r"read_text can't be used here"),
    "rows": (QUERY, b"SELECT 1 AS found FROM range(1000001)", r"its query returns more than 1,000,000 rows\."),
}  # fmt: skip
"""A file of the suite, its content, and what is said of it."""


def test_a_suite_that_can_not_be_read_or_run_has_failed(root, tmp_path):
    folder = tmp_path / "suites"
    for name, (ending, content, _) in NOT_RUN.items():
        own_suite(folder, name, "SELECT 1 AS found")
        file = folder / f"{name}{ending}"
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)

    by_suite = results_of(root, folder)

    assert by_suite.keys() == NOT_RUN.keys()
    for name, [result] in by_suite.items():
        assert (result.expectation, result.column, result.success, result.row_count) == ("suite", None, False, 0)
        assert re.search(NOT_RUN[name][2], result.why), result.why
        assert "\n" not in result.why


def test_a_suite_that_is_mended_is_checked_without_a_restart(root, tmp_path, monkeypatch):
    only_shipped(monkeypatch)
    folder = own_suite(tmp_path / "suites", "mine", "SELECT NULL AS found")
    (folder / "mine.json").write_text("{")
    with_suites(root, folder)
    gate = TableGate(root.settings)
    assert [one.success for one in gate.check(START).results if one.suite == "mine"] == [False]

    own_suite(folder, "mine", "SELECT NULL AS found")

    assert [one.success for one in gate.check(START + HOUR).results if one.suite == "mine"] == [True]


def test_a_suite_that_stops_the_job_stops_it_when_it_can_not_be_run(root, tmp_path, monkeypatch):
    only_shipped(monkeypatch)
    with_suites(root, own_suite(tmp_path / "suites", "mine", "SELECT nothing", stops_job=True))
    root.check()

    with pytest.raises(UserError, match=r"stops the job \(mine suite\)\. The suite mine can't be run: .*nothing"):
        QualityStop(root.tables).check()


@pytest.mark.parametrize("stops_job", [True, False])
def test_a_suite_that_becomes_unreadable_stops_the_job_if_it_did_before(root, tmp_path, stops_job, monkeypatch):
    only_shipped(monkeypatch)
    folder = own_suite(tmp_path / "suites", "mine", "SELECT NULL AS found", stops_job=stops_job)
    with_suites(root, folder)
    root.check()
    QualityStop(root.tables).check()

    (folder / "mine.json").write_text("{")
    for hours in (2, 3):
        [one] = [one for one in root.check(START + hours * HOUR).results if not one.success]
        assert (one.suite, one.stops_job) == ("mine", stops_job)
    if stops_job:
        with pytest.raises(UserError, match=r"stops the job \(mine suite\)\. The suite .*mine.json can't be read"):
            QualityStop(root.tables).check()
    else:
        QualityStop(root.tables).check()

    own_suite(folder, "mine", "SELECT NULL AS found")
    root.check(START + 4 * HOUR)
    QualityStop(root.tables).check()


def test_a_folder_that_can_not_be_listed_is_one_sentence(root, tmp_path):
    folder = own_suite(tmp_path / "suites", "mine", "SELECT NULL AS found")
    folder.chmod(0o300)
    given = {"RUNTIME__ROOT": root.path, "SOURCE__KIND": "files", "QUALITY__SUITES": folder}
    environment = {f"REBALANCE_WATCH_{name}": str(value) for name, value in given.items()}

    ended = run_unprivileged(["-m", "streaming.cli", "quality", "--now"], environment)

    assert ended.returncode == 2
    assert ended.stdout == f"error: The folder {folder} can't be listed (Permission denied): correct quality.suites.\n"


def test_the_example_of_the_readme_is_added_and_run(root, tmp_path):
    text = (ROOT / "checkpoints/QUALITY.md").read_text("utf-8")
    [suite] = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    [example] = re.findall(r"^```\n\$ export REBALANCE_WATCH_QUALITY__SUITES=suites\n(.*?)^```$", text, re.M | re.S)
    (tmp_path / "suites").mkdir()
    (tmp_path / "suites/pauses.json").write_text(suite)
    root.rebalance("r1", START, pause_ms_max=12_000)
    root.rebalance("r2", START, pause_ms_max=41_500)
    environment = {"REBALANCE_WATCH_SOURCE__KIND": "files", "REBALANCE_WATCH_QUALITY__SUITES": str(tmp_path / "suites")}

    ended = CliRunner().invoke(
        main.app, ["--root", str(root.path), "--tz", "UTC", "quality", "--now", "--check"], env=environment
    )

    assert ended.exit_code == 3, ended.output
    asked, *lines = example.splitlines()
    assert asked == "$ rebalance-watch quality --now"
    assert _without_times(lines) == [line for line in _without_times(ended.stdout.splitlines()) if line[0] in _SHOWN]
    assert "pauses pause_seconds: to be between: A rebalance kept a queue" in ended.stdout


_SHOWN = ("suite", "pauses")


def _without_times(lines):
    words = [line.split() for line in lines if line.strip()]
    return [
        [word for word in line if not re.fullmatch(r"\d\d-\d\d|\d\d:\d\d(:\d\d)?|UTC", word)]
        for line in words
        if "rebalance" not in line
    ]
