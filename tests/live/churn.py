"""Record churn in a real cluster: the events of the brokers' hooks, and the answers of brokers and clients meanwhile.

The requests are the collector's own (203, 208, 307, every two seconds), with the times of request and answer. The
member list (38) is requested rarely, because its answer is itself an event that the hooks report. All clocks are this
machine's. A run is a folder, so that it can be judged again.
"""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import msgspec

from rebalance_model.observe.events.decoding import decode
from streaming.base.settings import load_settings
from streaming.collect.client import RemotingClient, RpcFailedError
from streaming.collect.rpc import Rpc
from streaming.collect.security import Security
from streaming.lab.capture import CaptureStep
from streaming.lab.state import FaultRecord
from tests.support import hooked

INTERVAL_MS = 2_000
_LIST_SECONDS = 20

SHORT = (
    CaptureStep(2, "join", "orders-4"),
    CaptureStep(6, "join", "audit-3"),
    CaptureStep(10, "add-queues"),
    CaptureStep(14, "freeze", "audit-1"),
    CaptureStep(16, "leave", "orders-1"),
    CaptureStep(24, "broker-restart", "broker-b"),
    CaptureStep(30, "broker-restart", "broker-b", cure=True),
    CaptureStep(42, "kill", "orders-2"),
    CaptureStep(46, "freeze", "audit-1", cure=True),
    CaptureStep(48, "leave", "orders-1", cure=True),
    CaptureStep(58, "broker-kill", "broker-a"),
    CaptureStep(64, "broker-kill", "broker-a", cure=True),
    CaptureStep(76, "kill", "orders-2", cure=True),
)
SHORT_SECONDS = 96
LONG = (
    CaptureStep(10, "join", "orders-4"),
    CaptureStep(30, "freeze", "orders-3"),  # longer than the 120 to 130 s after which the brokers drop it
    CaptureStep(40, "join", "audit-3"),
    CaptureStep(55, "leave", "audit-1"),
    CaptureStep(70, "kill", "orders-2"),
    CaptureStep(90, "leave", "audit-1", cure=True),
    CaptureStep(105, "kill", "orders-2", cure=True),
    CaptureStep(120, "broker-restart", "broker-b"),
    CaptureStep(135, "broker-restart", "broker-b", cure=True),
    CaptureStep(175, "freeze", "orders-3", cure=True),
    CaptureStep(195, "freeze", "audit-2"),
    CaptureStep(205, "kill", "orders-1"),
    CaptureStep(220, "freeze", "audit-2", cure=True),
    CaptureStep(230, "kill", "orders-1", cure=True),
    CaptureStep(245, "add-queues"),
    CaptureStep(255, "join", "orders-4", cure=True),
    CaptureStep(275, "broker-kill", "broker-a"),
    CaptureStep(300, "broker-kill", "broker-a", cure=True),
    CaptureStep(345, "kill", "audit-3"),
    CaptureStep(365, "kill", "audit-3", cure=True),
    CaptureStep(380, "freeze", "orders-2"),
    CaptureStep(390, "leave", "orders-1"),
    CaptureStep(420, "freeze", "orders-2", cure=True),
    CaptureStep(430, "leave", "orders-1", cure=True),
    CaptureStep(445, "broker-restart", "broker-a"),
    CaptureStep(
        500, "broker-restart", "broker-a", cure=True
    ),  # down for long enough that the clients release its queues
    CaptureStep(540, "join", "orders-5"),
    CaptureStep(560, "kill", "audit-1"),
    CaptureStep(575, "kill", "audit-1", cure=True),
)
LONG_SECONDS = 615


class MemberList(msgspec.Struct, frozen=True):
    """One answer to GET_CONSUMER_LIST_BY_GROUP."""

    asked: int
    time: int
    broker: str
    group: str
    consumer_ids: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """The recording, each part in order of time."""

    hook: list
    """The hooks' events."""
    poll: list
    """The collector's events."""
    lists: list[MemberList]
    faults: list[FaultRecord]


def play(lab, steps, seconds, folder):
    """Apply the steps to the lab, each not before its time, and record until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with _collecting(lab, folder / "poll.jsonl"), _listing(lab, folder / "lists.jsonl"):
        for step in steps:
            time.sleep(max(0.0, begun + step.at - time.monotonic()))
            (lab.cure if step.cure else lab.fault)(step.fault, client=step.client)
        time.sleep(max(0.0, begun + seconds - time.monotonic()))
    hooked.await_tick(lab.spool, len(_masters(lab.name_server)))
    shutil.copytree(lab.spool, folder / "spool")
    shutil.copyfile(lab.fault_log, folder / "faults.jsonl")
    return read(folder)


def read(folder):
    """A run."""
    return Run(
        hook=sorted(hooked.spooled(folder / "spool"), key=lambda event: event.time),
        poll=[
            decode(line, key=None, stamp=time.time_ns() // 1_000_000, keyed=False)
            for line in (folder / "poll.jsonl").read_bytes().splitlines()
        ],
        lists=_lines(folder / "lists.jsonl", MemberList),
        faults=_lines(folder / "faults.jsonl", FaultRecord),
    )


def _lines(path, kind):
    return [msgspec.json.decode(line, type=kind) for line in path.read_bytes().splitlines()]


@contextmanager
def _collecting(lab, recording):
    environment = {
        **os.environ,
        "REBALANCE_WATCH_COLLECTOR__NAME_SERVERS": json.dumps([lab.name_server]),
        "REBALANCE_WATCH_COLLECTOR__INTERVAL_MS": str(INTERVAL_MS),
        "REBALANCE_WATCH_COLLECTOR__DEADLINE_MS": str(INTERVAL_MS - 100),
    }
    command = [sys.executable, "-m", "streaming.cli", "collect", "poll", "--to", str(recording)]
    with recording.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(timeout=120)
    assert code == 0, recording.with_suffix(".log").read_text()[-2_000:]


@contextmanager
def _listing(lab, path):
    done = threading.Event()
    thread = threading.Thread(target=_ask_lists, args=(lab.name_server, path, done))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _ask_lists(name_server, path, done):
    groups = [group.group for group in load_settings().lab.groups.values()]
    with path.open("wb") as file:
        while not done.wait(_LIST_SECONDS):
            for broker in _masters(name_server):
                with suppress(OSError):  # it is down
                    for group in groups:
                        file.write(msgspec.json.encode(_ask_list(broker, group)) + b"\n")


def _ask_list(broker, group):
    host, _, port = broker.address.rpartition(":")
    with hooked.Client((host, int(port))) as client:
        asked = time.time_ns() // 1_000_000
        answer = client.ask(hooked.GET_CONSUMER_LIST, {"consumerGroup": group})
        ids = json.loads(answer.body)["consumerIdList"] if answer.code == 0 else ()  # 1: the group has no member
        return MemberList(asked, time.time_ns() // 1_000_000, broker.name, group, tuple(ids))


def _masters(name_server):
    async def ask():
        async with RemotingClient(Security()) as client:
            return (await Rpc(client, (name_server,)).brokers(10.0)).brokers

    try:
        return asyncio.run(ask())
    except RpcFailedError:
        return []
