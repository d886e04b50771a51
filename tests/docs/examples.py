"""Asks the questions of the READMEs again: each ``$ rebalance-watch …`` of theirs gets the answer of the demo's tables.

python -m tests.docs.examples [ROOT]    after `make demo`; ROOT is .rebalance-watch/demo without it
"""

import re
import shlex
import subprocess
import sys

from tests.docs.source import ROOT

READMES = (ROOT / "README.md", ROOT / "streaming/cli/README.md")
_BLOCK = re.compile(r"^```\n(\$ rebalance-watch .*?)^```$", re.MULTILINE | re.DOTALL)


def answered(readme, root):
    """Return the text of a README whose examples have the answers of a runtime root's tables."""

    def again(block):
        questions = [line for line in block[1].splitlines() if line.startswith("$ ")]
        return "```\n" + "\n".join(f"{question}\n{_answer(question, root)}" for question in questions) + "```"

    return _BLOCK.sub(again, readme.read_text("utf-8"))


def _answer(question, root):
    _, _, *words = shlex.split(question)
    command = [sys.executable, "-m", "streaming.cli", "--root", root, "--tz", "UTC", *words]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(root):
    """Write the READMEs."""
    for readme in READMES:
        readme.write_text(answered(readme, root), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:] or [".rebalance-watch/demo"])
