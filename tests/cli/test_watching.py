"""Commands that go on until Ctrl-C, and what a library makes of that."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from streaming.cli import output
from tests.support.asked import END, INSTANTS, ReportedGroup, everything, write
from tests.support.tables import append


def test_watching_shows_what_is_new_and_ends_at_ctrl_c(tmp_path: Path):
    """As JSON into a pipe: a line each round."""
    tables = tmp_path / "tables"
    of_g = [effect for effect in everything() if effect.group == "g"]
    write(tables, tuple(effect for effect in of_g if effect.time <= INSTANTS[0]))
    command = [sys.executable, "-m", "streaming.cli", "--root", str(tmp_path), "group", "list", "--watch"]
    with subprocess.Popen(
        [*command, "--every", "0.5", "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"REBALANCE_WATCH_RUNTIME__ROOT": str(tmp_path)},
    ) as watching:  # fmt: skip
        [first] = json.loads(watching.stdout.readline())
        later = msgspec.structs.replace(ReportedGroup("g").state(), time=END, health_reason="it is later now")
        append(tables, [later])
        second = first
        while second["time"] == first["time"]:
            [second] = json.loads(watching.stdout.readline())
        watching.send_signal(signal.SIGINT)
        _, error = watching.communicate(timeout=120)
    assert second["health_reason"] == "it is later now"
    assert (watching.returncode, error) == (130, "")


def test_a_ctrl_c_that_a_library_loses_ends_the_watching_too():
    before = signal.getsignal(signal.SIGINT)
    with output._interruption() as check:
        check()
        with suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            check()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_ctrl_c_that_a_library_makes_an_error_of_ends_a_question_too():
    def asked():
        with output._interruption():
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            raise RuntimeError("Query interrupted")

    with pytest.raises(KeyboardInterrupt):
        asked()
