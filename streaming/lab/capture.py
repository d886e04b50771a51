"""Record the demo's capture: the lab, the collector, and a schedule of all faults.

`rebalance-watch lab record DIR` takes about 26 minutes, with both collectors. The faults follow each other with pauses
in which the group recovers, so that each finding belongs to one of them.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streaming.base.errors import UserError
from streaming.base.settings import Settings
from streaming.lab.lab import Lab


@dataclass(frozen=True)
class CaptureStep:
    """One fault or cure, with its time in seconds after the start of the recording."""

    at: float
    fault: str
    client: str | None = None
    cure: bool = False
    queue_id: int | None = None


STORY = (
    CaptureStep(60, "join", "orders-4"),
    CaptureStep(130, "leave", "orders-1"),
    CaptureStep(190, "leave", "orders-1", cure=True),
    CaptureStep(250, "kill", "orders-2"),
    CaptureStep(340, "kill", "orders-2", cure=True),
    CaptureStep(400, "freeze", "orders-3"),  # longer than the 120 to 130 s after which the broker drops it
    CaptureStep(560, "freeze", "orders-3", cure=True),  # its old channel stays in the group for as long again
    CaptureStep(730, "hang", "orders-1"),
    CaptureStep(830, "hang", "orders-1", cure=True),
    CaptureStep(880, "poison", "orders-2"),
    CaptureStep(980, "poison", "orders-2", cure=True),
    CaptureStep(1030, "slow-pull", "orders-slow"),
    CaptureStep(1260, "slow-pull", "orders-slow", cure=True),
    CaptureStep(1310, "add-queues"),
    CaptureStep(1400, "broker-restart", "broker-a"),
    CaptureStep(1415, "broker-restart", "broker-a", cure=True),
)
END_S = 1530.0


def record(settings: Settings, folder: Path, say: Callable[[str], None]) -> None:
    """Inject the faults and write ``capture.jsonl.gz`` and ``faults.jsonl`` to the folder.

    Raises:
        UserError: a lab is already running, or the collector ended too early.
    """
    if Lab.find(settings) is not None:
        raise UserError(
            "A lab is already running: stop it with `rebalance-watch lab down`; a recording needs a new one."
        )
    folder.mkdir(parents=True, exist_ok=True)
    lab = Lab.up(settings, kafka=False, say=say)
    try:
        collector = _collector(lab, folder / "capture.jsonl.gz")
        try:
            _play(lab, collector, say)
        finally:
            collector.send_signal(signal.SIGINT)
            collector.wait(timeout=60)
        shutil.copyfile(lab.fault_log, folder / "faults.jsonl")
    finally:
        lab.down()


def _collector(lab: Lab, recording: Path) -> "subprocess.Popen[bytes]":
    spool = [] if lab.spool is None else ["--spool", str(lab.spool)]
    command = [sys.executable, "-m", "streaming.cli", "collect", "poll", "--to", str(recording), *spool]
    return subprocess.Popen(command, env=os.environ | lab.environment())


def _play(lab: Lab, collector: "subprocess.Popen[bytes]", say: Callable[[str], None]) -> None:
    begun = time.monotonic()
    for step in STORY:
        _wait_until(begun + step.at, collector)
        say(f"{step.at:.0f} s: {step.fault}{' cured' if step.cure else ''} {step.client or ''}")
        if step.cure:
            lab.cure(step.fault, client=step.client)
        else:
            lab.fault(step.fault, client=step.client, queue_id=step.queue_id)
    _wait_until(begun + END_S, collector)


def _wait_until(moment: float, collector: "subprocess.Popen[bytes]") -> None:
    while (left := moment - time.monotonic()) > 0:
        if collector.poll() is not None:
            raise UserError("The collector ended before the recording did: its last lines contain the reason.")
        time.sleep(min(left, 1.0))
