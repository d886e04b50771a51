"""The generated parts of the READMEs: each function returns the lines of one, made from the code that it describes."""

import ast
import importlib
import inspect
from pathlib import Path

import msgspec
import typer
from fastapi import FastAPI

from conf import __file__ as conf_init
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.rules.registry import RULES
from schemas.contract import CommitKind, Operation, tables_of
from schemas.tables import TABLES
from streaming.base import limits
from streaming.base.settings import Settings
from streaming.cli.main import app
from streaming.serve.mcp.groups import GroupTools
from streaming.serve.mcp.incidents import IncidentTools
from streaming.serve.mcp.ownership import OwnershipTools
from streaming.serve.web import api
from streaming.tables.catalog import relations
from tests.docs.pages import rules
from tests.docs.source import ROOT, attribute_docs, module_docs, prose, table, toml_entries
from tests.support.hook_limits import HOOK, MEANINGS

CONF = Path(conf_init).parent


def codes():
    """Return the codes of all rules, by what they are about."""
    about = {}
    for rule in RULES:
        about.setdefault(rule.about, {}).setdefault(rule.code)
    return table(
        ["subject", "incidents"], [[kind, ", ".join(f"`{code}`" for code in of)] for kind, of in about.items()]
    )


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
    return table(["tool", "parameters", "answer"], [_tool(one) for of in groups for one in of])


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


def views():
    """Return the views and functions over the tables, with the comment that each begins with."""
    rows = [[f"`{name}`", prose(meaning)] for name, meaning in relations().items()]
    return table(["view, or function of an instant", "a row is"], sorted(rows))


def what_is_received():
    """Return every limit with its value."""
    rows = [[f"`{name}`", f"{getattr(limits, name):,}", meaning] for name, meaning in module_docs(limits).items()]
    of_hook = [
        [f"`HOOK_{name}`", f"{value:,}", MEANINGS[name]]
        for name, value in vars(HOOK).items()
        if not hasattr(limits, name)
    ]
    here = 1 + max(number for number, (name, *_) in enumerate(rows) if name.startswith("`EVENT_"))
    rows[here:here] = of_hook
    return table(["limit", "value", "meaning"], rows)


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
    ROOT / "schemas/README.md": {"views": views},
    ROOT / "schemas/BUILDING.md": {"contract": contract},
    ROOT / "conf/README.md": {"settings": settings, "policy": policy, "alerts": alerts},
}
