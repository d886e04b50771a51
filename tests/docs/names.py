"""Names of the source that say nothing of what they hold, and classes that share a name: found in the syntax tree."""

import ast
import gc
import re
from functools import cache

from tests.docs.references import files
from tests.docs.source import ROOT

EMPTY_NAMES = frozenset({"one", "found", "known", "wanted", "shown", "held", "there", "of"})
LINES_MAX = 3
"""Lines for which a variable may have such a name: what it holds is in sight there."""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_EXPRESSIONS = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*_FUNCTIONS, *_EXPRESSIONS, ast.ClassDef, ast.Module)


@cache
def sources():
    """Return the tree of each Python file of the repository, by its path from the top."""
    gc.disable()  # else two thirds of the time go to a search for garbage among the trees
    try:
        return {file: ast.parse((ROOT / file).read_text("utf-8")) for file in sorted(files()) if file.endswith(".py")}
    finally:
        gc.freeze()  # no later search looks at them: they are kept
        gc.enable()


def empty_names(tree):
    """Return (line, name) of what has one of `EMPTY_NAMES`.

    These are variables that live for more than `LINES_MAX` lines, from the first binding in their function to the last
    use there, and whatever is named for others: parameters, attributes, names of a class or a module. A parameter of
    a lambda, and a variable of a comprehension, lives as long as its expression. A method ``of`` reads with what stands
    before it: ``Grid.of(rows)``.
    """
    named = set()
    _collect(tree, [], named)
    return sorted(named)


def _collect(scope, around, named):
    """Add the names of a scope, and of those within it; ``around`` has the lines of each name of the scopes around."""
    lines = {}
    for name, line in _parameters(scope):
        if isinstance(scope, ast.Lambda):
            lines[name] = [line]
        else:
            named.add((line, name))
    for node in _inside(scope, [*around, lines], named):
        for name in _bound(node):
            if not (isinstance(scope, ast.ClassDef) and isinstance(node, _FUNCTIONS) and name == "of"):
                lines.setdefault(name, [node.lineno])
        if isinstance(node, ast.Name) and node.id in EMPTY_NAMES:
            for above in (*around, lines):
                if node.id in above:
                    above[node.id].append(node.lineno)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and node.attr in EMPTY_NAMES:
            named.add((node.lineno, node.attr))
    for_others = isinstance(scope, ast.ClassDef | ast.Module)
    named |= {(used[0], name) for name, used in lines.items() if for_others or max(used) - used[0] >= LINES_MAX}


def _inside(node, around, named):
    """Yield the nodes of a scope; of the scopes within it only the node that opens each, whose names are added."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        if current is not node:
            yield current
        if current is not node and isinstance(current, _SCOPES):
            _collect(current, around, named)
        else:
            waiting += reversed(list(ast.iter_child_nodes(current)))


def _bound(node):
    """Return the names that a node binds in its scope."""
    if isinstance(node, ast.Name):
        names = [node.id] if isinstance(node.ctx, ast.Store) else []
    elif isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)):
        names = [node.name]
    elif isinstance(node, ast.Import | ast.ImportFrom):
        names = [alias.asname or alias.name for alias in node.names]
    else:
        return []
    return [name for name in names if name in EMPTY_NAMES]


def _parameters(scope):
    if not isinstance(scope, (*_FUNCTIONS, ast.Lambda)):
        return []
    taken = scope.args
    named = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
    return [(arg.arg, arg.lineno) for arg in named if arg is not None and arg.arg in EMPTY_NAMES]


def classes(tree):
    """Return the names of a module's own classes; those of a function, and private ones, are left out."""
    return [node.name for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]


def names_like(pattern, folders=("",)):
    """Return (file, name) of each name in these folders that matches.

    A tree is walked only if the text of its file matches, so the pattern must find a name within a text, too: no ``^``.
    """
    looked_for = re.compile(pattern)
    return [
        (file, name)
        for file, tree in sources().items()
        if file.startswith(folders) and looked_for.search((ROOT / file).read_text("utf-8"))
        for name in sorted(identifiers(tree))
        if looked_for.search(name)
    ]


def identifiers(tree):
    """Return every name that a module gives to something: variables, parameters, attributes, functions and classes."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
    return names
