"""The core that mypyc has compiled (`make compiled`), for processes that import it instead of the one in Python."""

import os
import subprocess
from pathlib import Path

from tests.support.installed import ROOT

COMPILED = ROOT / ".venv/compiled"


def build() -> Path:
    """Compile the core, unless it is compiled as it is now; return the folder with its package."""
    subprocess.run(["make", "--silent", f"{COMPILED.relative_to(ROOT)}/.ready"], cwd=ROOT, check=True)
    return COMPILED


def importing(core: Path) -> dict[str, str]:
    """Return the variables of an environment with which a process imports the core in this folder."""
    return {"PYTHONSAFEPATH": "1", "PYTHONPATH": f"{core}{os.pathsep}{ROOT}"}
