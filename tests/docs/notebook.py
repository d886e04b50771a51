"""Runs the notebook of `.readme` and stores its outputs.

python -m tests.docs.notebook [ROOT]    after `make demo`; ROOT is .rebalance-watch/demo without it
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import nbformat
from nbclient import NotebookClient
from traitlets.config import Config

from tests.docs.source import ROOT

NOTEBOOK = ROOT / ".readme/notebook.ipynb"
_SECONDS = 300
"""The time that a cell may take."""


def executed(demo):
    """Return the notebook with the outputs of a run over the demo's root, beside which it lies as in a checkout."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    with TemporaryDirectory() as folder:
        beside = Path(folder, ".readme")
        beside.mkdir()
        Path(folder, ".rebalance-watch").mkdir()
        Path(folder, ".rebalance-watch/demo").symlink_to(demo.resolve())
        # By sockets in the folder, not by ports, which anybody on this machine could reach.
        sockets = Config(KernelManager={"transport": "ipc", "ip": str(Path(folder, "kernel"))})
        where = {"metadata": {"path": str(beside)}}
        NotebookClient(
            notebook, kernel_name="python3", timeout=_SECONDS, resources=where, config=sockets
        ).execute()  # fmt: skip
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # when each cell began and ended
    notebook.metadata.language_info = {"name": "python"}  # without the version of Python
    return notebook


def main(demo=".rebalance-watch/demo", to=NOTEBOOK):
    """Run the notebook over the demo's root and write it with its outputs."""
    nbformat.write(executed(Path(demo)), Path(to))


if __name__ == "__main__":
    main(*sys.argv[1:])
