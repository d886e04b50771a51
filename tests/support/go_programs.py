"""Real programs in Go that the long tests start: built with what their `go.sum` names, from the Go module proxy."""

import shutil
import subprocess
from pathlib import Path

SOURCES = Path(__file__).with_name("go")
_BUILD_SECONDS_MAX = 900


def toolchain() -> str | None:
    """Return the path of the Go toolchain; None if there is none."""
    return shutil.which("go")


def build(source: Path, folder: Path) -> Path:
    """Build the program of a folder; return it."""
    program = folder / source.name
    subprocess.run(
        [toolchain(), "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o", program, "."],
        cwd=source,
        check=True,
        timeout=_BUILD_SECONDS_MAX,
    )
    return program
