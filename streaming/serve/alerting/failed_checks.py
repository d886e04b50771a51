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
from streaming.serve.alerting.state import Known
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

    def look(self, now: int, known: Mapping[str, Known]) -> list[IncidentTransition]:
        """Return transitions for the checks that fail and those that succeed again.

        Args:
            now: epoch milliseconds.
            known: the unresolved incidents, including those of earlier calls.
        """
        try:
            for commit in self._follower.new():
                self._note(commit.rows)
        except LostError:
            self._read_all()
        failing = {subject: one for (subject, _), one in self._last.items() if not one.success}
        over = [
            own_incidents.resolved(one.last, now, {})
            for one in known.values()
            if one.last.code == QUALITY_CHECK_FAILED and failing.pop(one.last.subject, None) is None
        ]
        return over + [_opened(subject, one, now) for subject, one in failing.items()]

    def _read_all(self) -> None:
        self._last.clear()
        for batch in self._follower.whole(f"suite <> '{OF_BATCHES}'"):
            self._note(pa.Table.from_batches([batch]))

    def _note(self, rows: pa.Table) -> None:
        results = [one for one in converted(rows, QualityResult) if one.suite != OF_BATCHES]
        for one in sorted(results, key=_order):
            check = _subject(one), one.expectation
            if check not in self._last or _order(one) >= _order(self._last[check]):
                self._last[check] = one
        self._forget_removed()

    def _forget_removed(self) -> None:
        """Forget the checks that a suite no longer has."""
        newest: dict[str, int] = {}
        for one in self._last.values():
            newest[one.suite] = max(newest.get(one.suite, 0), _checked_at(one))
        for check, one in list(self._last.items()):
            if _checked_at(one) < newest[one.suite]:
                del self._last[check]


def _checked_at(one: QualityResult) -> int:
    return one.checked_at or one.time


def _order(one: QualityResult) -> tuple[int, bool]:
    """Return the order of results: a suite may have an expectation twice, and then the one that failed counts."""
    return _checked_at(one), not one.success


def _subject(one: QualityResult) -> str:
    return f"{one.suite} {one.column or one.expectation}"


def _opened(subject: str, one: QualityResult, now: int) -> IncidentTransition:
    evidence = {"failed": one.unexpected_count, "checked": one.row_count, "observed": one.observed}
    return own_incidents.opened(
        QUALITY_CHECK_FAILED, "", subject, since=_checked_at(one), now=now,
        severity="critical" if one.stops_job else "warning", evidence=evidence, advice=(one.why, _FIRST_STEP),
    )  # fmt: skip
