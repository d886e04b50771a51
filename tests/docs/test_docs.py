"""The documents: generated parts are current, the first page stays short, and references are to what is there."""

import re

import pytest

from rebalance_model.observe.rules.registry import CODES
from schemas.tables import TABLES
from tests.docs.examples import answered
from tests.docs.pages import RULE_PAGES, SCHEMAS, pages, stale
from tests.docs.parts import PARTS
from tests.docs.readmes import by_hand, current, words_by_document
from tests.docs.references import checked, unresolved
from tests.docs.source import ROOT, prose, toml_entries

WORDS_MAX = 1_500
ALL_WORDS_MAX = 40_000
PARAGRAPH_WORDS_MAX = 80
NAME_CHARACTERS_MAX = 70
BYTES_MAX = 200_000


@pytest.mark.parametrize("readme", PARTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_generated_parts_are_current(readme):
    assert readme.read_text("utf-8") == current(readme), "run python -m tests.docs"


def test_generated_pages_are_current():
    assert stale(pages()) == [], "run python -m tests.docs"


def test_each_table_and_each_rule_has_a_page():
    assert {path.stem for path in SCHEMAS.glob("*.md")} == {*TABLES, "events"}
    assert {path.stem for path in RULE_PAGES.glob("*.md")} == set(CODES)


def test_a_page_that_differs_is_missing_or_is_left_over_is_stale(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.docs.pages.SCHEMAS", tmp_path)
    monkeypatch.setattr("tests.docs.pages.RULE_PAGES", tmp_path / "none")
    for name in ("same", "other", "left"):
        (tmp_path / f"{name}.md").write_text("a")
    made = {tmp_path / "same.md": "a", tmp_path / "other.md": "b", tmp_path / "new.md": "c"}
    assert [path.stem for path in stale(made)] == ["left", "new", "other"]


def test_the_first_page_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= WORDS_MAX


def test_a_document_is_read_in_a_few_minutes_and_all_of_them_in_hours():
    words = words_by_document()
    assert {file: number for file, number in words.items() if number > WORDS_MAX} == {}
    assert sum(words.values()) <= ALL_WORDS_MAX


def test_generated_parts_and_code_are_not_words_of_people():
    page = "one <!-- generated: a; python -m b -->x<!-- end: a --> two <!-- a b: python -m c -->x<!-- /a b -->\n"
    assert by_hand(page + "```\nx\n```\nthree").split() == ["one", "two", "three"]


@pytest.mark.parametrize(
    "readme", sorted((ROOT / "streaming").rglob("*.md")), ids=lambda p: p.relative_to(ROOT).as_posix()
)
def test_the_paragraphs_of_a_folder_s_readme_are_short(readme):
    text = by_hand(readme.read_text("utf-8"))
    paragraphs = [one for one in re.split(r"\n\n|\n(?=- |\d\. )", text) if not one.startswith("|")]
    assert [one[:60] for one in paragraphs if len(one.split()) > PARAGRAPH_WORDS_MAX] == []


def test_the_first_page_has_the_two_commands():
    lines = [line.partition("#")[0].strip() for line in (ROOT / "README.md").read_text("utf-8").splitlines()]
    assert {"make demo", "make test"} <= set(lines)
    assert "make test" in (ROOT / ".ci/run").read_text("utf-8").splitlines()


def test_the_name_of_a_test_is_short():
    names = [
        name
        for file in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))
    ]
    assert len(names) > 1_000
    assert [name for name in names if len(name) > NAME_CHARACTERS_MAX] == []


def test_pictures_are_small():
    assert [file.name for file in (ROOT / ".readme").iterdir() if file.stat().st_size > BYTES_MAX] == []


def test_every_reference_is_to_something_of_the_repository():
    found = [one for file in checked() for one in unresolved(file)]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "see missing.md",
        "`observe.nothing`",
        "`rules.stall.nothing`",
        "tests/core/missing.py",
        "[a](b.md)",
        "[a](#missing)",
    ],
)
def test_a_wrong_reference_is_found(line, monkeypatch):
    assert _found(line, monkeypatch)


@pytest.mark.parametrize(
    "line",
    [
        "README.md", "`rules.stall.by_calls`", "`web.url`", "`turn.state`", "[a](LICENSE)", "[a](https://b.md)",
        "rules/stall.py", "rules/<rule>.py", "FOLDER/*.py", "my.toml", "[a](#two-commands)",
    ],
)  # fmt: skip
def test_a_right_reference_passes(line, monkeypatch):
    assert not _found(line, monkeypatch)


def _found(line, monkeypatch):
    monkeypatch.setattr("tests.docs.references.texts", lambda file: [(1, line)])
    return unresolved("README.md")


def test_markup_in_a_description_is_shown_as_it_is():
    assert prose("a\n  <root> of ``a|b``, *") == "a &lt;root> of `a\\|b`, \\*"


def test_settings_of_a_file_are_read_with_their_comments(tmp_path):
    file = tmp_path / "a.toml"
    file.write_text('[one]   # first\na = 1_000  # so many\nb = [  # several\n    "x",\n    "y",\n]\nc = "#"\n')
    assert list(toml_entries(file))[1:] == [
        ("one", "first", [("a", "1_000", "so many"), ("b", '["x", "y"]', "several"), ("c", '"#"', "")])
    ]


def test_examples_get_the_answers_of_today(tmp_path, monkeypatch):
    monkeypatch.setattr("tests.docs.examples._answer", lambda question, root: f"{root}: {question[2:]}\n")
    readme = tmp_path / "README.md"
    readme.write_text("```\n$ rebalance-watch a b\nold\n\n$ rebalance-watch c\nold\n```\n```\nmake demo\n```\n")
    asked = "```\n$ rebalance-watch a b\nx: rebalance-watch a b\n\n$ rebalance-watch c\nx: rebalance-watch c\n```\n"
    assert answered(readme, "x") == asked + "```\nmake demo\n```\n"
