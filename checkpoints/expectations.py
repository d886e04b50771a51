"""Judge data frames by suites of Great Expectations. A suite is data: a JSON file.

Great Expectations works here on pandas frames, not on Spark: its release 1.24.1 declares no support for Spark 4.2. Its
import takes 2-5 s, so it is delayed until the first frame. Nothing is sent anywhere and no file is written: the context
is ephemeral and the analytics are off.

Suites are also users' own. So an expectation that can't be judged, whatever the reason, is a failed one with a sentence
that says why, and the others are judged as ever.
"""

import datetime as dt
import math
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from streaming.base.errors import UserError, first_line
from streaming.base.nearest import closest

if TYPE_CHECKING:
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.datasource.fluent.interfaces import Batch
    from great_expectations.expectations.expectation import Expectation

OBSERVED_MAX: Final = 20
"""Values of a list that are kept of an observation."""
_CHARACTERS: Final = 1_000
"""Characters of such a value, or of a library's error, that are kept."""
_INTEGER_MAX: Final = 2**63
"""Readers of JSON know no integer from here on; it is stored as text."""
_COLUMNS = ("column", "column_A", "column_B")
"""The arguments that name a column; `column_list` names several."""


class Verdict(NamedTuple):
    """The result of one expectation: the columns of `schemas.rows.QualityResult` that depend on it alone."""

    expectation: str
    column: str | None
    success: bool
    observed: str | None
    unexpected_count: int | None
    why: str


class SuiteError(UserError):
    """A suite can't be read or judged: its user corrects it."""


class _Reason(msgspec.Struct):
    why: str


class _Expectation(msgspec.Struct):
    type: str
    meta: _Reason
    kwargs: dict[str, Any] = {}

    @property
    def columns(self) -> list[str]:
        """The columns that it names."""
        return [str(self.kwargs[one]) for one in _COLUMNS if one in self.kwargs] + [
            str(one) for one in self.kwargs.get("column_list") or ()
        ]


class _SuiteMeta(msgspec.Struct):
    stops_job: bool = False
    query: str | None = None


class _SuiteFile(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    expectations: Annotated[list[_Expectation], msgspec.Meta(min_length=1)]
    meta: _SuiteMeta = msgspec.field(default_factory=_SuiteMeta)


class Suite:
    """The expectations of one file."""

    def __init__(self, content: bytes, file: str) -> None:
        """Read a suite from its JSON; ``file`` is its name for messages.

        Raises:
            SuiteError: it is not the JSON of a suite.
        """
        try:
            read = msgspec.json.decode(content, type=_SuiteFile)
            self._written = msgspec.json.decode(content)["expectations"]
        except (msgspec.DecodeError, RecursionError) as error:
            raise SuiteError(f"The suite {file} can't be read ({first_line(error)}): correct it.") from None
        self.name = read.name
        self.stops_job = read.meta.stops_job
        """True if the job must not run while an expectation of the suite fails."""
        self.query = read.meta.query
        """The SQL whose rows are judged; None: it is elsewhere."""
        self._expectations = read.expectations
        self._built: dict[_Zones, tuple[list[Expectation], list[Verdict]]] = {}

    def judge(self, frame: pd.DataFrame, parameters: Mapping[str, object]) -> list[Verdict]:
        """Judge a frame; return a verdict for each expectation, a failed one if it can't be judged.

        ``parameters`` are the values of the suite's ``$PARAMETER``.
        """
        if (zones := _zones_of(frame)) not in self._built:
            self._built[zones] = self._build(dict(zones))
        built, faults = self._built[zones]
        batch = _frames().get_batch(batch_parameters={"dataframe": frame})
        found = [self._verdict(one, frame) for one in _judged(batch, built, parameters)]
        return [*found, *faults]

    def _build(self, zones: "Mapping[str, dt.tzinfo | None]") -> "tuple[list[Expectation], list[Verdict]]":
        _frames()
        from great_expectations.expectations.expectation_configuration import (
            ExpectationConfiguration,
        )

        built: list[Expectation] = []
        faults: list[Verdict] = []
        for expectation, written in zip(self._expectations, self._written, strict=True):
            try:
                of_times = [zones[name] for name in expectation.columns if name in zones]
                kwargs = _with_instants(expectation.kwargs, of_times[0]) if of_times else expectation.kwargs
                built.append(ExpectationConfiguration(**(written | {"kwargs": kwargs})).to_domain_obj())
            except Exception as error:  # noqa: BLE001  of a library, about what a user has written: any kind
                faults.append(self._fault(expectation, _refusal(expectation.type, error)))
        return built, faults

    def _verdict(self, outcome: "_Found", frame: pd.DataFrame) -> Verdict:
        expectation = outcome.expectation
        if (error := _raised(outcome.exceptions)) is not None:
            lacking = [name for name in expectation.columns if name not in frame.columns]
            return self._fault(expectation, _missing_columns(lacking, frame) if lacking else error)
        count = outcome.result.get("unexpected_count")
        return Verdict(
            expectation=expectation.type,
            column=_joined(expectation),
            success=outcome.success,
            observed=_observed(outcome.result),
            unexpected_count=None if count is None else int(count),
            why=expectation.meta.why,
        )

    def _fault(self, expectation: _Expectation, why: str) -> Verdict:
        about = f" of the column {_joined(expectation)}" if expectation.columns else ""
        sentence = f"The suite {self.name} can't judge {expectation.type}{about}: {why}."
        return Verdict(
            expectation.type, _joined(expectation), success=False, observed=None, unexpected_count=None, why=sentence
        )


_Zones = frozenset[tuple[str, dt.tzinfo | None]]
"""The timestamp columns of a frame, each with its zone; None: it has none."""


def _zones_of(frame: pd.DataFrame) -> _Zones:
    types = {str(name): kind for name, kind in frame.dtypes.items() if pd.api.types.is_datetime64_any_dtype(kind)}
    return frozenset((name, getattr(kind, "tz", None)) for name, kind in types.items())


def _with_instants(value: Any, zone: dt.tzinfo | None) -> Any:
    """Return the arguments about a timestamp column with timestamps for texts of dates and times.

    Great Expectations makes a date of the text of one, which pandas refuses to compare with a timestamp. A text without
    offset is in UTC.
    """
    if isinstance(value, Mapping):
        return {key: one if str(key).startswith("column") else _with_instants(one, zone) for key, one in value.items()}
    if isinstance(value, list):
        return [_with_instants(one, zone) for one in value]
    if not isinstance(value, str):
        return value
    try:
        instant = dt.datetime.fromisoformat(value)
    except ValueError:
        return value
    instant = instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)
    return instant if zone is not None else instant.astimezone(dt.UTC).replace(tzinfo=None)


class _Found(NamedTuple):
    """The result of one expectation, as Great Expectations has it."""

    expectation: _Expectation
    success: bool
    result: Mapping[str, Any]
    exceptions: Mapping[str, Any]
    """The error that it raised, or by the id of each metric that of the metric."""


def _judged(
    batch: "Batch", expectations: "Sequence[Expectation]", parameters: Mapping[str, object]
) -> Iterator[_Found]:
    """Yield the result of each expectation. If one keeps the others from theirs, each is judged by itself."""
    import great_expectations as gx

    if not expectations:
        return
    # Not by a checkpoint: that compares each definition with what is stored, and stores each result, 10 kB, under a
    # new name; no code reads it.
    try:
        suite = gx.ExpectationSuite(name="suite", expectations=list(expectations))
        results = batch.validate(suite, result_format="SUMMARY", expectation_parameters=dict(parameters))
    except Exception as error:  # noqa: BLE001  of a library, about what a user has written: any kind
        if len(expectations) > 1:
            for each in expectations:
                yield from _judged(batch, [each], parameters)
        else:
            raised = {"raised_exception": True, "exception_message": str(error) or type(error).__name__}
            yield _Found(_written(expectations[0].configuration), success=False, result={}, exceptions=raised)
    else:
        for one in results.results:
            info = one.exception_info or {}
            yield _Found(_written(one.expectation_config), bool(one.success), one.result or {}, exceptions=info)


def _written(config: Any) -> _Expectation:
    """Return an expectation from Great Expectations' own form, which declares that it may be none."""
    return msgspec.convert({"type": config.type, "meta": config.meta, "kwargs": config.kwargs}, _Expectation)


@cache
def _frames() -> "BatchDefinition[Any]":
    """Return what Great Expectations takes frames with, in memory; made once per process."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read by the import
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of modules that it imports: no user can fix them
        import great_expectations as gx
        from great_expectations.data_context.types.base import ProgressBarsConfig

        context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    frames = context.data_sources.add_pandas("frames").add_dataframe_asset("frame")
    return frames.add_batch_definition_whole_dataframe("whole")


def _joined(expectation: _Expectation) -> str | None:
    return ",".join(expectation.columns) or None


def _raised(info: Mapping[str, Any]) -> str | None:
    """Return what an expectation raised, of itself or of one of the metrics that it needs; None: nothing."""
    for one in (info, *info.values()):
        if isinstance(one, Mapping) and one.get("raised_exception"):
            return _short(str(one.get("exception_message") or "it raised an error"))
    return None


def _missing_columns(names: Iterable[str], frame: pd.DataFrame) -> str:
    returned = ", ".join(map(str, frame.columns[:OBSERVED_MAX]))
    return f"its query does not return {', '.join(names)}, but {returned}"


def _refusal(name: str, error: Exception) -> str:
    """Return why Great Expectations does not accept an expectation as it is written."""
    from great_expectations.compatibility.pydantic import ValidationError
    from great_expectations.expectations.registry import (
        list_registered_expectation_implementations,
    )

    known = list_registered_expectation_implementations()
    if name not in known:
        near = " or ".join(closest(name, known, n=3))
        return f"there is no such expectation{f', but {near}' if near else ''}"
    if isinstance(error, ValidationError):
        wrong = dict.fromkeys(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        return _short(f"its kwargs are wrong ({'; '.join(wrong)})")
    return _short(str(error))


def _short(text: str) -> str:
    """Return a library's error as a part of a sentence."""
    return text.strip().partition("\n")[0][:_CHARACTERS].removesuffix(".")


def _observed(result: Mapping[str, Any]) -> str | None:
    """Return as JSON the value that was checked, or examples of the unexpected ones."""
    seen = result.get("observed_value")
    if seen is None:
        values = dict.fromkeys(_json(value) for value in result.get("partial_unexpected_list") or ())
        seen = [msgspec.Raw(value) for value in values] or None
    return None if seen is None else _json(seen).decode()


def _json(value: object) -> bytes:
    return msgspec.json.encode(_plain(value))


def _plain(value: object) -> object:
    """Return a value of any type as JSON has it; what JSON lacks, such as dates, NaN and decimals, as text."""
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind not in "mM":  # as Python has it; not of times
        value = value.tolist()
    if value is None or isinstance(value, bool | msgspec.Raw):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, int) and abs(value) < _INTEGER_MAX:
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in islice(value.items(), OBSERVED_MAX)}
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return [_plain(one) for one in islice(value, OBSERVED_MAX)]
    return (value.isoformat() if isinstance(value, dt.date) else str(value))[:_CHARACTERS]
