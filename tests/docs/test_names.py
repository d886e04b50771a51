"""Names: what lives for long is named for what it is, one name is one class, and one thing has one word."""

import ast
import re
from collections import defaultdict
from functools import cache

import pytest

from schemas.tables import TABLES
from tests.docs.names import classes, empty_names, names_like, sources
from tests.docs.references import checked, texts
from tests.docs.source import ROOT
from tests.languages.catalogues import read

PUBLIC = {
    ("streaming/cli/peer_checks.py", "found"): "in the JSON of `doctor`",
    ("simulation/scenario.py", "of"): "a key of scenarios",
}
"""Names that users write or read: they stay."""

PRODUCT = ("rebalance_model/", "simulation/", "schemas/", "streaming/", "checkpoints/")
JAVAS = {"MessageQueueAssignment", "ProcessQueueInfo"}
"""RocketMQ has one such class; here it stands once as its maker has it, and once as another sees it."""


def test_what_lives_longer_than_three_lines_has_a_name_of_its_own():
    named = [
        f"{file}:{line} {name}"
        for file, tree in sources().items()
        for line, name in empty_names(tree)
        if (file, name) not in PUBLIC
    ]
    assert named == []


@pytest.mark.parametrize(
    "source",
    [
        "def f(known): pass",
        "found = 1",
        "class A:\n    held: int",
        "self.shown = 1",
        "def f():\n    one = 1\n    a()\n    b()\n    return one",
        "def f():\n    for one in a:\n        b()\n        c()\n        d(lambda: one)",
        "{\n    one\n    for a in b\n    for one in a\n    if b and\n    c\n    and d(one)\n}",
        "def wanted(): pass",
        "from a import of",
    ],
)
def test_an_empty_name_is_found(source):
    assert empty_names(ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    one = 1\n    a()\n    return one",
        "[one for one in a]",
        "sorted(a, key=lambda one: one.b)",
        "f(found=1)",
        "a.known",
        "class A:\n    def of(cls): pass",
    ],
)
def test_a_name_that_is_in_sight_passes(source):
    assert not empty_names(ast.parse(source))


def test_one_name_is_one_class():
    """In the product: a class of a test stands for what it is named for, as the simulation's `Broker` does."""
    files = defaultdict(list)
    for file, tree in sources().items():
        if file.startswith(PRODUCT):
            for name in classes(tree):
                files[name].append(file)
    assert len(files) > 600
    twice = {name: where for name, where in files.items() if len(where) > 1}
    assert {name: where for name, where in twice.items() if name not in JAVAS} == {}


_TABLE = "|".join(TABLES)
_OTHER_ROWS = "(records?|lines?|entry|entries)"
_OTHER_EXPECTED = "(planned|target|intended|desired|designated|due|computed|calculated|future)"
WORDS = {
    "incident": ("anomal", "anomaly"),
    "unassigned": ("unowned|ownerless", "unowned|ownerless"),
    "expected_owner": (
        f"{_OTHER_EXPECTED}_?(owner|holder)|should_?own",
        rf"\b{_OTHER_EXPECTED} (owner|holder)s?\b|\bshould (own\b|(have|hold) (it|(the|a|each) queue)\b)",
    ),
    "row": (
        f"({_TABLE})_?{_OTHER_ROWS}",
        rf"\b{_OTHER_ROWS} (of|in|from) (\w+ )?(TABLE|Delta tables?)\b|\b(TABLE|Delta table|table's) {_OTHER_ROWS}\b",
    ),
}
"""By the word for one thing, what strays from it in names (small letters), and in prose. There TABLE is the name of a
Delta table in backticks: a table without its name may be one of Markdown, or a broker's table of locks."""
PUBLIC_WORDS = {
    ("streaming/pipeline/sinks.py", "_ANOMALIES"): "the table's name is older than the word",
    ("streaming/serve/alerting/run.py", "_ANOMALIES"): "as above",
    ("streaming/queries/results/groups.py", "unowned"): "a field of groups in REST's answers",
    ("streaming/queries/groups.py", "unowned"): "as above",
}


@pytest.mark.parametrize("word", WORDS)
def test_one_thing_has_one_word_in_the_code(word):
    stray = [
        f"{file}: {name}: {word}"
        for file, name in names_like(f"(?i){WORDS[word][0]}", PRODUCT)
        if (file, name) not in PUBLIC_WORDS
    ]
    assert stray == []


def test_nothing_is_named_told():
    """It had some twenty meanings: a name says what was reported, printed or written. Titles of tests are prose."""
    names = names_like(r"(?<![^\W_])told(?![^\W_])|Told")
    named = [f"{file}: {name}" for file, name in names if not name.startswith("test_")]
    assert named == []


@cache
def prose():
    """Return (where, text) of what people read: documents, comments and docstrings, and what the program says.

    A text of the program that is one word is the name of a field, as in REST's answers.
    """
    written = [
        (f"{file}:{line}", text)
        for file in checked()
        if file.endswith(".md") or (file.startswith(PRODUCT) and file.endswith(".py"))
        for line, text in texts(file)
    ]
    said = [(f"a text of the program: {one}", one) for entry in read("zh") for one in _english(entry) if " " in one]
    return [*written, *said]


def _english(entry):
    return (entry.id,) if isinstance(entry.id, str) else entry.id


@pytest.mark.parametrize("word", WORDS)
def test_one_thing_has_one_word_in_the_prose(word):
    """A text in backticks is a name; the plural of an anomaly is the table's."""
    assert stray_texts(word, prose()) == []


def stray_texts(word, where_and_text):
    pattern = re.compile(WORDS[word][1], re.IGNORECASE)
    return [where for where, text in where_and_text if pattern.search(_without_names(text))]


@cache
def _without_names(text):
    return re.sub("`[^`]*`", "", re.sub(f"`({_TABLE})`", "TABLE", text)) if "`" in text else text


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("expected_owner", "The planned owner of a queue."),
        ("expected_owner", "Compute who should own each queue."),
        ("expected_owner", "The member should have the queue."),
        ("row", "One record of `anomalies` for each transition."),
        ("row", "An entry in the `operator_actions`."),
        ("row", "Each `queue_state` line is a queue."),
        ("row", "The records of Delta tables."),
        ("incident", "An anomaly."),
        ("unassigned", "An unowned queue."),
    ],
)
def test_a_stray_word_is_found(word, text):
    assert stray_texts(word, [("here", text)]) == ["here"]


@pytest.mark.parametrize(
    "text",
    [
        "The expected owner should have an owner before.", "One row of `anomalies`, from a record of Kafka.",
        "An entry of the broker's lock table.", "The lines of `maintain`.", "`anomalies` has incidents.",
    ],
)  # fmt: skip
def test_a_word_in_its_place_passes(text):
    assert [word for word in WORDS if stray_texts(word, [("here", text)])] == []


def test_what_a_linter_is_told_to_ignore_has_a_reason():
    bare = [
        f"{file}:{number}"
        for file in sources()
        for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1)
        if re.search(r"[#] noqa(?!: [A-Z\d, ]+  \S)", line)
    ]
    assert bare == []
