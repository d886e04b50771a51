"""Names: what lives for long is named for what it is, one name is one class, and one thing has one word."""

import ast
import re
from collections import defaultdict

import pytest

from tests.docs.names import classes, empty_names, identifiers, sources
from tests.docs.references import checked, texts
from tests.docs.source import ROOT

PUBLIC = {
    ("streaming/cli/check.py", "found"): "in the JSON of `doctor`",
    ("rebalance_model/simulation/scenario.py", "of"): "a key of scenarios",
}
"""Names that users write or read: they stay."""

PRODUCT = ("rebalance_model/", "schemas/", "streaming/", "checkpoints/")
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


WORDS = {
    "anomal": "incident",
    "unowned": "unassigned",
    "ownerless": "unassigned",
}
"""Words that stray, with the one that is used."""
PUBLIC_WORDS = {
    ("streaming/pipeline/sinks.py", "_ANOMALIES"): "the table's name is older than the word",
    ("streaming/serve/alerting/run.py", "_ANOMALIES"): "as above",
    ("streaming/queries/results/groups.py", "unowned"): "a field of groups in REST's answers",
    ("streaming/queries/groups.py", "unowned"): "as above",
}


def test_one_thing_has_one_word_in_the_code():
    stray = [
        f"{file}: {name}: {word}"
        for file, tree in sources().items()
        if file.startswith(PRODUCT)
        for name in identifiers(tree)
        for part, word in WORDS.items()
        if part in name.lower() and (file, name) not in PUBLIC_WORDS
    ]
    assert stray == []


def test_nothing_is_named_told():
    """It had some twenty meanings: a name says what was reported, printed or written. Titles of tests are prose."""
    named = [
        f"{file}: {name}"
        for file, tree in sources().items()
        for name in identifiers(tree)
        if re.search("(^|_)told(_|$)|Told", name) and not name.startswith("test_")
    ]
    assert named == []


def test_one_thing_has_one_word_in_the_prose():
    """The plural of an anomaly is the table's name."""
    stray = [
        f"{file}:{line}"
        for file in checked()
        if file.endswith(".md") or (file.startswith(PRODUCT) and file.endswith(".py"))
        for line, text in texts(file)
        if re.search("anomaly|unowned|ownerless", re.sub(r"`[^`]*`", "", text), re.IGNORECASE)
    ]
    assert stray == []


def test_what_a_linter_is_told_to_ignore_has_a_reason():
    bare = [
        f"{file}:{number}"
        for file in sources()
        for number, line in enumerate((ROOT / file).read_text("utf-8").splitlines(), 1)
        if re.search(r"[#] noqa(?!: [A-Z\d, ]+  \S)", line)
    ]
    assert bare == []
