"""SQL stands in the file beside the module that runs it: each query is used, and none is formatted with a value."""

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

from streaming.base.statements import statements_of, with_parts
from tests.support.installed import ROOT

FILES = sorted(path for folder in ("queries", "serve") for path in (ROOT / "streaming" / folder).rglob("*.sql"))
MODULES = sorted(path for folder in ("queries", "serve") for path in (ROOT / "streaming" / folder).rglob("*.py"))
EXAMPLE = "SELECT * FROM open_incidents"
"""What REST's description shows of a user's own SQL."""


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_query_of_a_file_is_used_by_its_module(path):
    names = set(statements_of(module_of(path)))
    source = ast.parse(path.with_suffix(".py").read_text("utf-8"))

    assert names <= {node.value for node in ast.walk(source) if isinstance(node, ast.Constant)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_part_of_a_query_is_left_open(path):
    module = import_module(module_of(path))
    queries = [value for name, value in vars(module).items() if isinstance(value, str) and name.startswith("_")]

    assert not [query for query in queries if re.search(r"\{[a-z_]+\}", query) and "SELECT" in query]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_no_module_of_questions_or_pages_has_sql_in_it(path):
    literals = [node.value for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)]

    texts = [text for text in literals if isinstance(text, str) and text != EXAMPLE]
    assert not [text for text in texts if re.search(r"\bSELECT\b.+\bFROM\b", text, re.S)]


def test_a_part_takes_the_place_of_its_name_and_comments_are_left_out():
    sql = statements_of("streaming.queries.rebalances")

    assert "--" not in "".join(sql.values())
    assert with_parts("SELECT * FROM ({rows}) r", rows="SELECT 1") == "SELECT * FROM (SELECT 1) r"
