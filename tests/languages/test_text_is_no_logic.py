"""Texts for people decide nothing: a translator must not be able to change behaviour."""

import ast
from pathlib import Path

import pytest

PRODUCT = Path(__file__).parents[2] / "streaming"
TEXT = {"gettext", "ngettext"}
FILES = sorted(PRODUCT.rglob("*.py"))


def compared_texts(source: str) -> list[int]:
    """Return the lines in which a translated text is compared, but with the text itself: whether it is translated."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Compare)
        for text, other in ((node.left, node.comparators[0]), (node.comparators[0], node.left))
        if isinstance(text, ast.Call) and _name(text.func) in TEXT and ast.dump(text.args[0]) != ast.dump(other)
    ]


def _name(function: ast.expr) -> str:
    return getattr(function, "id", getattr(function, "attr", ""))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PRODUCT)))
def test_no_translated_text_is_compared(file):
    assert compared_texts(file.read_text()) == []


def test_a_comparison_with_a_translated_text_is_found():
    assert compared_texts('x = 1\nif label == gettext("unassigned"):\n    pass\n') == [2]
