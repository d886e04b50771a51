"""Compiles the core with mypyc if the environment has COMPILED=1 (`make compiled`, `make dist`); else all is Python."""

import ast
import os
from pathlib import Path

from setuptools import setup

IS_COMPILED = os.environ.get("COMPILED") == "1"
if IS_COMPILED:
    from mypyc.build import mypycify

BASES = {"NamedTuple", "TypedDict", "Step", "ClusterStep"}
"""Bases of classes that mypyc can compile. It would lose the keywords of msgspec's, such as ``array_like=True``."""
OF_MANY_TYPES = {"registry"}
"""Modules whose types mypy knows only from those that import them: a circle, which mypyc refuses."""


def can_compile(module: Path) -> bool:
    """Return whether mypyc can compile a module."""
    classes = [node for node in ast.walk(ast.parse(module.read_text("utf-8"))) if isinstance(node, ast.ClassDef)]
    return module.stem not in {"__init__", *OF_MANY_TYPES} and not any(
        one.keywords or one.decorator_list or not BASES.issuperset(map(ast.unparse, one.bases)) for one in classes
    )


def compiled() -> list:
    """Return the extensions: the library `rebalance_model__mypyc`, and a small one for each module in it."""
    modules = map(str, filter(can_compile, sorted(Path("rebalance_model/observe").rglob("*.py"))))
    return mypycify(
        ["--follow-imports=silent", *modules],
        opt_level="3", debug_level="0", multi_file=True, group_name="rebalance_model",
    )  # fmt: skip


setup(ext_modules=compiled() if IS_COMPILED else [])
