"""Every text that people read in their language, as the sources have it.

Most are literals: the arguments of `gettext`, `ngettext`, `marked` and `Later` in Python, of `_` and `ngettext` in
templates, and of `text` in scripts. Some are the values of declarations: the advice and evidence of the rules, the
columns of tables, the consequences of failed checks, health and severity, the kinds of messages.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias, get_args

from babel.messages.extract import extract
from jinja2.ext import babel_extract

from rebalance_model.observe.rules.lifecycle import Transition
from rebalance_model.observe.rules.registry import RULES
from streaming.queries import columns
from streaming.queries.evidence import english_labels
from streaming.queries.health import HEALTH, SEVERITY
from streaming.queries.results import BY_PERSON
from streaming.queries.rule_text import rule_codes, rule_summary
from streaming.queries.sql_help import example_titles
from streaming.serve.alerting.alert import Kind
from streaming.serve.dashboard.pages import group_state, home
from streaming.serve.dashboard.parts import frame

ROOT = Path(__file__).parents[2] / "streaming"
TEMPLATES = [*ROOT.rglob("*.j2"), *ROOT.rglob("serve/web/*.html"), *ROOT.rglob("serve/alerting/templates/*.txt")]
SUITES = ROOT.parent / "checkpoints" / "suites"
SCRIPTS = sorted((ROOT / "serve" / "dashboard").rglob("*.js"))
_PYTHON = {"gettext": None, "ngettext": (1, 2), "marked": None, "Later": None}
_TABLES = (
    columns.GROUP, columns.QUEUE, columns.MOVE, columns.REBALANCE, columns.INCIDENT, columns.CLIENT, columns.INTERVAL,
    columns.MEMBER, columns.FAILED_MESSAGES, columns.RECORDED_ACTION,
)  # fmt: skip
"""The tables of the pages; the others are the command line's."""

Text: TypeAlias = str | tuple[str, str]
"""A text, or its forms for one and for several."""


def every_text() -> list[Text]:
    """Return every text once, in the order of the sources."""
    return list(dict.fromkeys([*_of_python(), *_of_templates(), *_of_scripts(), *_of_declarations()]))


def _of_python() -> Iterator[Text]:
    for path in sorted(ROOT.rglob("*.py")):
        with path.open("rb") as file:
            for _, found, _, _ in extract("python", file, _PYTHON):
                yield found


def _of_templates() -> Iterator[Text]:
    for path in sorted(TEMPLATES):
        with path.open("rb") as file:
            for _, function, found, _ in babel_extract(file, ("_", "ngettext"), (), {"silent": "false"}):
                literals = [one for one in (found if isinstance(found, tuple) else (found,)) if one is not None]
                if function == "ngettext":
                    yield literals[0], literals[1]
                elif literals:
                    yield literals[0]


def _of_scripts() -> Iterator[Text]:
    for path in SCRIPTS:
        yield from frame.TEXT.findall(path.read_text("utf-8"))


def _of_declarations() -> Iterator[Text]:
    yield from map(rule_summary, rule_codes())
    for rule in RULES:
        yield rule.title
        for advice in rule.advice.values():
            yield from filter(None, (advice.what, advice.first_step, advice.short))
    yield from english_labels()
    for column in (*(one for table in _TABLES for one in table), *group_state.MEMBER_COLUMNS, *home.COLUMNS):
        yield from filter(None, (column.title, column.description))
    yield from example_titles()
    for suite in sorted(SUITES.glob("*.json")):
        for check in json.loads(suite.read_text("utf-8"))["expectations"]:
            yield check["meta"]["why"]
    yield from (*HEALTH, *SEVERITY, *(one.lower() for one in (*get_args(Transition), *BY_PERSON)), *get_args(Kind))


def names(text: str) -> list[str]:
    """Return the names of the values in a text, sorted."""
    return sorted(re.findall(r"\{(\w+)\}", text))
