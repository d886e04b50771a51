"""References of comments, docstrings and READMEs to this repository, and whether their targets exist.

Modest, so that what it finds is right: it looks at paths with a known ending, at dotted names of modules between
backticks, and at links and their sections in Markdown. What only looks like one (a setting, an attribute) passes.
"""

import ast
import io
import re
import tokenize
from functools import cache
from pathlib import PurePosixPath

from tests.docs.source import ROOT

FOLDERS = ("rebalance_model", "simulation", "schemas", "streaming", "checkpoints", "conf", "tests", ".github")
_KINDS = ("md", "py", "toml", "sql", "java", "js", "css", "jsonl", "yml", "j2", "html", "properties")
_PATH = re.compile(rf"(?<![\w/.…*>{{}}-])((?:[\w.-]+/)*[\w.-]+\.(?:{'|'.join(_KINDS)}))(?![\w/*{{}}-]|\.\w)")
_FOLDER = re.compile(rf"`((?:{'|'.join(map(re.escape, FOLDERS))})/[\w./-]*)`")
_DOTTED = re.compile(r"`+([a-z]\w*(?:\.\w+)+)(?:\(\))?`+")
_IN_COMMENT = re.compile(rf"#.*(?:`|\.(?:{'|'.join(_KINDS)})\b)")
"""What a file has in a line if any of its comments names something; to find the comments themselves takes long."""
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_OF_USERS = {
    "my.toml", "opened.txt", "hook.jar", "incidents.jsonl", "recording.jsonl", "truth.jsonl", "story.toml",
    "faults.jsonl",
}  # fmt: skip
"""Names of files that people make, or the program does when it runs."""


@cache
def files():
    """Return every file of the repository, as a path from its top; nothing that is made at run time."""
    paths = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in (*FOLDERS, ".ci", ".readme"):
        paths += [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    return frozenset(path.relative_to(ROOT).as_posix() for path in paths)


@cache
def _endings():
    """Return what may stand for a file: its path, and each shorter end of it."""
    return frozenset(
        "/".join(PurePosixPath(file).parts[at:]) for file in files() for at in range(len(PurePosixPath(file).parts))
    )


@cache
def _modules():
    """Return the file of each module by its dotted name, and by each shorter end of it that has a dot."""
    by_name = {}
    for file in files():
        if file.endswith(".py"):
            parts = PurePosixPath(file).with_suffix("").parts
            parts = parts[:-1] if parts[-1] == "__init__" else parts
            for at in range(len(parts)):
                by_name.setdefault(".".join(parts[at:]), []).append(file)
    return by_name


@cache
def _packages():
    return frozenset(
        PurePosixPath(file).parent.name for file in files() if file.endswith("__init__.py") and "/" in file
    ) - {"tests", "docs", "support", "log", "group", "incident", "tables", "metrics", "api", "web", "lab", "base"}


@cache
def _names(file):
    """Return the names that a module defines or imports at its top, and those of its classes' members."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text("utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def texts(file):
    """Yield (line number, text) of what people read in a file: all of Markdown, comments and docstrings elsewhere."""
    content = (ROOT / file).read_text("utf-8")
    if not file.endswith(".py"):
        made = False  # a generated part repeats the source, where its references are found: only its links are its own
        for number, line in enumerate(content.splitlines(), 1):
            made = made or line.startswith("<!-- generated")
            yield number, "".join(f"]({target})" for target in _LINK.findall(line)) if made else line
            made = made and not line.startswith("<!-- end")
        return
    if _IN_COMMENT.search(content):
        for token in tokenize.generate_tokens(io.StringIO(content).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string
    for node in _statements(ast.parse(content)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for at, line in enumerate(node.value.value.splitlines()):
                yield node.lineno + at, line


def _statements(node):
    """Yield what is in the bodies of a node, at any depth; `ast.walk` would look at every expression."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        for one in getattr(node, name, ()):
            yield one
            yield from _statements(one)


def unresolved(file):
    """Return what a file names of the repository and is not there, as ``file:line: reference``."""
    missing = []
    for number, line in texts(file):
        bad = [one for one in _LINK.findall(line) if file.endswith(".md") and not _is_link(file, one)]
        words = _LINK.sub("]", line)
        bad += [one for one in _PATH.findall(words) if not _is_file(one)]
        bad += [one for one in _FOLDER.findall(words) if not (ROOT / one).exists()]
        bad += [one for one in _DOTTED.findall(words) if not _is_name(one)]
        missing += [f"{file}:{number}: {one}" for one in dict.fromkeys(bad)]
    return missing


def _is_file(path):
    if path in _endings() or path in _OF_USERS:
        return True
    known = path.endswith((".md", ".py")) or path.split("/")[0] in FOLDERS
    return not known


def _is_name(dotted):
    """Return whether a dotted name that begins with a package of ours is a module, or a name in one."""
    first, *_ = parts = dotted.split(".")
    if first not in _packages() or dotted in _endings():
        return True
    for end in range(len(parts), 0, -1):
        of = _modules().get(".".join(parts[:end]), ())
        if of:
            return end == len(parts) or any(parts[end] in _names(file) for file in of)
    return False


def _is_link(file, target):
    if target.startswith(("http:", "https:", "mailto:")):
        return True
    path, _, section = target.partition("#")
    to = (ROOT / file).parent / path if path else ROOT / file
    return to.exists() and (not section or section in _sections(to))


def _sections(readme):
    """Return the names by which GitHub links to a document's headings."""
    headings = re.findall(r"^#+ (.+)$", readme.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def checked():
    """Return the files whose references are checked."""
    kinds = (".py", ".md", ".toml", ".sql", ".java", ".js", ".yml")
    return sorted(file for file in files() if file.endswith(kinds) or file in {"Makefile", ".ci/run"})
