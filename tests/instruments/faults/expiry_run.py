"""Let a real broker delete messages before two groups read them, and record hooks and polls.

    python -m tests.instruments.faults.expiry_run FOLDER

writes `recording.jsonl` and `run.json` to the folder; `test_expiry` judges them. The store's files are small, and the
broker deletes at most one of them every ten seconds. First both groups keep pace. Then many messages are sent at once;
the listener of one group hangs, that of the other takes seconds for a message. Later `fileReservedTime` is set to 0:
deletion passes both. The hung group continues after what was deleted, the slow one has to do so again and again; then
messages are kept as before, and both read the rest.
"""

import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec

from streaming.lab.control import write_orders
from tests.instruments.faults.case import Group
from tests.instruments.faults.expiry_client import Log
from tests.instruments.faults.field import FieldFaults
from tests.instruments.faults.run import collecting, recorded, settings_of
from tests.instruments.figures import commit
from tests.live.conftest import eventually

HUNG, SLOW = "audit", "orders"
GROUPS = {key: Group(False, 2, 0, ()) for key in (HUNG, SLOW)}
STORE = {
    "mappedFileSizeCommitLog": 655_360,
    "deleteFileBatchMax": 1,
    "fileReservedTime": 72,
    "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
}
"""Files of about 600 messages, one of which is deleted in each run of CleanCommitLogService, at any hour."""
QUIET_SECONDS = 50
BACKLOG = 6_000
"""Messages to each queue at once."""
SLOW_SECONDS = 4
"""16 threads read four messages a second, two of each queue."""
LATE_SECONDS = 55
"""The collector asks about groups that are a minute late (`group_polls.LATE_MS`)."""
DELETION_SECONDS = 270
AFTER_SECONDS = 15
"""How long the hung group reads on while messages are deleted."""
HEAL_SECONDS = 75
_START_SECONDS_MAX = 200
_LEAVE_SECONDS_MAX = 60


class Run(msgspec.Struct, frozen=True):
    """The description of a recording; times are epoch milliseconds."""

    commit: str
    began: int
    slowed: int
    deletion_began: int
    released: int
    """When the hung listener returned."""
    deletion_ended: int
    ended: int
    logs: dict[str, Log]
    """By group: the consumer's own."""


class Client:
    """One process of `expiry_client`."""

    def __init__(self, role, orders, folder):
        """Start it, and wait until it says so."""
        self.log = folder / f"{orders.name}-{role}.json"
        path, said = folder / f"{orders.name}-{role}-orders.json", folder / f"{orders.name}-{role}.log"
        write_orders(path, orders)
        command = [sys.executable, "-m", "tests.instruments.faults.expiry_client", role, path, self.log]
        with said.open("wb") as out:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT)
        eventually(lambda: b"started\n" in said.read_bytes(), _START_SECONDS_MAX)

    def say(self, line):
        """Send it a line."""
        self._process.stdin.write(f"{line}\n".encode())
        self._process.stdin.flush()

    def end(self):
        """Let it end."""
        self._process.stdin.close()
        assert self._process.wait(_LEAVE_SECONDS_MAX) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait(_LEAVE_SECONDS_MAX)


def play(folder: Path) -> Path:
    """Record the run into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = settings_of(GROUPS, folder / "root", brokers=1, broker=STORE, messages_per_second=0.1)
    return recorded(folder, settings, lambda lab: _record(lab, settings, folder))


def _record(lab, settings, folder):
    faults = FieldFaults(settings, lab.name_server)
    with faults.cluster() as cluster:
        orders = {key: cluster.new_consumer(f"{key}-1", settings.lab.groups[key]) for key in GROUPS}
        [broker] = cluster.brokers().values()

    def keep(hours):
        faults.change("updateBrokerConfig", "-b", broker, "-k", "fileReservedTime", "-v", str(hours))
        return _now()

    with ExitStack() as stack, collecting(lab, folder).start() as collector:
        collector.wait_for("round", 300)
        hung, slow = (stack.enter_context(Client("consume", orders[key], folder)) for key in (HUNG, SLOW))
        both = msgspec.structs.replace(orders[HUNG], also=(orders[SLOW].topic,), name="producer")
        producer = stack.enter_context(Client("produce", both, folder))
        began = _now()
        time.sleep(QUIET_SECONDS)
        slowed = _now()
        hung.say("inf")
        slow.say(SLOW_SECONDS)
        producer.say(BACKLOG)
        time.sleep(LATE_SECONDS)
        deletion_began = keep(0)
        time.sleep(DELETION_SECONDS)
        released = _now()
        hung.say(0)
        time.sleep(AFTER_SECONDS)
        deletion_ended = keep(STORE["fileReservedTime"])
        slow.say(0)
        time.sleep(HEAL_SECONDS)
        ended = _now()
        for client in (producer, hung, slow):
            client.end()
        assert collector.interrupt() == 0, collector.said()
    consumers = {f"{HUNG}-group": hung, f"{SLOW}-group": slow}
    logs = {group: msgspec.json.decode(client.log.read_bytes(), type=Log) for group, client in consumers.items()}
    return Run(commit(), began, slowed, deletion_began, released, deletion_ended, ended, logs)


def _now() -> int:
    return time.time_ns() // 1_000_000


if __name__ == "__main__":
    play(Path(sys.argv[1]))
