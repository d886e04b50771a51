"""A check of the tables that fails is an alert; so is that it succeeds again."""

import msgspec
import pytest

from schemas.rows import QualityResult
from streaming.serve.alerting.dispatcher import Dispatcher
from streaming.serve.alerting.own_incidents import FailedChecks
from tests.support.alerting import MINUTE, NOW, config
from tests.support.tables import append_rows, make_tables

FAILED, PASSED = ("ownership owned_twice", False), ("ownership owned_twice", True)
OPENED = [("OPENED", "QUALITY_CHECK_FAILED", "ownership owned_twice")]
RESOLVED = [("RESOLVED", "QUALITY_CHECK_FAILED", "ownership owned_twice")]


class Checks:
    """The results of checks, and the alerts about them."""

    def __init__(self, tables):
        self.tables = make_tables(tables)
        self.dispatcher = Dispatcher(config())
        self.number = 0
        self.restart()

    def restart(self):
        """Restart the process: it keeps the alerts of the ledger and nothing else."""
        self.followed = FailedChecks(self.tables)

    def results(self, *results, stops_job=False):
        """Append the results of one check: (subject, success), or with the expectation between them."""
        self.number += 1
        rows = [
            QualityResult(
                batch_id=self.number, time=NOW, suite=suite, column=column, success=success,
                expectation=expectations[0] if expectations else "null",
                observed='["x"]', unexpected_count=1, row_count=2, why="Why.", stops_job=stops_job,
                checked_at=None if suite == "telemetry" else NOW + self.number,
            )
            for subject, *expectations, success in results
            for suite, column in [subject.split()]
        ]  # fmt: skip
        append_rows(self.tables, "quality_results", map(msgspec.structs.asdict, rows))

    def transitions(self):
        transitions = self.followed.transitions(NOW + MINUTE, self.dispatcher.state.incidents)
        for transition in transitions:
            self.dispatcher.take(transition, NOW + MINUTE)
        return [(one.transition, one.code, one.subject) for one in transitions]


@pytest.fixture
def checks(tmp_path):
    return Checks(tmp_path / "tables")


def test_another_expectation_about_the_column_hides_no_failed_one(checks):
    checks.results(("ownership owned_twice", "max", False), ("ownership owned_twice", "mean", True))
    assert checks.transitions() == OPENED
    checks.results(("ownership owned_twice", "max", True), ("ownership owned_twice", "mean", True))
    assert checks.transitions() == RESOLVED


def test_of_an_expectation_that_a_suite_has_twice_the_failed_one_counts(checks):
    checks.results(FAILED, PASSED)
    assert checks.transitions() == OPENED


def test_a_failed_check_is_reported_once_and_resolved(checks):
    checks.results(FAILED, ("incidents open_twice", True))
    assert checks.transitions() == OPENED
    checks.results(FAILED)
    assert checks.transitions() == []
    checks.results(PASSED)
    assert checks.transitions() == RESOLVED


def test_a_restart_knows_what_failed_before(checks):
    checks.results(FAILED)
    checks.restart()
    assert checks.transitions() == OPENED
    checks.restart()
    assert checks.transitions() == []

    checks.results(PASSED)
    checks.restart()
    assert checks.transitions() == RESOLVED


def test_a_check_that_its_suite_no_longer_has_is_resolved(checks):
    checks.results(FAILED)
    assert checks.transitions() == OPENED
    checks.results(("ownership out_of_order", True))
    assert checks.transitions() == RESOLVED


def test_a_batch_of_the_archive_sends_no_alert(checks):
    checks.results(("telemetry time", False))
    assert checks.transitions() == []
    checks.restart()
    assert checks.transitions() == []


@pytest.mark.parametrize(("stops_job", "severity"), [(False, "warning"), (True, "critical")])
def test_a_check_that_stops_the_job_is_critical(checks, stops_job, severity):
    checks.results(FAILED, stops_job=stops_job)

    [opened] = checks.followed.transitions(NOW + MINUTE, {})

    assert (opened.severity, opened.explanation) == (severity, "Why.")
    assert msgspec.json.decode(opened.evidence) == {"failed": 1, "checked": 2, "observed": '["x"]'}
