"""Alert when a check of the tables fails, and when it succeeds again (`checkpoints.table_quality`).

Checks of the archive's batches send no alert: what a source sends may be good and bad in turn, every ten seconds. They
have a metric.
"""

from collections.abc import Mapping

import pyarrow as pa

from checkpoints.quality import SUITE as OF_BATCHES
from rebalance_model.observe.effects import IncidentTransition
from schemas.rows import QualityResult
from streaming.base.language import marked
from streaming.base.place import Place
from streaming.serve.alerting import own_incidents
from streaming.serve.alerting.config import QUALITY_CHECK_FAILED
from streaming.serve.alerting.follow import Follower, LostError
from streaming.serve.alerting.ledger import converted
from streaming.serve.alerting.state import TrackedIncident
from streaming.tables.delta import delta_at

_RESULTS = "quality_results"
_FIRST_STEP = marked("Run `rebalance-watch quality` for examples, and see streaming/RUNBOOK.md.")


class FailedChecks:
    """Follows the results of the checks."""

    def __init__(self, tables: Place) -> None:
        """Begin with the results that are there.

        Raises:
            UserError: the table is missing.
        """
        there = {field.name for field in delta_at(tables / _RESULTS).schema().fields}
        names = [name for name in QualityResult.__struct_fields__ if name in there]
        self._follower = Follower(tables / _RESULTS, names)
        self._last: dict[tuple[str, str], QualityResult] = {}
        """The last result of each check, by its subject and expectation."""
        self._read_all()

    def look(self, now: int, incidents: Mapping[str, TrackedIncident]) -> list[IncidentTransition]:
        """Return transitions for the checks that fail and those that succeed again.

        Args:
            now: epoch milliseconds.
            incidents: the unresolved incidents, including those of earlier calls.
        """
        try:
            for commit in self._follower.new():
                self._note(commit.rows)
        except LostError:
            self._read_all()
        failing = {subject: result for (subject, _), result in self._last.items() if not result.success}
        over = [
            own_incidents.resolved(incident.last, now, {})
            for incident in incidents.values()
            if incident.last.code == QUALITY_CHECK_FAILED and failing.pop(incident.last.subject, None) is None
        ]
        return over + [_opened(subject, result, now) for subject, result in failing.items()]

    def _read_all(self) -> None:
        self._last.clear()
        for batch in self._follower.whole(f"suite <> '{OF_BATCHES}'"):
            self._note(pa.Table.from_batches([batch]))

    def _note(self, rows: pa.Table) -> None:
        results = [result for result in converted(rows, QualityResult) if result.suite != OF_BATCHES]
        for result in sorted(results, key=_order):
            check = _subject(result), result.expectation
            if check not in self._last or _order(result) >= _order(self._last[check]):
                self._last[check] = result
        self._forget_removed()

    def _forget_removed(self) -> None:
        """Forget the checks that a suite no longer has."""
        newest: dict[str, int] = {}
        for result in self._last.values():
            newest[result.suite] = max(newest.get(result.suite, 0), _checked_at(result))
        for check, result in list(self._last.items()):
            if _checked_at(result) < newest[result.suite]:
                del self._last[check]


def _checked_at(result: QualityResult) -> int:
    return result.checked_at or result.time


def _order(result: QualityResult) -> tuple[int, bool]:
    """Return the order of results: a suite may have an expectation twice, and then the one that failed counts."""
    return _checked_at(result), not result.success


def _subject(result: QualityResult) -> str:
    return f"{result.suite} {result.column or result.expectation}"


def _opened(subject: str, result: QualityResult, now: int) -> IncidentTransition:
    evidence = {"failed": result.unexpected_count, "checked": result.row_count, "observed": result.observed}
    return own_incidents.opened(
        QUALITY_CHECK_FAILED, "", subject, since=_checked_at(result), now=now,
        severity="critical" if result.stops_job else "warning", evidence=evidence, advice=(result.why, _FIRST_STEP),
    )  # fmt: skip
