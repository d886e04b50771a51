"""Processes that outlive the command that started them, identified safely.

A pid alone is not enough, because pids are reused. So a process is recorded with its start time, and every signal goes
through a pidfd that was opened before that time was compared: the signalled process is the compared one. This requires
Linux (/proc, pidfd).

The Java side of a client process is one JVM for each, so consumers are processes and never threads of one.
"""

import ctypes
import errno
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar

import jpype
import msgspec

from streaming.base.errors import UserError
from streaming.lab.control import ClientSecurity, ConsumerOrders, ProducerOrders

JavaObject: TypeAlias = Any
"""An object of a Java class; mypy knows none of them."""

_HEAP = "-Xmx96m"
_TLS_ANSWER_MS = 15_000  # the first handshake of many cold JVMs takes longer than RocketMQ's default of 3 s
JVM_FRUGAL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss512k")
"""Options for many small JVMs on few cores: no parallel garbage collector, no optimising compiler threads."""


def start_jvm(jars: list[str], home: Path, security: ClientSecurity | None = None) -> Event:
    """Start the JVM of this process; the event is set when the process is asked to end.

    Args:
        jars: the class path.
        home: the folder for RocketMQ's own client log.
        security: of the clients that it will have.
    """
    tls = [f"-Dtls.config.file={security.tls_config}"] if security else []
    # -Xrs leaves SIGTERM to Python: the JVM's own handler would end the process before the client has shut down.
    jpype.startJVM(_HEAP, *JVM_FRUGAL, "-Xrs", f"-Duser.home={home}", *tls, classpath=jars, convertStrings=True)
    asked_to_end = Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    return asked_to_end


def new_client(kind: str, orders: ConsumerOrders | ProducerOrders, *arguments: str) -> JavaObject:
    """Create a client of this class with its name server and its security."""
    security = orders.security
    signing = [_signing(security.user, Path(security.password_file))] if security else []
    client = jpype.JClass(kind)(*arguments, *signing)
    client.setNamesrvAddr(orders.name_server)
    if security:
        client.setUseTLS(True)
        client.setMqClientApiTimeout(_TLS_ANSWER_MS)
    return client


def _signing(user: str, password_file: Path) -> JavaObject:
    credentials = jpype.JClass("org.apache.rocketmq.acl.common.SessionCredentials")(user, password_file.read_text())
    return jpype.JClass("org.apache.rocketmq.acl.common.AclClientRPCHook")(credentials)


def run(work: Callable[[], None]) -> NoReturn:
    """Run a client process and end it explicitly: RocketMQ leaves threads behind that would keep the JVM alive."""
    code = 0
    try:
        work()
    except Exception:  # noqa: BLE001  after any error: a client must not continue without its main thread
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    os._exit(code)


State = Literal["running", "frozen", "down"]
T = TypeVar("T")

_POLL_SECONDS = 0.1
_PR_SET_TIMERSLACK, _PR_GET_TIMERSLACK = 29, 30  # prctl(2)
_ZEROS = (ctypes.c_ulong(0),) * 4
_TIMER_SLACK_NS = 20_000_000
"""The time by which the timers of the started processes may be late. Threads of a broker sleep for 1 to 10 ms, again
and again (DefaultMessageStore.ReputMessageService, BrokerFastFailure): a third of the processor time of an idle one."""
_SIGTERM_THREAD = "SIGTERM handler"
"""The thread in which a JVM runs its shutdown hooks (jdk.internal.misc.Signal.dispatch)."""
_END_SECONDS_MAX = 60.0  # after SIGKILL only a process stuck in the kernel still exists


class ProcessId(msgspec.Struct, frozen=True):
    """The identity of a process on this machine at any time: its pid, with the boot and the clock tick of its start."""

    pid: int
    started: str


def spawn(command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None) -> ProcessId:
    """Start a program in its own session, so that neither our end nor Ctrl-C reaches it; output goes to ``log``.

    Raises:
        UserError: this is not Linux, or the program can't be started.
    """
    if not sys.platform.startswith("linux"):
        raise UserError("The lab needs Linux (it identifies processes by /proc and pidfd): run it there.")
    log.parent.mkdir(parents=True, exist_ok=True)
    arguments = [str(part) for part in command]
    try:
        with _slack_timers():
            pid = os.posix_spawn(  # subprocess.Popen would warn on its deletion that its process still runs
                arguments[0],
                arguments,
                {**os.environ, **(environment or {})},
                setsid=True,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
            )
    except OSError as error:
        raise UserError(f"{arguments[0]} can't be started ({error.strerror}): see `rebalance-watch doctor`.") from error
    return ProcessId(pid, _start(pid)[0])


@contextmanager
def _slack_timers() -> Iterator[None]:
    """Let what is started meanwhile have timers that may be late: it inherits the slack of this thread."""
    prctl = ctypes.CDLL(None).prctl
    before = prctl(_PR_GET_TIMERSLACK, *_ZEROS)
    prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(_TIMER_SLACK_NS), *_ZEROS[1:])
    try:
        yield
    finally:
        prctl(_PR_SET_TIMERSLACK, ctypes.c_ulong(before), *_ZEROS[1:])


def state(process: ProcessId) -> State:
    """Return whether exactly this process runs, is stopped by a signal, or is gone."""
    with suppress(ChildProcessError):
        os.waitpid(process.pid, os.WNOHANG)  # reap it if it is our child
    started, letter = _start(process.pid)
    if started != process.started or letter in "ZX":
        return "down"
    return "frozen" if letter in "Tt" else "running"


def is_ending(process: ProcessId) -> bool:
    """Return whether a Java process has got SIGTERM, and has not ended yet: its JVM has a thread for that."""
    if state(process) != "running":
        return False
    with suppress(OSError):  # it ends meanwhile, or one of its threads does
        names = (thread.read_text() for thread in Path(f"/proc/{process.pid}/task").glob("*/comm"))
        return any(name.rstrip("\n") == _SIGTERM_THREAD for name in names)
    return False


def send(process: ProcessId, signal_number: signal.Signals) -> bool:
    """Send a signal to exactly this process; return False if it is gone."""
    with _handle(process) as handle:
        if handle is None:
            return False
        signal.pidfd_send_signal(handle, signal_number)
        return True


def end(process: ProcessId, *, grace_seconds: float = 0) -> None:
    """End a process, frozen or not, and wait until it is gone: SIGTERM first if there is a grace period, then SIGKILL.

    Raises:
        UserError: the process still exists after SIGKILL.
    """
    with _handle(process) as handle:
        if handle is None:
            return
        if grace_seconds:
            signal.pidfd_send_signal(handle, signal.SIGTERM)
        if not (grace_seconds and _gone(handle, grace_seconds)):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
            if not _gone(handle, _END_SECONDS_MAX):
                raise UserError(f"Process {process.pid} does not end, even after SIGKILL: see `ps {process.pid}`.")
    state(process)


def wait_until(ready: Callable[[], T | None], process: ProcessId, log: Path, seconds: float) -> T:
    """Wait until ``ready`` returns a value other than None, while the process lives.

    Raises:
        UserError: the process ended or the time is over; the message names its log.
    """
    deadline = time.monotonic() + seconds
    while (answer := ready()) is None:
        if state(process) == "down":
            raise UserError(f"{log.stem} ended during its start: {log} contains the reason.")
        if time.monotonic() > deadline:
            raise UserError(f"{log.stem} was not ready within {seconds:.0f} s: {log} may contain the reason.")
        time.sleep(_POLL_SECONDS)
    return answer


def _start(pid: int) -> tuple[str, str]:
    """Return a process's start (boot, clock ticks) and the letter of its state; empty strings if it is gone."""
    try:
        # The name in brackets may itself contain blanks and brackets: the fields begin after the last bracket.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return "", ""
    return f"{boot}:{fields[19]}", fields[0]


@contextmanager
def _handle(process: ProcessId) -> Iterator[int | None]:
    try:
        handle = os.pidfd_open(process.pid)
    except OSError as error:
        # A thread of another process may have the number by now: EINVAL, and ENOENT of newer kernels.
        if error.errno not in (errno.ESRCH, errno.EINVAL, errno.ENOENT):
            raise
        yield None
        return
    try:
        yield None if state(process) == "down" else handle
    finally:
        os.close(handle)


def _gone(handle: int, seconds: float) -> bool:
    """Wait for the end of a process: its pidfd becomes readable."""
    poller = select.poll()
    poller.register(handle, select.POLLIN)
    return bool(poller.poll(seconds * 1000))
