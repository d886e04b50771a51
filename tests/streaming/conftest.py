"""Tables that the tests of questions and of commands share."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables to ask, never written to again; see `tests.streaming.asked`."""
    from tests.streaming.asked import everything, write  # noqa: PLC0415  folds a log

    tables = tmp_path_factory.mktemp("asked") / "tables"
    write(tables, everything())
    return tables
