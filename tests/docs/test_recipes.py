"""The recipes of schemas/README.md run as they stand there, over tables of a runtime root."""

import re

import pytest

from tests.docs.source import ROOT

_SECTION = re.compile(r"^## Recipes\n(.*?)^## ", re.MULTILINE | re.DOTALL)
_RECIPE = re.compile(r"^\*\*(\w+)\.\*\*[^\n]*\n\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def recipe(asked, tmp_path, monkeypatch):
    """Return a function that runs a recipe where `.rebalance-watch/tables` are tables, and returns its names."""
    (tmp_path / ".rebalance-watch").mkdir()
    (tmp_path / ".rebalance-watch/tables").symlink_to(asked)
    monkeypatch.chdir(tmp_path)
    [section] = _SECTION.findall((ROOT / "schemas/README.md").read_text("utf-8"))
    recipes = dict(_RECIPE.findall(section))

    def run(name):
        names = {}
        exec(compile(recipes[name], name, "exec"), names)  # text of this repository
        return names

    return run


def test_pandas_reads_rebalances_with_times(recipe):
    largest = recipe("pandas")["largest"]
    assert len(largest)
    assert str(largest["start_time"].dtype).startswith("datetime64")
    assert largest["queues_moved"].is_monotonic_decreasing


def test_duckdb_has_the_views_and_exports(recipe, tmp_path):
    names = recipe("DuckDB")
    assert (names["hours"]["intervals"] > 0).all()
    [(exported,)] = names["connection"].sql(f"SELECT count(*) FROM '{tmp_path}/incidents.parquet'").fetchall()
    [(incidents,)] = names["connection"].sql("SELECT count(*) FROM incidents").fetchall()
    assert exported == incidents > 0


@pytest.mark.spark
def test_spark_has_the_views(spark, recipe):
    counted = recipe("Spark")["by_code"].collect()
    assert counted
    assert all(row.incidents > 0 for row in counted)
