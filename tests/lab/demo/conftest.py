import pytest

from streaming.tables import ReadModel
from tests.support.findings import effects
from tests.support.tables import append, make_tables


@pytest.fixture(scope="package")
def model(tmp_path_factory):
    """The tables of the demo, without Spark."""
    tables = make_tables(tmp_path_factory.mktemp("demo") / "tables")
    append(tables, effects())
    with ReadModel(tables) as opened:
        yield opened
