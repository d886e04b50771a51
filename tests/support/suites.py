"""Suites of a user's own, in a folder beside the tables."""

import json

from checkpoints import table_quality

NULL = {"type": "expect_column_values_to_be_null", "kwargs": {"column": "found"}, "meta": {"why": "Why."}}
"""An expectation that a row with ``found`` breaks."""


def own_suite(folder, name, sql, *expectations, stops_job=False):
    """Write a suite of these expectations, or of `NULL`; return its folder."""
    folder.mkdir(exist_ok=True)
    content = {"name": name, "meta": {"stops_job": stops_job}, "expectations": expectations or [NULL]}
    (folder / f"{name}.json").write_text(json.dumps(content))
    (folder / f"{name}.sql").write_text(sql)
    return folder


def expect(kind, column, why="Why.", **arguments):
    """Return an expectation about a column."""
    return {"type": f"expect_column_{kind}", "kwargs": {"column": column, **arguments}, "meta": {"why": why}}


def with_suites(root, folder):
    """Let a root have the suites of a folder."""
    quality = root.settings.quality.model_copy(update={"suites": str(folder)})
    root.settings = root.settings.model_copy(update={"quality": quality})


def only_shipped(monkeypatch, *names):
    """Let checks of this test run only some of the program's suites: all seven take half a second each time."""
    shipped = table_quality._shipped
    assert set(names) <= shipped("suites").keys()

    def chosen(folder):
        return {name: one for name, one in shipped(folder).items() if name in names or folder != "suites"}

    monkeypatch.setattr(table_quality, "_shipped", chosen)
