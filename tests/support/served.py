"""A server on a free port: an application in a thread, or `rebalance-watch dashboard` as a process."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from streaming.serve.web.http_server import HttpServer
from streaming.serve.web.probes import address, listen

PROBLEM = ["title", "status", "detail", "error"]
"""The fields of an error of REST."""
_STARTS_SECONDS = 180


@contextmanager
def answering(app: ASGIApp, **options: Any) -> Iterator[str]:
    """Serve the application, with these options of the server, until the end of the block; yields its address."""
    server = HttpServer(app, **options)
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield address(listening, "https" if options.get("tls") else "http")
        finally:
            server.should_exit = True
            thread.join()


_AT = """
import sys, time
now = int(sys.argv.pop(1)) * 1_000_000
time.time_ns = lambda: now
"""
_REMEMBERING = """
from streaming.tables import ReadModel
again, ask, known = sys.argv.pop(1), ReadModel.rows, {}
def remembered(model, query, parameters=()):
    key = model.version, query, repr(parameters)
    if again in key[2] or key not in known:
        known[key] = ask(model, query, parameters)
    return [dict(row) for row in known[key]]
ReadModel.rows = remembered
"""
_MAIN = """
from streaming.cli.main import main
main()
"""


@contextmanager
def served(
    command: str, root: Path, *arguments: str, now: int | None = None, asks_again: str | None = None,
    files: int | None = None, **environment: str,
) -> Iterator[str]:  # fmt: skip
    """Run a server command until the end of the block.

    Args:
        command: `dashboard` or `metrics`.
        root: the runtime root with its tables.
        arguments: further arguments.
        now: the time at which its clock stands still, epoch milliseconds; None: the clock goes.
        asks_again: if given, with `now`, it asks its tables each question once for each version of them: tests open the
            same pages, and questions take most of a page's time. Those about this group it always asks.
        files: how many files it may have open, as by ``ulimit -n``; None: as many as this process.
        environment: settings, such as WEB__TOKEN.

    Yields:
        Its address.
    """
    log = root / f"{command}.log"
    settings = {f"REBALANCE_WATCH_{name}": value for name, value in environment.items()}
    program = ["-m", "streaming.cli"] if now is None else ["-c", _AT + _MAIN, str(now)]
    if asks_again is not None:
        program = ["-c", _AT + _REMEMBERING + _MAIN, str(now), asks_again]
    argv = [sys.executable, *program, "--root", str(root), command, "--port", "0", *arguments]
    if files is not None:
        argv = ["sh", "-c", f'ulimit -n {files} && exec "$@"', "sh", *argv]
    with log.open("w") as output:
        process = subprocess.Popen(argv, stderr=output, env={**os.environ, **settings})
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        process.wait(90)


def _address(process: subprocess.Popen, log: Path) -> str:
    deadline = time.monotonic() + _STARTS_SECONDS
    while time.monotonic() < deadline:
        if found := re.search(r": (https?://[^ /]+)", log.read_text()):
            return found[1]
        assert process.poll() is None, log.read_text()
        time.sleep(0.05)
    raise AssertionError(f"it has not started: {log.read_text()}")
