"""A JVM with the hook but without a broker, in a process of its own, and what it has written."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from rebalance_model.observe import events
from tests.support import hooked, waiting

ROOT = Path(__file__).parents[2]
LATER = 90.0
"""Nothing but a hang takes so long."""


class HookJvm:
    """A JVM with the hook, in its own process."""

    def __init__(self, jar, log, **environment):
        self._log = log
        class_path = ":".join(map(str, [jar, *hooked.rocketmq_jars()]))
        command = [sys.executable, "-W", "ignore", "-m", "tests.collect.hook_jvm", class_path]
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(command, cwd=ROOT, env=os.environ | environment, stderr=stderr, **streams)

    def __getattr__(self, what):
        def do(**arguments):
            self._process.stdin.write(json.dumps([what, arguments]) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
            assert answer, self.said()
            return json.loads(answer)

        return do

    def leave(self):
        """End as a broker does that is shut down."""
        self._process.communicate('["exit", {}]\n', timeout=LATER)

    def said(self):
        return [line for line in self._log.read_text().splitlines() if "rebalance-watch hook: " in line]

    def end(self):
        if self._process.returncode is None:
            self._process.communicate(timeout=LATER)


def until(holds, seconds=LATER):
    """Wait until a look gives something; the pause after a look that takes long, as of large spools, is long, too."""
    return waiting.until(holds, seconds)


def await_a_tick(spool):
    """Wait until all that was called before is written."""
    now = time.time_ns() // 1_000_000
    until(lambda: any(tick.time > now for tick in of_kind(hooked.spooled(spool, b'"TICK"'), events.Tick)))


def after_a_tick(spool):
    await_a_tick(spool)
    return hooked.spooled(spool)


def of_kind(hook_events, kind):
    return [event for event in hook_events if isinstance(event, kind)]


def losses(hook_events):
    """Return how many events were lost, by the reason; a tick between two of them reports those before it."""
    lost = Counter()
    for event in of_kind(hook_events, events.TelemetryLost):
        lost[event.reason] += event.count
    return lost


def commit(jvm, offset, group="g", **more):
    jvm.call(code=hooked.UPDATE_OFFSET, fields=hooked.commit(group, 0, offset), answer=0, **more)


def found_after(jvm, spool):
    """Return what is written once a later call of another group is reported, and the losses before it are."""
    commit(jvm, 77, group="bystander")
    await_a_tick(spool)
    hook_events = after_a_tick(spool)
    commits = of_kind(hook_events, events.UpdateConsumerOffset)
    assert [event.offset for event in commits if event.group == "bystander"][-1] == 77
    return hook_events
