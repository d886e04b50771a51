"""Run a program that may read only what rights allow, also where the tests run as root."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

_PR_CAPBSET_DROP = 24
_OVERRIDES = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: with them root reads a file whatever its mode."""


def run_unprivileged(arguments: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments; its output and errors are in ``stdout``."""
    return subprocess.run(
        [sys.executable, *arguments],
        preexec_fn=_drop if os.getuid() == 0 else None,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


def _drop() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in _OVERRIDES:
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
