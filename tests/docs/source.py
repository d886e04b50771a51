"""Reads descriptions out of the source: docstrings of attributes, and the comments of a TOML file."""

import ast
import re
import sys
import tomllib
from functools import cache
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parents[2]


def prose(text):
    """Return a docstring as one line of Markdown that may stand in a table."""
    text = re.sub(r"\s+", " ", text.replace("``", "`")).strip().replace("|", "\\|")
    parts = text.split("`")  # every second one is code, in which nothing is markup
    return "`".join(part if at % 2 else part.replace("<", "&lt;").replace("*", "\\*") for at, part in enumerate(parts))


def table(header, rows):
    """Return the lines of a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(str(cell) for cell in line)} |" for line in lines]


def attribute_docs(row):
    """Return the docstrings that stand below the attributes of a class, inherited ones included, by attribute."""
    found = {}
    for base in reversed(row.__mro__):
        if base.__module__ in sys.modules and base.__module__.startswith(("rebalance_model", "schemas", "streaming")):
            found |= _docs_by_class(base.__module__).get(base.__name__, {})
    return found


def module_docs(module):
    """Return the docstrings that stand below the constants of a module, by constant."""
    return _docs(ast.parse(Path(module.__file__).read_text("utf-8")).body)


@cache
def _docs_by_class(module):
    tree = ast.parse(Path(sys.modules[module].__file__).read_text("utf-8"))
    return {node.name: _docs(node.body) for node in tree.body if isinstance(node, ast.ClassDef)}


def _docs(body):
    return {
        one.target.id: prose(after.value.value)
        for one, after in pairwise(body)
        if isinstance(one, ast.AnnAssign) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
    }


def toml_entries(path):
    """Yield (section, its comment, [(key, default as written, comment)]) of a settings file that has its defaults."""
    text = path.read_text("utf-8")
    tomllib.loads(text)
    section, about, entries = "", "", []
    for line in text.splitlines():
        if header := re.match(r"\[([\w.]+)\]\s*(?:# *(.*))?$", line):
            yield section, about, entries
            section, about, entries = header[1], header[2] or "", []
        elif entry := re.match(r"(\w+) = (\[(?=\s*#)|\"[^\"]*\"|\[.*?\]|[^#\s]+)\s*(?:# *(.*))?$", line):
            value = _list_after(text, line) if entry[2] == "[" else entry[2]
            entries.append((entry[1], value, entry[3] or ""))
    yield section, about, entries


def _list_after(text, line):
    """Return an array that is written over several lines, on one."""
    items = text.split(line, 1)[1].split("]", 1)[0]
    return "[" + ", ".join(re.findall(r'"[^"]*"', items)) + "]"
