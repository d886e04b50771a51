"""Jobs on one root, each as on a machine of its own: one works, the others wait."""

import os
from pathlib import Path

import httpx

from streaming.lab.servers import LOOPBACK, free_port
from tests.live.commands import Command

DIE = "die"
ELSEWHERE = """
import os
from checkpoints import lease
lease.LOCK = f".lock-{os.getpid()}"
lease._place = lambda _: str(os.getpid())
from streaming.cli.main import main
main()
"""
"""The program as on a machine of its own: its lock of a file does not exclude the other one."""
DIES_WITHIN_BATCH = f"""
import os, signal
from pathlib import Path
from schemas.tables import DERIVED
from streaming.pipeline.sinks import TableSink
append = TableSink.append_arrow
def append_and_die(self, rows, table, *, batch_id):
    append(self, rows, table, batch_id=batch_id)
    if table in DERIVED and Path(os.environ["REBALANCE_WATCH_RUNTIME__ROOT"], "{DIE}").exists():
        os.killpg(0, signal.SIGKILL)
TableSink.append_arrow = append_and_die
{ELSEWHERE}"""
"""The same; when a file is in the root, all of its processes are killed once a batch has rows in the first table."""


class Job(Command):
    """One of several jobs on a root."""

    def __init__(self, folder: Path, settings: dict[str, object], *arguments: str, program: str = ELSEWHERE) -> None:
        """Prepare the job; `settings` has the root, `folder` is its own and does not exist."""
        folder.mkdir()
        self.port = free_port()
        file = folder / "program.py"  # pyspark takes a main module without a file for a doctest
        file.write_text(program)
        super().__init__(folder, settings | {"HEALTH__RUN": self.port}, "run", *arguments, program=(file,))

    def readiness(self) -> httpx.Response:
        """Ask its probe."""
        return httpx.get(f"http://{LOOPBACK}:{self.port}/readyz")

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes, as if its machine had it."""
        os.killpg(self.pid, number)


def check_it_waits(waiting: Job, working: Job) -> None:
    """Check what the probe of a standby says."""
    answer = waiting.readiness()
    assert answer.status_code == 200
    [task] = answer.json()["tasks"]
    assert task["task"] == "standby"
    assert f"waits while another run works ({os.uname().nodename}, process {working.pid})" in task["reason"]
