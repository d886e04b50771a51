"""`rebalance-watch up`: run everything that watches a cluster, in one terminal."""

import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from streaming.base.errors import SettingsError, UserError
from streaming.base.lines import is_json, print_line, start_lines
from streaming.base.settings import Settings, load_settings
from streaming.base.terminal import visible
from streaming.cli.collect import SpoolOption
from streaming.cli.config import checked_configuration
from streaming.cli.options import PolicyOption
from streaming.supervise.child import Program
from streaming.supervise.supervisor import Supervisor, error_of

_MAINTAIN_EVERY = "1m"
_STYLES = ("cyan", "green", "yellow", "magenta", "blue")
_OUTPUT = {"COLUMNS": "200", "PYTHONUNBUFFERED": "1"}


class UpProcess(StrEnum):
    """A process of `up`, in the order in which they start."""

    COLLECT = "collect"
    RUN = "run"
    MAINTAIN = "maintain"
    ALERT = "alert"
    DASHBOARD = "dashboard"


_GRACE_SECONDS = {UpProcess.COLLECT: 10.0}
"""A collector ends itself within this time, unless it can do nothing at all."""


def up(
    *,
    only: Annotated[list[UpProcess] | None, typer.Option(help="Run only this process; repeatable.")] = None,
    without: Annotated[list[UpProcess] | None, typer.Option(help="Leave out this process; repeatable.")] = None,
    spools: SpoolOption = None,
    policy: PolicyOption = None,
) -> None:
    """Run collect poll, run, maintain, alert run (if it has routes) and dashboard together until Ctrl-C.

    A process that ends is started again after 1 s, then after twice as long, up to 60 s; after five exits within 10
    minutes each 5 minutes, until it has run for 5 minutes. The others run on. Only a wrong setting stops all. Exit code
    1: a process kept ending until the end. Each line is printed with the name of its process.
    """
    checked = checked_configuration(policy)
    if not checked.ok:
        raise SettingsError(*checked.errors)
    settings = load_settings()
    parts = _chosen(settings, only or [], without or [])
    os.environ.update(_OUTPUT)  # of the children: their lines are not folded, and not kept back
    log = start_lines(settings.log.format, "up")
    with TemporaryDirectory(prefix="rebalance-watch-") as folder:
        sockets = {str(part): Path(folder, part) for part in parts} if settings.health.up else {}
        programs = [
            Program(part, _command(part, sockets.get(part), spools or [], policy), _GRACE_SECONDS.get(part))
            for part in parts
        ]
        said = (_say_as_json, _error_in_json) if is_json() else (_say, error_of)
        supervisor = Supervisor(programs, said[0], error_of=said[1])
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: supervisor.stop())
        with _probed(settings, sockets, supervisor):
            supervisor.run()
    log.info("stopped")


@contextmanager
def _probed(settings: Settings, sockets: Mapping[str, Path], supervisor: Supervisor) -> Iterator[None]:
    """Serve the probes of `up`, if it has a port for them."""
    if not settings.health.up:
        yield
        return
    from streaming.serve.web.probes import probes
    from streaming.supervise.child import ChildrenHealth

    with probes(ChildrenHealth(sockets, supervisor.down), settings.health.host, settings.health.up):
        yield


def _say(name: str, line: str) -> None:
    style = _STYLES[list(UpProcess).index(UpProcess(name))]
    Console(stderr=True, highlight=False).print(Text.assemble((f"{name:9} | ", style), visible(line)), soft_wrap=True)


def _say_as_json(name: str, line: str) -> None:
    """Pass a JSON line on as it is, and make one of any other."""
    if _decoded(line) is not None:
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
    else:
        print_line(line, process=name)


def _error_in_json(line: str) -> str | None:
    decoded = _decoded(line)
    if decoded is None:
        return error_of(line)
    return str(decoded.get("event")) if decoded.get("level") == "error" else None


def _decoded(line: str) -> dict[str, object] | None:
    try:
        return msgspec.json.decode(line, type=dict)
    except msgspec.DecodeError:
        return None


def _chosen(settings: Settings, only: Sequence[UpProcess], without: Sequence[UpProcess]) -> list[UpProcess]:
    from streaming.serve.alerting.config import load_alerts

    is_alerting = bool(load_alerts(settings.alerts.file).routes) or UpProcess.ALERT in only
    chosen = [
        part
        for part in UpProcess
        if (not only or part in only) and part not in without and (part is not UpProcess.ALERT or is_alerting)
    ]
    if not chosen:
        raise UserError("Nothing is left to run: correct --only and --without.")
    return chosen


def _command(part: UpProcess, probe_socket: Path | None, spools: Sequence[Path], policy: Path | None) -> list[str]:
    arguments = {
        UpProcess.COLLECT: ["collect", "poll", *(word for spool in spools for word in ("--spool", str(spool)))],
        UpProcess.RUN: ["run", *(["--policy", str(policy)] if policy else [])],
        UpProcess.MAINTAIN: ["maintain", "--every", _MAINTAIN_EVERY],
        UpProcess.ALERT: ["alert", "run"],
        UpProcess.DASHBOARD: ["dashboard"],
    }
    supervised = ["--supervised", *(["--probe-socket", str(probe_socket)] if probe_socket else [])]
    return [sys.executable, "-m", "streaming.cli", *supervised, *arguments[part]]
