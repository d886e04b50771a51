"""Docstrings begin with a verb or a noun, and the prose has no words of a private dialect."""

import ast

import pytest

from tests.docs.names import sources
from tests.docs.sentences import FIRST_WORDS, QUESTION_WORDS, in_dialect, unclear_beginnings, unclear_fields
from tests.docs.test_names import PRODUCT, prose


def test_a_docstring_begins_with_a_verb_or_a_noun():
    unclear = [
        f"{file}:{line}: {text}"
        for file, tree in sources().items()
        for line, text in unclear_beginnings(tree, FIRST_WORDS if file.startswith(PRODUCT) else QUESTION_WORDS)
    ]
    assert unclear == []


def test_a_description_of_a_field_begins_with_a_noun():
    product = {file: tree for file, tree in sources().items() if file.startswith(PRODUCT)}
    assert [f"{file}:{line}: {text}" for file, tree in product.items() for line, text in unclear_fields(tree)] == []


def test_prose_has_no_dialect():
    """Records of releases and of proofs stay as they were written."""
    assert [one for one in in_dialect(prose()) if not one[0].startswith(("CHANGELOG.md", "tests/PROVED.md"))] == []


@pytest.mark.parametrize(
    "source",
    ['"""What is found."""', 'class A:\n    """The same of another."""', 'def a():\n    """Whether it is."""'],
)
def test_an_unclear_beginning_is_found(source):
    assert list(unclear_beginnings(ast.parse(source)))


@pytest.mark.parametrize("source", ['"""Return what is found."""', 'a = 1\n"""When it was found."""', "def a(): pass"])
def test_a_clear_beginning_passes(source):
    assert not list(unclear_beginnings(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ['a = 1\n"""How often."""', 'class A:\n    b: int\n    """Whether it is."""', 'a = b(description="What it is.")'],
)
def test_an_unclear_description_of_a_field_is_found(source):
    assert list(unclear_fields(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    ['a = 1\n"""When it was."""', 'b()\n"""What is."""', 'a = b(title="What", description="A cause.")'],
)
def test_a_clear_description_of_a_field_passes(source):
    assert not list(unclear_fields(ast.parse(source)))


@pytest.mark.parametrize("text", ["It is made anew.", "a. So who guesses gets no further.", "The job goes on."])
def test_dialect_is_found(text):
    assert list(in_dialect([("here", text)]))


@pytest.mark.parametrize("text", ["The job continues.", "`goes on` is a name.", "A person who asks."])
def test_standard_words_pass(text):
    assert not list(in_dialect([("here", text)]))
