"""Reads descriptions out of the source: docstrings of attributes, and the comments of a TOML file."""

import ast
import re
import tomllib
from pathlib import Path

from schemas.meanings import docs_below, field_docs

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
    return {name: prose(text) for name, text in field_docs(row).items()}


def module_docs(module):
    """Return the docstrings that stand below the constants of a module, by constant."""
    found = docs_below(ast.parse(Path(module.__file__).read_text("utf-8")).body)
    return {name: prose(text) for name, text in found.items()}


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
