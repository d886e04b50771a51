"""Writes the generated parts of the READMEs.

python -m tests.docs             writes them
python -m tests.docs.examples    asks the examples' questions again
python -m tests.docs.notebook    runs the notebook again and stores its outputs
python -m tests.docs.pictures    makes the pictures of the dashboard again
"""

import sys

from tests.docs.parts import PARTS
from tests.docs.readmes import current


def main():
    """Write each README whose generated parts are not current, and name it."""
    for readme in PARTS:
        text = current(readme)
        if text != readme.read_text("utf-8"):
            readme.write_text(text, "utf-8")
            sys.stdout.write(f"{readme}\n")


if __name__ == "__main__":
    main()
