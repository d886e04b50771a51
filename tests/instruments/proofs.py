"""Keep what each long test has shown in `tests/PROVED.md`, when it ends: a plugin of pytest for `make prove`.

A test adds figures of its own by pytest's fixture ``record_property(name, value)``.
"""

import re
from collections import Counter, defaultdict

import pytest

from tests.instruments.figures import PROOFS, FigureFile

_GROUP = re.compile(r"@[^\]]*$")
"""What pytest-xdist adds to the name of a test."""


class Result:
    """The results of the cases of one test."""

    def __init__(self) -> None:
        self._outcomes = Counter[str]()
        self._seconds = 0.0

    def add(self, report: pytest.TestReport) -> str:
        """Add a case; return the result so far."""
        self._outcomes[report.outcome] += 1
        self._seconds += report.duration
        cases = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self._outcomes.items(), reverse=True))
        return f"{cases} in {_duration(self._seconds)}"


class ProofKeeper:
    """Keeps the result of each test, how long it took, and its figures."""

    def __init__(self, file: FigureFile = PROOFS) -> None:
        self._file = file
        self._results: defaultdict[str, Result] = defaultdict(Result)
        """By test, without the case."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a part of a test has ended with; what was skipped has shown nothing."""
        path, _, case = _GROUP.sub("", report.nodeid).partition("::")
        figures = {}
        if report.failed or (report.passed and report.when == "call"):
            test = case.partition("[")[0]
            figures[test] = self._results[f"{path}::{test}"].add(report)
        if report.when == "teardown":  # a fixture may have added some at its end
            figures |= {f"{case}: {name}": str(value) for name, value in report.user_properties}
        if figures:
            self._file.keep(path.removeprefix("tests/"), figures)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
