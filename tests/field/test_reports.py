"""The page of the public reports has every case with its reference, and what is concluded today."""

import pytest

from tests.field.__main__ import PAGE, reports, row
from tests.field.test_invariants import QUICK
from tests.support.field import CASES


def rows():
    cells = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    return {row[0].strip("`"): row for row in cells}


def test_each_case_has_its_report_and_its_row():
    cases = {folder.name for folder in CASES.iterdir()}
    assert set(reports()) == cases
    assert set(rows()) == cases


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.prove) for name in sorted(reports())],
)
def test_a_row_is_what_is_concluded_today(name):
    assert rows()[name] == row(name), "run python -m tests.field"
