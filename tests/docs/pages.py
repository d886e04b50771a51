"""Pages that are generated as a whole: one for each table, one for all events, and one for each rule."""

import importlib
import inspect
from pathlib import Path

import msgspec

from rebalance_model.observe import events
from rebalance_model.observe.effects import QueueMove
from rebalance_model.observe.rules import rule as rule_module
from rebalance_model.observe.rules.registry import RULES
from schemas.json_schema import EVENT_PARTS
from schemas.meanings import column_meanings, row_meaning
from schemas.tables import PARTITIONED_BY, ROWS, columns
from streaming.base.language import ENGLISH, current, gettext
from streaming.queries.rule_text import rule_codes, rule_text
from streaming.tables.catalog import type_name
from tests.docs.source import ROOT, prose, table

SCHEMAS = ROOT / "schemas/reference"
RULE_PAGES = ROOT / "rebalance_model/observe/rules/reference"
BEGIN, END = "<!-- generated: page; python -m tests.docs -->", "<!-- end: page -->"
"""The first and the last line of each page."""


def pages():
    """Return the text of each generated page of the repository, by its path."""
    made = {SCHEMAS / f"{name}.md": table_page(name) for name in ROWS}
    made[SCHEMAS / "events.md"] = events_page()
    made |= {RULE_PAGES / f"{code}.md": [*rule_page(code), "", _decided_in(code)] for code in rule_codes()}
    return {path: "\n".join([BEGIN, "", *lines, "", END, ""]) for path, lines in made.items()}


def stale(made):
    """Return the paths whose files differ from what these pages have, are missing, or belong to no page."""
    there = {path: path.read_text("utf-8") for folder in (SCHEMAS, RULE_PAGES) for path in folder.glob("*.md")}
    return sorted(path for path in there | made if there.get(path) != made.get(path))


def rule_page(code):
    """Return what a rule says of itself, in the current language (`streaming.base.language`)."""
    rule = rule_text(code)
    rows = [
        [f"`{one.sub_cause}`" if one.sub_cause else gettext("none"), *map(_translated, (one.what, one.first_step))]
        for one in rule.sub_causes
    ]
    facts = {"About": gettext(", ").join(map(gettext, rule.about))}
    if rule.needs:
        facts["Unknown without"] = ", ".join(rule.needs)
    if rule.explained_by:
        facts["Explained by"] = _links(rule.explained_by)
    if explained := sorted({one.code for one in RULES if code in one.absorbed_by}):
        facts["Explains"] = _links(explained)
    if current().code == ENGLISH:  # the names of its fields are English
        facts["Evidence"] = ", ".join(f"`{field}` ({unit})" for field, unit in rule.evidence.items())
    return [
        *(f"# {code}", "", _translated(rule.summary), ""),
        *table([gettext("Sub-cause"), gettext("What it means"), gettext("First step")], rows),
        "",
        *(f"- **{gettext(label)}**: {fact}" for label, fact in facts.items()),
        *("", "```", f"rebalance-watch incident list --all --code {code}", "```"),
    ]


def _translated(text):
    return prose(gettext(text))


def _links(codes):
    return ", ".join(f"[{code}]({code}.md)" for code in codes)


def _decided_in(code):
    file = Path(importlib.import_module(f"{rule_module.__package__}.{code.lower()}").__file__).name
    return f"Decided in [{file}](../{file}). [All rules](../README.md)."


def rules():
    """Return a line for each rule, with a link to its page."""
    rows = [[_links([code]).replace("](", "](reference/"), prose(rule_text(code).summary)] for code in rule_codes()]
    return table(["rule", "an incident of it says"], rows)


def table_page(name):
    """Return a table's meaning and its columns."""
    row = ROWS[name]
    lines = [f"# {name}", "", prose(row_meaning(row)), ""]
    if by := PARTITIONED_BY.get(name):
        lines += [f"Partitioned by {', '.join(f'`{one}`' for one in by)}.", ""]
    lines += table(["column", "type", "meaning"], list(_columns(columns(name), column_meanings(row))))
    if name == "rebalances":
        moves = next(one for one in columns(name) if one.name == "moves").type.element.columns
        lines += ["", "## Elements of `moves`", ""]
        lines += table(["field", "type", "meaning"], list(_columns(moves, column_meanings(QueueMove))))
    if name == "anomalies":
        lines += ["", "## Values of `code` and `sub_cause`", ""]
        lines += table(["code", "sub-cause", "what it means"], list(_causes()))
    return [*lines, "", "[All tables, views and ids](../README.md)."]


def _columns(described, docs):
    for column in described:
        null = ", may be null" if column.nullable else ""
        yield [f"`{column.name}`", f"{type_name(column.type)}{null}", prose(docs[column.name])]


def _causes():
    """Yield each code with each of its sub-causes, in alphabetical order, and what that means."""
    for code in rule_codes():
        link = f"[{code}](../../{RULE_PAGES.relative_to(ROOT).as_posix()}/{code}.md)"
        for one in rule_text(code).sub_causes:
            yield [link, f"`{one.sub_cause}`" if one.sub_cause else "empty", prose(one.what)]


def events_page():
    """Return every event with its fields: first those of every event, and of every answer of a poll."""
    lines = ["# Events", "", "What sources send. [Rules for all of them](../README.md#events).", ""]
    for title, base, inherited in (("Every event", events.GroupEvent, ()), ("Every answer", events.Answer, _OF_EVENTS)):
        about = events.Event if base is events.GroupEvent else base
        lines += [f"## {title}", "", _own(about), "", *_fields(base, inherited), ""]
    for title, kinds in (("hook", events.HookEvent), ("poll", events.PollEvent), ("every source", events.Broadcast)):
        inherited = (*_OF_EVENTS, *_OF_ANSWERS) if title == "poll" else _OF_EVENTS
        for kind in kinds.__args__:
            tag = kind.__struct_config__.tag
            lines += [f"## {tag}", "", f"From {'a ' if ' ' not in title else ''}{title}. {_own(kind)}", ""]
            lines += [*_fields(kind, inherited), ""]
    for part in EVENT_PARTS:
        lines += [f"## {part.__name__}", "", _own(part), "", *_fields(part), ""]
    return lines[:-1]


_OF_EVENTS = events.GroupEvent.__struct_fields__
_OF_ANSWERS = [name for name in events.Answer.__struct_fields__ if name not in _OF_EVENTS]


def _own(kind):
    """Return what a type says of itself, without what it inherits."""
    return prose(inspect.getdoc(kind))


def _fields(kind, left_out=()):
    """Return the table of a type's fields that it does not share with others."""
    docs, rows = column_meanings(kind), []
    for field in msgspec.structs.fields(kind):
        if field.name not in left_out:
            needed = "" if field.required else ", optional"
            rows.append([f"`{field.encode_name}`", _declared(field.type) + needed, prose(docs[field.name])])
    return table(["field", "type", "meaning"], rows)


def _declared(kind):
    """Return a field's declared type as people write it."""
    kind = getattr(kind, "__origin__", kind) if hasattr(kind, "__metadata__") else kind
    arguments = getattr(kind, "__args__", ())
    if type(None) in arguments:
        return _declared(next(one for one in arguments if one is not type(None)))
    if getattr(kind, "__origin__", None) is tuple:
        return f"list of {_declared(arguments[0])}"
    if arguments and all(isinstance(one, str) for one in arguments):
        return ", ".join(f"`{one}`" for one in arguments)
    return {"str": "string", "int": "integer", "bool": "boolean"}.get(getattr(kind, "__name__", ""), _name(kind))


def _name(kind):
    return "object of strings" if getattr(kind, "__origin__", None) is dict else kind.__name__
