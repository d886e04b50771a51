"""Each catalogue has every text once, translated, with the same values; no text escapes it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from jinja2 import Environment, nodes

from rebalance_model.observe.rules.registry import RULES
from streaming.base.errors import ERRORS_BY_NAME
from streaming.base.language import ENGLISH, LANGUAGES, gettext, in_language, ngettext, recognized
from streaming.queries import labels
from streaming.queries.evidence import english_label
from streaming.queries.health import HEALTH
from tests.languages.catalogues import brought_up_to_date, path_of, read, untranslated, written
from tests.languages.texts import ROOT, TEMPLATES, names

OTHERS = [code for code in LANGUAGES if code != ENGLISH]
MEND = "run `python -m tests.languages`, which lists what is missing, and translate it"


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_is_in_the_catalogue_and_none_is_unused(language):
    known, wanted = ({one.id for one in of if one.id} for of in (read(language), brought_up_to_date(language)))
    assert not wanted - known, MEND
    assert not known - wanted, MEND
    assert path_of(language).read_bytes() == written(brought_up_to_date(language)), MEND


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_is_translated(language):
    assert untranslated(read(language)) == [], MEND


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_has_the_values_of_its_text(language):
    for message in filter(lambda one: one.id, read(language)):
        many, said = (message.id[1], message.string) if message.pluralizable else (message.id, (message.string,))
        for form in said:
            assert names(form) == names(many), message.id


@pytest.mark.parametrize("language", OTHERS)
def test_a_plural_has_each_form_of_its_language(language):
    catalogue = read(language)
    plurals = [one for one in catalogue if one.id and one.pluralizable]
    assert plurals
    assert all(len(one.string) == catalogue.num_plurals for one in plurals)


def test_chinese_has_the_punctuation_of_chinese():
    narrow = re.compile(r"[\u4e00-\u9fff}][,;:?!()]|[,;:?!()][\u4e00-\u9fff]")
    for one in read("zh"):
        for form in (one.string,) if isinstance(one.string, str) else one.string:
            assert not narrow.search(re.sub(r"`[^`]*`", "", form)), form


def test_numbers_select_the_form():
    assert [ngettext("{n} queue", "{n} queues", n) for n in (0, 1, 2)] == ["0 queues", "1 queue", "2 queues"]
    with in_language("zh"):
        assert {ngettext("{n} queue", "{n} queues", n).replace(str(n), "") for n in (0, 1, 2)} == {" 个队列"}


def test_a_text_is_recognized_by_its_form_and_keeps_its_values():
    forms = ("no answer from {client} and {n} more", "no answer from {client}")
    assert recognized("no answer from a", forms) == "no answer from a"
    with in_language("zh"):
        assert recognized("no answer from a and b", forms) == gettext("no answer from {client}", client="a and b")
        assert recognized("no answer from a and 2 more", forms) == gettext(forms[0], client="a", n=2)
        assert recognized("ORDERED_QUEUE_STUCK", forms) == "ORDERED_QUEUE_STUCK"


def test_values_are_text_and_lead_to_no_attribute():
    assert gettext("{a}", a="{b}") == "{b}"
    assert gettext("{a.__class__}", a=1) == "{a.__class__}"


class _Words(HTMLParser):
    """Collects the words of a template outside its expressions: in the text, and in attributes that are read out."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._is_style = False

    def handle_starttag(self, tag, attributes):
        self._is_style = tag == "style"
        read_out = [value for name, value in attributes if name in {"aria-label", "title", "placeholder"} and value]
        self.words += filter(_has_word, read_out)

    def handle_endtag(self, tag):
        self._is_style = False

    def handle_data(self, data):
        if not self._is_style and _has_word(data):
            self.words.append(data.strip())


def _has_word(text: str) -> bool:
    return re.search(r"[A-Za-z]{2,}", text.replace("rebalance-watch", "")) is not None


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_has_no_words_outside_the_catalogue(path):
    source = path.read_text("utf-8")
    data = "".join(one.data for one in Environment(autoescape=True).parse(source).find_all(nodes.TemplateData))
    words = _Words()
    words.feed(data)
    assert not words.words, f"put them in _(…), then {MEND}"


SNAPSHOTS = ROOT.parent / "rebalance_model" / "observe" / "snapshots.py"


def _reasons() -> Iterator[str]:
    """Yield the reasons of a health that the core writes, each with an X in the place of a value."""
    for pair in ast.walk(ast.parse(SNAPSHOTS.read_text("utf-8"))):
        if isinstance(pair, ast.Tuple) and len(pair.elts) == 2 and getattr(pair.elts[0], "value", "") in HEALTH:
            yield from filter(None, _forms(pair.elts[1]))


def _forms(text: ast.expr) -> list[str]:
    if isinstance(text, ast.Constant):
        return [str(text.value)]
    if isinstance(text, ast.JoinedStr):
        return ["".join(str(one.value) if isinstance(one, ast.Constant) else "X" for one in text.values)]
    if isinstance(text, ast.IfExp):
        return [*_forms(text.body), *_forms(text.orelse)]
    if isinstance(text, ast.BinOp):
        return [left + right for left in _forms(text.left) for right in _forms(text.right)]
    return []


def test_every_reason_of_a_health_is_translated():
    reasons = sorted(set(_reasons()))
    assert len(reasons) > 10
    with in_language("zh"):
        assert [one for one in reasons if labels.reason(one) == one] == [], "add them to labels.REASONS"


@pytest.mark.parametrize(
    "path", [*ROOT.glob("serve/dashboard/**/*.py"), *ROOT.glob("queries/*.py")], ids=lambda p: p.stem
)
def test_an_error_that_a_page_shows_is_translated(path):
    for one in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(one, ast.Call) and getattr(one.func, "id", "") in ERRORS_BY_NAME:
            assert not isinstance(one.args[0], ast.Constant | ast.JoinedStr), f"line {one.lineno}: use gettext(…)"


_ENDINGS = {"时长": "ms", "时间": "epoch_ms", "始于": "epoch_ms", "数": "a number", "次数": "a number"}
"""How a Chinese label says what its values are: a duration, an instant, a number."""
_NUMBERS = {"count", "messages", "offset", "per_hour"}


def test_a_label_of_evidence_says_what_its_values_are():
    units = defaultdict(set)
    for rule in RULES:
        for name, unit in rule.units.items():
            units[english_label(rule.code, name)].add("a number" if unit in _NUMBERS else unit)
    with in_language("zh"):
        wrong = [
            (english, gettext(english), said)
            for english, said in units.items()
            for ending, unit in _ENDINGS.items()
            if gettext(english).endswith(ending) and said != {unit}
        ]
    assert wrong == []
