"""The quality gate of the archive: a suite of expectations over each batch (`suites/telemetry.json`).

It checks what no single row shows: the share of rejected rows, numbers of events, clocks. Rows that are invalid in
themselves are rejected earlier, by the decoder; that each row is archived once is checked with the tables
(`suites/archive.json`). A failed check stops nothing: the caller keeps the batch, records the result and warns.

It runs on a frame of a few columns: 200,000 rows take 0.25 s and a million 0.9 s, less than one Spark job for each
expectation.

A check of the tables that failed may stop the job: its suite says so (`stops_job`).

The results in `quality_results` are the only record, which the job reads wherever it runs: no check is made here. Of
each suite the results of its newest check count, so the job may start again when that has succeeded. An expectation
that the suite no longer has does not count.
"""

import math
from functools import cache
from importlib import resources
from typing import Any

import pandas as pd
import pyarrow as pa

from checkpoints.expectations import Suite
from schemas.arrow import in_epoch_ms
from schemas.rows import QualityResult
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.base.process import Pace
from streaming.tables.delta import answered, delta_at

_LOOK_SECONDS = 60.0
"""A look reads one column of all results, which takes a tenth of a second for those of a month."""
_NAMES = ("suite", "expectation", "column", "success", "why", "observed", "checked_at", "stops_job")


class QualityStop:
    """Reads whether a check stops the job."""

    def __init__(self, tables: Place) -> None:
        self._place = tables / "quality_results"
        self._table = delta_at(self._place)
        self._version = -1
        self._pace = Pace(_LOOK_SECONDS)

    def check(self) -> None:
        """Look whether there are new results, once a minute at most.

        Raises:
            UserError: a check that stops the job failed when it was last made; or the object store does not answer.
        """
        if not self._pace.is_due():
            return
        results = self._new_results()
        newest: dict[str, int] = {}
        for row in results:
            newest[row["suite"]] = max(newest.get(row["suite"], 0), row["checked_at"])
        for row in results:
            if row["stops_job"] and not row["success"] and row["checked_at"] == newest[row["suite"]]:
                observed = f": {row['observed']}" if row["observed"] else ""
                raise UserError(
                    f"A check of the tables stops the job ({row['suite']} {row['column'] or row['expectation']}"
                    f"{observed}). "
                    f"{row['why']} Mend the tables, as with `rebalance-watch rebuild`, then run `rebalance-watch "
                    "quality --now`; or omit stops_job in the suite before that."
                )

    def _new_results(self) -> list[dict[str, Any]]:
        """Return the results of all checks; none if there are no others than at the last look."""
        with answered(self._place):
            self._table.update_incremental()
            if self._table.version() == self._version:
                return []
            rows = pa.RecordBatchReader.from_stream(self._table.scan(list(_NAMES), "checked_at IS NOT NULL")).read_all()
        self._version = self._table.version()
        results: list[dict[str, Any]] = in_epoch_ms(rows).to_pylist()
        return results


SUITE = "telemetry"
COLUMNS = ("type", "time", "source_id", "key", "seq", "partition", "ingest_time")
"""The columns of `telemetry` that the suite needs."""
_NUMBER = ["partition", "source_id", "key", "seq"]
_EVENT = [*_NUMBER, "type", "time"]
"""An event that has all of these in common with one before was sent again, as after the kill of a collector."""
ACCEPTED_SHARE_MIN = 0.99


def judge(accepted: pd.DataFrame, *, batch_id: int, rejected: int, time: int) -> list[QualityResult]:
    """Judge a batch's accepted rows, with `COLUMNS`; return a row for each expectation of the suite.

    ``rejected`` is the number of its other rows, ``time`` its latest ingest time.
    """
    frame = accepted.assign(
        delay_ms=accepted["ingest_time"] - accepted["time"],
        has_number_of_another=accepted.duplicated(_NUMBER) & ~accepted.duplicated(_EVENT),
    )
    verdicts = _suite().judge(
        frame,
        {"accepted_min": math.ceil((len(accepted) + rejected) * ACCEPTED_SHARE_MIN)},
    )
    return [
        QualityResult(batch_id=batch_id, time=time, suite=SUITE, row_count=len(accepted), **one._asdict())
        for one in verdicts
    ]


@cache
def _suite() -> Suite:
    file = f"{SUITE}.json"
    return Suite(resources.files("checkpoints").joinpath("suites", file).read_bytes(), file)
