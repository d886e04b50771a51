"""``python -m tests.instruments.soak FOLDER``: run everything for a long time, and judge it."""

import typer

from tests.instruments.soak.run import main

typer.run(main)
