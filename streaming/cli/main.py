"""The command `rebalance-watch`: registers the commands and prints errors as one sentence."""

import atexit
import contextlib
import errno
import gc
import os
import re
import select
import signal
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from streaming.base.errors import InvalidValueError, SettingsError, UnavailableError, UnhealthyError, UserError
from streaming.base.files import close_to_others
from streaming.base.health import PROBE_SOCKET
from streaming.base.terminal import CONFIG_VARIABLE
from streaming.base.times import LOCAL, in_zone, zone_of
from streaming.cli.ours import options_given
from streaming.cli.tasks import ByTask, examples_of, print_error
from streaming.supervise.parent import stop_with_supervisor

app = typer.Typer(
    name="rebalance-watch",
    help="Show who owns every RocketMQ queue, why it moved, and which ordered queues are stuck.",
    epilog=examples_of(""),
    cls=ByTask,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
_EXIT_CODES = {SettingsError: 2, InvalidValueError: 2, UnhealthyError: 3, UnavailableError: 4}
_FOR_OTHERS = frozenset({"doctor", "hook", "job"})
"""The commands that write what other users run: jars of an installation, the hook of a broker, a package of the job."""
_RUN_ON = frozenset({"alert", "collect", "dashboard", "maintain", "mcp", "metrics", "run", "up"})
"""The commands that run until they are ended. Until they handle the signals themselves, either ends them at once."""
_EXTRAS = {
    **dict.fromkeys(("py4j", "pyspark", "pandas", "protobuf", "great_expectations", "jpype"), "job"),
    **dict.fromkeys(("mcp", "mcp_types"), "mcp"),
}
"""The packages that a command imports or reads first, with the extra that has them."""


_OF_THE_DISK = frozenset({errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EFBIG, errno.EIO})
"""Errors by which a disk, or the rights on it, refuse any command: no fault of the program."""
_ALLOCATIONS = 200_000
"""The number of new objects after which garbage is collected: what imports make stays, and 700 is Python's own. A short
command ends before."""
_OF_RIGHTS = frozenset({errno.EACCES, errno.EPERM})
_OF_DELTA = re.compile(r"\(os error (\d+)\)")
"""The words of delta-rs in place of an errno."""


def _print_version(requested: bool) -> None:  # noqa: FBT001  typer gives it so
    if requested:
        from importlib import metadata

        from rebalance_model.observe import step
        from rebalance_model.observe.state import STATE_VERSION

        release, core = metadata.version("rebalance-watch"), "" if step.__file__.endswith(".py") else ", compiled core"
        typer.echo(f"rebalance-watch {release} (state version {STATE_VERSION}, Python {sys.version.split()[0]}{core})")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    *,
    settings: Annotated[
        Path | None, typer.Option("--config", help="Settings file that overrides conf/default.toml.")
    ] = None,
    root: Annotated[Path | None, typer.Option(help="Runtime root; default: runtime.root.")] = None,
    tz: Annotated[
        str, typer.Option(envvar="REBALANCE_WATCH_TZ", help="Zone of times: local, UTC, Asia/Shanghai, +08:00.")
    ] = LOCAL,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    supervised: Annotated[bool, typer.Option("--supervised", hidden=True)] = False,
    probe_socket: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    del version
    from streaming.base.process import raise_open_files

    if context.invoked_subcommand not in _RUN_ON and signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    context.with_resource(in_zone(zone_of(tz)))
    context.with_resource(options_given(settings, root))
    raise_open_files()
    if context.invoked_subcommand not in _FOR_OTHERS:
        close_to_others()
    if supervised:
        stop_with_supervisor()
    if probe_socket is not None:
        os.environ[PROBE_SOCKET] = probe_socket
    if settings is not None:
        os.environ[CONFIG_VARIABLE] = str(settings)
    if root is not None:
        os.environ["REBALANCE_WATCH_RUNTIME__ROOT"] = str(root)


def _output_is_cut(ended: SystemExit) -> bool:
    """Return whether the reader of the output has closed it, as ``head`` does; then what remains is discarded."""
    if any(frame.f_code.co_name == "on_broken_pipe" for frame, _ in traceback.walk_tb(ended.__traceback__)):
        return True  # rich, which has already replaced the output
    try:
        file = sys.stdout.fileno()
        with contextlib.suppress(OSError):
            sys.stdout.flush()
    except (AttributeError, OSError):
        return False  # closed from the start, or not a file
    output = select.poll()
    output.register(file, 0)
    is_cut = any(events & select.POLLERR for _, events in output.poll(0))
    if is_cut:
        os.dup2(os.open(os.devnull, os.O_WRONLY), file)
    return is_cut


def _refused(error: OSError) -> str | None:
    """Return what a disk or the rights on it refuse, as a sentence; None if the error is none of these."""
    found = _OF_DELTA.search(str(error))
    number = error.errno or (int(found[1]) if found else 0)
    if number not in _OF_THE_DISK:
        return None
    file, why = error.filename or "A file", error.strerror or os.strerror(number)
    if number in _OF_RIGHTS:
        return (
            f"{file} can't be written or read ({why}): run this as the user to whom it belongs, let this user read and "
            "write it, or set runtime.root to another folder."
        )
    return f"{file} can't be written ({why}): free space, make it writable, or set runtime.root to another folder."


def run() -> int:
    """Run the command line and return its exit code.

    0 ok, 1 failed, 2 usage or settings, 3 unhealthy, 4 a server does not answer, 130 interrupted.
    """
    try:
        app()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        return 0 if _output_is_cut(ended) and isinstance(ended.__context__, BrokenPipeError) else code
    except UserError as error:
        print_error(str(error))
        return _EXIT_CODES.get(type(error), 1)
    except OSError as error:
        if (said := _refused(error)) is None:
            raise
        print_error(said)
        return 1
    except ModuleNotFoundError as error:
        if (extra := _EXTRAS.get(error.name or "")) is None:
            raise
        print_error(
            f"This command needs {error.name}, which is not installed: install rebalance-watch[{extra}] instead "
            "of rebalance-watch."
        )
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def main() -> None:
    """Run the command line as a process.

    Python takes apart all modules before it ends, for as long as an answer takes: this process ends when its threads
    have ended and what was registered for its end is done.
    """
    code = 1  # of a traceback

    def end() -> None:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (BrokenPipeError, ValueError, AttributeError):  # nobody reads it: closed, or not there
            os._exit(code)
        except OSError as error:
            print_error(_refused(error) or str(error))
            os._exit(code or 1)
        os._exit(code)

    atexit.register(end)  # the first one registered is the last one done
    gc.set_threshold(_ALLOCATIONS)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # it would look for some in all packages
    code = run()
    sys.exit(code)


if __name__ == "__main__":
    main()
