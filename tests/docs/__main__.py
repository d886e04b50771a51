"""Writes the generated parts of the READMEs, the generated pages, and the summaries of the commands.

python -m tests.docs             writes them
python -m tests.docs.examples    asks the examples' questions again
python -m tests.docs.notebook    runs the notebook again and stores its outputs
python -m tests.docs.pictures    makes the pictures of the dashboard again
"""

import sys

from tests.docs.pages import pages, stale
from tests.docs.parts import PARTS, summaries
from tests.docs.readmes import current
from tests.docs.source import ROOT


def main():
    """Write the summaries, and each README and page that is not current, and name it; remove pages of what is gone."""
    (ROOT / "streaming/cli/summaries.txt").write_text("".join(f"{line}\n" for line in summaries()), "utf-8")
    for readme in PARTS:
        text = current(readme)
        if text != readme.read_text("utf-8"):
            readme.write_text(text, "utf-8")
            sys.stdout.write(f"{readme}\n")
    made = pages()
    for path in stale(made):
        if path in made:
            path.parent.mkdir(exist_ok=True)
            path.write_text(made[path], "utf-8")
        else:
            path.unlink()
        sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    main()
