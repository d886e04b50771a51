"""The generated parts of the READMEs: each function returns the lines of one, made from the code that it describes."""

import ast
import importlib
import inspect
from pathlib import Path

import msgspec
import typer
from fastapi import FastAPI

from conf import __file__ as conf_init
from rebalance_model.observe import events
from rebalance_model.observe.effects import QueueMove
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules import rule as rule_module
from rebalance_model.observe.rules.registry import RULES
from schemas.contract import CommitKind, Operation, tables_of
from schemas.docstrings import column_meanings, row_meaning
from schemas.json_schema import EVENT_PARTS
from schemas.tables import PARTITIONED_BY, ROWS, TABLES, columns
from streaming.base import limits
from streaming.base.settings import Settings
from streaming.cli.main import app
from streaming.queries.rule_text import rule_summary
from streaming.serve.mcp.groups import GroupTools
from streaming.serve.mcp.incidents import IncidentTools
from streaming.serve.mcp.ownership import OwnershipTools
from streaming.serve.web import api
from streaming.tables.described import relations, type_name
from tests.docs.source import ROOT, attribute_docs, module_docs, prose, table, toml_entries

CONF = Path(conf_init).parent


def codes():
    """Return the codes of all rules, by what they are about."""
    about = {}
    for rule in RULES:
        about.setdefault(rule.about, {}).setdefault(rule.code)
    return table(
        ["subject", "incidents"], [[kind, ", ".join(f"`{code}`" for code in of)] for kind, of in about.items()]
    )


def rules():
    """Return what each rule says of itself: a section a code, in alphabetical order."""
    lines = []
    by_code = {}
    for rule in RULES:
        by_code.setdefault(rule.code, []).append(rule)
    for code, of_code in sorted(by_code.items()):
        module = importlib.import_module(f"{rule_module.__package__}.{code.lower()}")
        lines += [f"### {code}", "", prose(rule_summary(code)), "", *_facts(of_code, Path(module.__file__).name), ""]
        advice = {}
        for rule in of_code:
            advice |= {sub: rule.advise(sub) for sub in rule.sub_causes}
        rows = [[f"`{sub}`" if sub else "none", prose(one.what), prose(one.first_step)] for sub, one in advice.items()]
        lines += [*table(["sub-cause", "what it means", "first step"], rows), ""]
    return lines[:-1]


def _facts(rules_of_code, file):
    first = rules_of_code[0]
    about = ", ".join(dict.fromkeys(rule.about for rule in rules_of_code))
    facts = [f"About a {about}; decided in [{file}]({file})."]
    if first.needs:
        facts.append(f"Needs {', '.join(first.needs)}.")
    if first.absorbed_by:
        facts.append(f"Explained by {', '.join(f'`{code}`' for code in first.absorbed_by)} where one of them is open.")
    return [" ".join(facts)]


def summaries():
    """Return the first line of the help of each command and group of commands, by its words."""
    return [
        f"{path}: {' '.join((one.help or '').split(chr(10) * 2)[0].split())}"
        for path, one in _each(typer.main.get_command(app))
    ]


def _each(command, path=()):
    for name, sub in getattr(command, "commands", {}).items():
        yield " ".join([*path, name]), sub
        yield from _each(sub, (*path, name))


def commands():
    """Return every command with its arguments and the first line of its help."""
    return table(["command", "does"], list(_commands(typer.main.get_command(app), "rebalance-watch")))


def _commands(command, path):
    for name, sub in sorted(getattr(command, "commands", {}).items()):
        if getattr(sub, "commands", None):
            yield from _commands(sub, f"{path} {name}")
            continue
        said = " ".join([path, name, *map(_argument, filter(_is_argument, sub.params))])
        yield [f"`{said}`", prose((sub.help or "").split("\n\n")[0])]


def _is_argument(parameter):
    return parameter.param_type_name == "argument"


def _argument(parameter):
    if parameter.metavar:
        return parameter.metavar
    return parameter.name.upper() if parameter.required else f"[{parameter.name.upper()}]"


def routes():
    """Return the routes of the REST API."""
    application = FastAPI()
    application.include_router(api.router)
    paths = application.openapi()["paths"].items()
    return table(
        ["route", "parameters", "answer"],
        [
            [f"`{method.upper()} {path}`", _parameters(route), prose(route.get("description", ""))]
            for path, methods in sorted(paths)
            for method, route in methods.items()
        ],
    )


def tools():
    """Return the tools of the MCP server, in the order in which a client sees them."""
    groups = (GroupTools(None), IncidentTools(None, Settings(), None), OwnershipTools(None))
    return table(["tool", "parameters", "answer"], [_tool(one) for of in groups for one in of.tools])


def _tool(tool):
    names = ", ".join(f"`{name}`" for name in inspect.signature(tool).parameters)
    return [f"`{tool.__name__}`", names, prose(inspect.getdoc(tool).partition("\n")[0])]


def _parameters(route):
    return ", ".join(f"`{one['name']}`" for one in route.get("parameters", ()) if one["in"] == "query")


def metrics():
    """Return every metric family that the collector may give, with its labels."""
    packages = [importlib.import_module(f"streaming.serve.{name}") for name in ("metrics", "otlp")]
    files = [(package.__name__, file) for package in packages for file in Path(package.__path__[0]).glob("*.py")]
    rows = []
    for package, file in files:
        module = importlib.import_module(f"{package}.{file.stem}")
        for function in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(function, ast.FunctionDef):
                rows += _families(function, vars(module))
    return table(["metric", "labels", "meaning"], sorted({tuple(row) for row in rows}))


def _families(function, names):
    names = dict(names)
    for node in ast.walk(function):
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "labels"
            and isinstance(node.value, ast.Tuple)
        ):
            names["labels"] = eval(ast.unparse(node.value), names)  # a tuple of names that the module knows
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "family":
            name, meaning, labels, *_ = node.args
            known = eval(ast.unparse(labels), names)
            yield [f"`{_text(name)}`", ", ".join(f"`{one}`" for one in known), prose(_text(meaning))]


def _text(node):
    """Return a string of the source; what is worked out at run time as an ellipsis."""
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
    return node.value


def settings():
    """Return every setting with its default, what it may be, and its meaning."""
    lines = []
    for section, about, entries in toml_entries(CONF / "default.toml"):
        if entries:
            lines += [f"### [{section}]", "", *([prose(about), ""] if about else [])]
            model = _model(section)
            rows = [
                [f"`{key}`", f"`{value}`", _allowed(model.model_fields[key]), prose(meaning)]
                for key, value, meaning in entries
            ]
            lines += [*table(["setting", "default", "allowed", "meaning"], rows), ""]
    return lines[:-1]


def _model(section):
    name, *rest = section.split(".")
    model = Settings.model_fields[name].annotation
    if not rest:
        return model
    kind = model.model_fields[rest[0]].annotation
    return getattr(kind, "__args__", (str, kind))[1]  # of a table the type of its values


def _allowed(field):
    values = getattr(field.annotation, "__args__", ())
    if values and all(isinstance(value, str) for value in values):
        return ", ".join(f"`{value}`" for value in values)
    limits = {name: getattr(one, name) for one in field.metadata for name in ("ge", "gt", "le") if hasattr(one, name)}
    if "le" in limits:
        return f"{limits['ge']:,} to {limits['le']:,}" if "ge" in limits else f"above 0 to {limits['le']:,}"
    return f"{limits['ge']:,} or more" if "ge" in limits else f"above {limits['gt']:,}" if "gt" in limits else ""


def policy():
    """Return every threshold with its default and meaning."""
    meanings = attribute_docs(Policy)
    defaults = {key: value for _, _, entries in toml_entries(CONF / "policy.toml") for key, value, _ in entries}
    names = [field.name for field in msgspec.structs.fields(Policy) if field.name != "group"]
    return table(
        ["threshold", "default", "meaning"], [[f"`{one}`", f"`{defaults[one]}`", meanings[one]] for one in names]
    )


def alerts():
    """Return every setting of an alerts file that has a default."""
    rows = [
        [f"`{section}.{key}`" if section else f"`{key}`", f"`{value}`", prose(meaning)]
        for section, _, entries in toml_entries(CONF / "alerts.toml")
        for key, value, meaning in entries
    ]
    return table(["setting", "default", "meaning"], rows)


def tables():
    """Return every table with its columns."""
    lines = []
    for name, row in ROWS.items():
        lines += [f"### {name}", "", _of_row(row), ""]
        if by := PARTITIONED_BY.get(name):
            lines += [f"Partitioned by {', '.join(f'`{one}`' for one in by)}.", ""]
        docs = column_meanings(row)
        lines += [*table(["column", "type", "meaning"], list(_columns(columns(name), docs))), ""]
    lines += ["### Elements of `rebalances.moves`", ""]
    moves = next(one for one in columns("rebalances") if one.name == "moves").type.element.columns
    docs = column_meanings(QueueMove)
    lines += [*table(["field", "type", "meaning"], list(_columns(moves, docs))), ""]
    lines += ["### Values of `anomalies.code` and `anomalies.sub_cause`", ""]
    return [*lines, *table(["code", "sub-cause", "what it means"], list(_causes()))]


def _causes():
    """Yield each code with each of its sub-causes, in alphabetical order, and what that means."""
    advice = {}
    for rule in RULES:
        advice.setdefault(rule.code, {}).update({sub: rule.advise(sub) for sub in rule.sub_causes})
    for code, of in sorted(advice.items()):
        yield from ([f"`{code}`", f"`{sub}`" if sub else "empty", prose(one.what)] for sub, one in of.items())


def _of_row(row):
    return prose(row_meaning(row))


def _columns(described, docs):
    for column in described:
        null = ", may be null" if column.nullable else ""
        yield [f"`{column.name}`", f"{type_name(column.type)}{null}", prose(docs[column.name])]


def views():
    """Return the views and functions over the tables, with the comment that each begins with."""
    rows = [[f"`{name}`", prose(meaning)] for name, meaning in relations().items()]
    return table(["view, or function of an instant", "a row is"], sorted(rows))


def what_is_received():
    """Return every limit with its value."""
    rows = [[f"`{name}`", f"{getattr(limits, name):,}", meaning] for name, meaning in module_docs(limits).items()]
    return table(["limit", "value", "meaning"], rows)


def event_types():
    """Return every event with its fields: first those of every event, and of every answer of a poll."""
    lines = []
    for title, base, inherited in (("Every event", events.GroupEvent, ()), ("Every answer", events.Answer, _OF_EVENTS)):
        about = events.Event if base is events.GroupEvent else base
        lines += [f"### {title}", "", _own(about), "", *_fields(base, inherited), ""]
    for title, kinds in (("hook", events.HookEvent), ("poll", events.PollEvent), ("every source", events.Broadcast)):
        inherited = (*_OF_EVENTS, *_OF_ANSWERS) if title == "poll" else _OF_EVENTS
        for kind in kinds.__args__:
            tag = kind.__struct_config__.tag
            lines += [f"### {tag}", "", f"From {'a ' if ' ' not in title else ''}{title}. {_own(kind)}", ""]
            lines += [*_fields(kind, inherited), ""]
    for part in EVENT_PARTS:
        lines += [f"### {part.__name__}", "", _own(part), "", *_fields(part), ""]
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


def contract():
    """Return which operation may make which commits to which tables."""
    kinds = {
        CommitKind.APPEND: "adds rows to",
        CommitKind.DELETE: "removes files of rows of",
        CommitKind.REPLACE: "replaces all rows of",
        CommitKind.REARRANGE: "moves rows to other files in",
    }
    rows = [[f"`{operation}`", *(_all_of(tables_of(operation, kind)) for kind in kinds)] for operation in Operation]
    return table(["operation", *kinds.values()], rows)


def _all_of(these):
    return "every table" if set(these) == set(TABLES) else ", ".join(f"`{one}`" for one in these) or "none"


PARTS = {
    ROOT / "README.md": {"codes": codes},
    ROOT / "rebalance_model/observe/rules/README.md": {"rules": rules},
    ROOT / "streaming/cli/README.md": {"commands": commands},
    ROOT / "streaming/serve/README.md": {"routes": routes, "metrics": metrics},
    ROOT / "streaming/serve/mcp/README.md": {"tools": tools},
    ROOT / "streaming/base/LIMITS.md": {"limits": what_is_received},
    ROOT / "schemas/README.md": {"views": views, "tables": tables, "events": event_types},
    ROOT / "schemas/BUILDING.md": {"contract": contract},
    ROOT / "conf/README.md": {"settings": settings, "policy": policy, "alerts": alerts},
}
