"""The recipes of schemas/README.md run as they stand there, over tables of a runtime root."""

import re

import pytest

from streaming.tables import ReadModel
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


def test_the_ids_join_as_their_queries_say(asked):
    """Each query is compared with a count that needs no join."""
    [section] = re.findall(r"^## Ids\n(.*?)^## ", (ROOT / "schemas/README.md").read_text("utf-8"), re.M | re.S)
    changes, incidents, events = re.findall(r"^```sql\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    with ReadModel(asked) as model:
        moved = {row["rebalance_id"] for row in model.rows("SELECT rebalance_id FROM rebalances")}
        history = model.rows("SELECT rebalance_id, cause FROM assignment_history")
        known = {row["incident_id"]: row for row in model.rows("SELECT incident_id, code, parent FROM incidents")}

        assert len(model.rows(changes)) == sum(row["rebalance_id"] in moved for row in history) > 0
        explained = {row["incident_id"]: row["explained_by"] for row in model.rows(incidents)}
        assert explained == {
            name: known[one["parent"]]["code"] if one["parent"] in known else None for name, one in known.items()
        }
        assert any(explained.values())
        archived = {
            f"{row['source_id']}|{row['key']}|{row['seq']}"
            for row in model.rows("SELECT source_id, key, seq FROM telemetry")
        }
        assert len(model.rows(events)) == sum(row["cause"] in archived for row in history) > 0
