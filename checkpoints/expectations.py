"""Judge data frames by suites of Great Expectations. A suite is data: a JSON file.

Great Expectations works here on pandas frames, not on Spark: its release 1.24.1 declares no support for Spark 4.2. Its
import takes 2-5 s, so it is delayed until the first frame. Nothing is sent anywhere and no file is written: the context
is ephemeral and the analytics are off.
"""

import os
import warnings
from collections.abc import Mapping
from functools import cache, cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pandas as pd

from streaming.base.errors import UserError, first_line

if TYPE_CHECKING:
    from great_expectations import ExpectationSuite
    from great_expectations.core.batch_definition import BatchDefinition
    from great_expectations.data_context.data_context.ephemeral_data_context import EphemeralDataContext


class Verdict(NamedTuple):
    """The result of one expectation: the columns of `schemas.rows.QualityResult` that depend on it alone."""

    expectation: str
    column: str | None
    success: bool
    observed: str | None
    unexpected_count: int | None
    why: str


class Suite:
    """The expectations of one file."""

    def __init__(self, content: bytes, file: str) -> None:
        """Read a suite.

        Args:
            content: its JSON.
            file: the name of the file, for messages.

        Raises:
            UserError: it is not the JSON of a suite.
        """
        self._file = file
        try:
            self._content = msgspec.json.decode(content, type=dict[str, Any])
            self.name = str(self._content["name"])
            self.meta: dict[str, Any] = msgspec.convert(self._content.get("meta", {}), dict[str, Any])
            for one in msgspec.convert(self._content["expectations"], list[dict[str, Any]]):
                msgspec.convert(one["meta"]["why"], str)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise UserError(f"The suite {file} can't be read ({error}): correct it.") from None
        except (KeyError, TypeError) as error:
            raise UserError(f"The suite {file} lacks {error}: each expectation needs a type and meta.why.") from None

    def judge(self, frame: pd.DataFrame, parameters: Mapping[str, object]) -> list[Verdict]:
        """Judge a frame; return a verdict for each expectation.

        Args:
            frame: with the columns that the expectations name.
            parameters: the values of the suite's ``$PARAMETER``.

        Raises:
            UserError: the suite names an expectation that does not exist.
        """
        suite, frames = self._in_context
        # Not by a checkpoint: that compares each definition with what is stored, and stores each result, 10 kB, under a
        # new name; no code reads it.
        found = frames.get_batch(batch_parameters={"dataframe": frame}).validate(
            suite, result_format="SUMMARY", expectation_parameters=dict(parameters)
        )
        return [_verdict(one.to_json_dict()) for one in found.results]

    @cached_property
    def _in_context(self) -> "tuple[ExpectationSuite, BatchDefinition[Any]]":
        context = _context()
        import great_expectations as gx  # noqa: PLC0415  `_context` has imported it
        from great_expectations.exceptions.exceptions import GreatExpectationsError  # noqa: PLC0415  as above

        name = f"{self.name}-{next(_NUMBERS)}"
        try:
            suite = context.suites.add(gx.ExpectationSuite(**{**self._content, "name": name}))
        except (GreatExpectationsError, TypeError, ValueError) as error:
            raise UserError(f"The suite {self._file} can't be used: {first_line(error)}.") from None
        frames = context.data_sources.add_pandas(name).add_dataframe_asset("frame")
        return suite, frames.add_batch_definition_whole_dataframe("whole")


_NUMBERS = count()
"""Of the suites in the context: two of them may have one name."""


@cache
def _context() -> "EphemeralDataContext":
    """Return what Great Expectations keeps, in memory; made once per process."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"  # read by the import
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of modules that it imports: no user can fix them
        import great_expectations as gx  # noqa: PLC0415  takes seconds
        from great_expectations.data_context.types.base import ProgressBarsConfig  # noqa: PLC0415  as above

        context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    return context


def _verdict(one: dict[str, Any]) -> Verdict:
    config, result = one["expectation_config"], one["result"]
    arguments = config["kwargs"]
    return Verdict(
        expectation=config["type"],
        column=arguments.get("column") or ",".join(arguments.get("column_list", ())) or None,
        success=one["success"],
        observed=_observed(one),
        unexpected_count=result.get("unexpected_count"),
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
