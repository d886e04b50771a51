"""The quality gate: a Great Expectations checkpoint over each batch of the archive.

The suite is data (`suites/telemetry.json`). It checks what no single row shows: shares, duplicates, clocks, and that
the archive itself worked correctly. Rows that are invalid in themselves are rejected earlier, by the decoder. A failed
check stops nothing: the caller keeps the batch, records the result and warns.

It runs on a pandas frame of a few columns, not on Spark: 200,000 rows take 0.25 s and a million 0.9 s, less than one
Spark job per expectation, and Great Expectations 1.24.1 declares no support for Spark 4.2. The import takes 2-5 s, so
it is delayed until the first batch. Nothing is sent anywhere and no file is written: the context is ephemeral and the
analytics are off.
"""

import math
import os
import warnings
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import pandas as pd

from rebalance_model.observe.events import AnyEvent
from schemas.rows import QualityResult

if TYPE_CHECKING:
    from great_expectations import Checkpoint
    from great_expectations.data_context.store.validation_results_store import ValidationResultsStore

SUITE = "telemetry"
COLUMNS = ("type", "time", "source_id", "key", "seq", "partition", "offset", "ingest_time")
"""The columns of `telemetry` that the suite needs."""
TYPES = sorted(str(event.__struct_config__.tag) for event in get_args(AnyEvent))
ACCEPTED_SHARE_MIN = 0.99


def judge(accepted: pd.DataFrame, *, batch_id: int, rejected: int, time: int, partitions: int) -> list[QualityResult]:
    """Judge one batch; return a row for each expectation of the suite.

    Args:
        accepted: the batch's accepted rows, with `COLUMNS`.
        batch_id: the batch's number within the checkpoint.
        rejected: how many rows of the batch were rejected.
        time: the batch's latest ingest time.
        partitions: the log's number of partitions.
    """
    frame = accepted.assign(delay_ms=accepted["ingest_time"] - accepted["time"])
    checkpoint, kept = _checkpoint()
    result = checkpoint.run(
        batch_parameters={"dataframe": frame},
        expectation_parameters={
            "accepted_min": math.ceil((len(accepted) + rejected) * ACCEPTED_SHARE_MIN),
            "partition_max": partitions - 1,
            "types": TYPES,
        },
    )
    ((name, suite),) = result.run_results.items()
    # Each run stores its result, 10 kB, under a new name, and no code reads it: 90 MB a day at a batch every 10 s.
    kept.remove_key(name)  # type: ignore[no-untyped-call]
    return [_verdict(one.to_json_dict(), batch_id, time, len(accepted)) for one in suite.results]


@cache
def _checkpoint() -> tuple["Checkpoint", "ValidationResultsStore"]:
    """Return the checkpoint over the suite, made once per process, and its store of results, in memory."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read by the import
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of modules that it imports: no user can fix them
        import great_expectations as gx  # noqa: PLC0415  takes seconds
        from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415  as above

        context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    suite_json = resources.files("checkpoints").joinpath("suites", f"{SUITE}.json").read_bytes()
    suite = context.suites.add(gx.ExpectationSuite(**msgspec.json.decode(suite_json)))
    frames = context.data_sources.add_pandas("archive").add_dataframe_asset("accepted")
    batch = frames.add_batch_definition_whole_dataframe("batch")
    gate = context.validation_definitions.add(gx.ValidationDefinition(name=SUITE, data=batch, suite=suite))
    checkpoint = gx.Checkpoint(name=SUITE, validation_definitions=[gate], result_format="SUMMARY")
    return context.checkpoints.add(checkpoint), context.validation_results_store


def _verdict(one: dict[str, Any], batch_id: int, time: int, row_count: int) -> QualityResult:
    config, result = one["expectation_config"], one["result"]
    arguments = config["kwargs"]
    return QualityResult(
        batch_id=batch_id,
        time=time,
        suite=SUITE,
        expectation=config["type"],
        column=arguments.get("column") or ",".join(arguments.get("column_list", ())) or None,
        success=one["success"],
        observed=_observed(one),
        unexpected_count=result.get("unexpected_count"),
        row_count=row_count,
        why=config["meta"]["why"],
    )


def _observed(one: dict[str, Any]) -> str | None:
    result = one["result"]
    if not result:
        seen = one["exception_info"]  # the expectation could not be judged, which counts as a failure
    elif "observed_value" in result:
        seen = result["observed_value"]
    else:
        values = dict.fromkeys(msgspec.json.encode(value) for value in result["partial_unexpected_list"])
        seen = [msgspec.Raw(value) for value in values] or None
    return None if seen is None else msgspec.json.encode(seen).decode()
