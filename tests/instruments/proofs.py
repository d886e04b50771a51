"""Keep what each long test has shown in `tests/PROVED.md`, when it ends: a plugin of pytest for `make prove`.

A test adds figures of its own by pytest's fixture ``record_property(name, value)``.
"""

import pytest

from tests.instruments.figures import PROOFS, FigureFile


class ProofKeeper:
    """Keeps the result of each test, how long it took, and its figures."""

    def __init__(self, file: FigureFile = PROOFS) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep what a part of a test has ended with; what was skipped has shown nothing."""
        path, _, test = report.nodeid.partition("::")
        figures = {}
        if report.failed or (report.passed and report.when == "call"):
            figures[test] = f"{report.outcome} in {_duration(report.duration)}"
        if report.when == "teardown":  # a fixture may have added some at its end
            figures |= {f"{test}: {name}": str(value) for name, value in report.user_properties}
        if figures:
            self._file.keep(path.removeprefix("tests/"), figures)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
