"""Writes the generated parts of the READMEs, and the summaries of the commands.

python -m tests.docs             writes them
python -m tests.docs.examples    asks the examples' questions again
python -m tests.docs.notebook    runs the notebook again and stores its outputs
python -m tests.docs.pictures    makes the pictures of the dashboard again
"""

import sys

from tests.docs.parts import PARTS, summaries
from tests.docs.readmes import current
from tests.docs.source import ROOT


def main():
    """Write the summaries, and each README whose generated parts are not current, and name it."""
    (ROOT / "streaming/cli/summaries.txt").write_text("".join(f"{line}\n" for line in summaries()), "utf-8")
    for readme in PARTS:
        text = current(readme)
        if text != readme.read_text("utf-8"):
            readme.write_text(text, "utf-8")
            sys.stdout.write(f"{readme}\n")


if __name__ == "__main__":
    main()
