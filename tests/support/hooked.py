"""A real broker with the hook, a client that speaks its protocol, and the events that the hook wrote."""

import base64
import contextlib
import itertools
import json
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from rebalance_model.observe import events
from rebalance_model.observe.events.decoding import decode
from streaming.base import jars
from streaming.base.java import java_home
from streaming.base.settings import load_settings
from streaming.collect import remoting
from streaming.collect.broker_hook import JAR, build
from streaming.collect.remoting import RemotingCommand
from streaming.lab import processes, servers

HEART_BEAT, UNREGISTER_CLIENT, GET_CONSUMER_LIST, LOCK, UNLOCK = 34, 35, 38, 41, 42
PULL, QUERY_OFFSET, UPDATE_OFFSET, LITE_PULL = 11, 14, 15, 361
POP, ACK, CHANGE_INVISIBLE, BATCH_ACK = 200050, 200051, 200053, 200151
SEND, SEND_V2, SEND_BATCH, RUNTIME_INFO, CREATE_TOPIC, CREATE_GROUP = 10, 310, 320, 28, 17, 200
GET_MAX_OFFSET, RESET_OFFSET = 30, 222
NAME = "broker-h"
_ONEWAY = 2
_READY_SECONDS_MAX = 120  # 5 s on a quiet machine


def hook_jar(folder: Path) -> Path:
    """Build the hook against the lab's RocketMQ; return its jar."""
    return build(rocketmq_jars(), folder / JAR)


def shared_hook_jar() -> Path:
    """Return the jar of the hook that the lab uses, too: javac takes 3 s of processor time."""
    return hook_jar(load_settings().runtime.jars / "hook")


def rocketmq_jars() -> list[Path]:
    return jars.ensure("rocketmq", load_settings().runtime.jars)


@contextlib.contextmanager
def broker(
    home: Path,
    *,
    spool: Path | None,
    name: str = NAME,
    name_server: str = "",
    swift: bool = False,
    broker_jars=None,
    conf: str = "",
    **hook,
):
    """Run a broker until the end of the block; `Client` needs no name server.

    Args:
        home: the broker's folder.
        spool: the hook's folder; None: without the hook.
        name: the broker's name.
        name_server: the address at which it registers; empty: none.
        swift: with the optimising compiler, as in production; otherwise with the lab's options, which start faster.
        broker_jars: the broker's jars; by default those of the lab.
        conf: further lines of its configuration.
        hook: further properties of the hook.

    Yields:
        ``address``, ``log`` and ``process`` of the broker.
    """
    class_path = broker_jars or rocketmq_jars()
    if spool:
        class_path = [*class_path, build(broker_jars, home / JAR) if broker_jars else shared_hook_jar()]
    port = servers.free_port(beside=servers.BROKER_PORTS_BESIDE)
    name_server = name_server or f"{servers.LOOPBACK}:{servers.free_port()}"
    java, *command = servers.broker_command(class_path, home / name, port, name_server, spool=spool)
    if conf:
        with (home / name / "broker.conf").open("a") as file:
            file.write(f"\n{conf}\n")
    if swift:
        command.remove("-XX:TieredStopAtLevel=1")
    command = [java, *(f"-Drebalance.watch.{key}={value}" for key, value in hook.items()), *command]
    with running(home, "broker", command) as started:
        started.address = (servers.LOOPBACK, port)
        yield started


@contextlib.contextmanager
def name_server(home: Path, server_jars: list[Path]):
    """Run a name server until the end of the block; yields it with its ``address``."""
    port = servers.free_port()
    with running(home, "namesrv", servers.name_server_command(server_jars, home / "namesrv", port)) as started:
        started.address = f"{servers.LOOPBACK}:{port}"
        yield started


@contextlib.contextmanager
def running(home: Path, what: str, command):
    """Run a server of RocketMQ until the end of the block; yields it when it is ready."""
    (home / "conf").mkdir(parents=True, exist_ok=True)
    (home / "conf" / f"logback_{what}.xml").write_text("<configuration/>")  # 4.9 does not start without
    environment = {"JAVA_HOME": str(java_home()), "ROCKETMQ_HOME": str(home)}
    log, ready = home / f"{what}.log", servers.ROCKETMQ_READY.encode()
    process = processes.spawn(command, log, environment)
    try:
        processes.wait_until(lambda: ready in log.read_bytes() or None, process, log, _READY_SECONDS_MAX)
        yield SimpleNamespace(log=log, process=process)
    finally:
        processes.end(process)


class Client:
    """One connection; it waits for each answer, unless the request is one-way."""

    def __init__(self, address):
        self._socket = socket.create_connection(address, timeout=20)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")
        self._numbers = itertools.count(1)
        self.channel = "{}:{}".format(*self._socket.getsockname())

    def ask(self, code, fields=None, body=None):
        """Send a request and return its answer: RocketMQ 5.4.0 without asyncSendEnable answers a send twice."""
        self._socket.sendall(self.frame(code, fields, body))
        while (answer := self.answer()).opaque != self._number:
            pass
        return answer

    def send_oneway(self, code, fields=None, body=None):
        """Send a request that gets no answer."""
        self._socket.sendall(self.frame(code, fields, body, flag=_ONEWAY))

    def send(self, frames):
        """Send frames made by `frame`."""
        self._socket.sendall(frames)

    def frame(self, code, fields=None, body=None, *, flag=0):
        """Return the bytes of a request."""
        body = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        texts = {name: str(value) for name, value in (fields or {}).items()}
        self._number = number = next(self._numbers)
        command = RemotingCommand(
            code=code, opaque=number, flag=flag, language="PYTHON", version=493, fields=texts, body=body
        )
        return remoting.encode(command)

    def answer(self):
        """Return the next answer; requests of the broker to its clients are skipped."""
        while True:
            (length,) = struct.unpack(">i", self._file.read(4))
            command = remoting.decode(self._file.read(length))
            if command.is_response:
                return command

    def make(self, topic, *groups, queues=4):
        """Create a topic, and groups that may commit."""
        fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues}
        fields |= {"perm": 6, "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0, "order": "false"}
        assert self.ask(CREATE_TOPIC, fields).code == 0
        for group in groups:
            assert self.ask(CREATE_GROUP, {}, {"groupName": group}).code == 0

    def close(self):
        self._file.close()
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def heartbeat(client_id, *groups, topic="Orders", producers=(), **more):
    """Return the body of HEART_BEAT (HeartbeatData)."""
    consumers = [
        {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "unitMode": False,
            "subscriptionDataSet": [{"topic": topic, "subString": "*", "expressionType": "TAG", "subVersion": 7}],
        }
        for group in groups
    ]
    producer_data = [{"groupName": group} for group in producers]
    return {"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": producer_data, **more}


def locks(client_id, group, *queues):
    """Return the body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ."""
    return {"consumerGroup": group, "clientId": client_id, "mqSet": [mq(queue) for queue in queues]}


def mq(queue_id, topic="Orders"):
    return {"topic": topic, "brokerName": NAME, "queueId": queue_id}


def commit(group, queue_id, offset, topic="Orders"):
    """Return the header of UPDATE_CONSUMER_OFFSET."""
    return {"consumerGroup": group, "topic": topic, "queueId": queue_id, "commitOffset": offset}


def pull(group, queue_id, offset, *, commits=None, topic="Orders"):
    """Return the header of PULL_MESSAGE, without long polling."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "queueOffset": offset, "maxMsgNums": 32}
    fields |= {"sysFlag": 4 | (commits is not None), "commitOffset": commits or 0, "suspendTimeoutMillis": 0}
    return fields | {"subscription": "*", "subVersion": 7, "expressionType": "TAG"}


POPPED = 1_700_000_000_000
"""When a message was popped, unless a test says otherwise: of course in the past."""


def pop(group, queue_id=-1, *, topic="Orders", **more):
    """Return the header of POP_MESSAGE."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "maxMsgNums": 32, "invisibleTime": 20_000}
    fields |= {"pollTime": 0, "bornTime": time.time_ns() // 1_000_000, "initMode": 0, "expType": "TAG", "exp": "*"}
    return fields | {"order": "false"} | more


def ack(group, queue_id, offset, *, topic="Orders", handle=None, **more):
    """Return the header of ACK_MESSAGE."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "offset": offset}
    return fields | {"extraInfo": handle or extra_info(queue_id, offset)} | more


def extra_info(queue_id, offset, *, popped=POPPED, invisible=20_000, revive=0, retry=0):
    """Return the receipt of a popped message (ExtraInfoUtil.buildExtraInfo)."""
    return f"{offset} {popped} {invisible} {revive} {retry} {NAME} {queue_id} {offset}"


def receipt(group, start, bits, *, topic="Orders", **more):
    """Return one receipt of the body of BATCH_ACK: `bits` has one for each offset from the start."""
    text = base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()
    fields = {"c": group, "t": topic, "r": "0", "so": start, "q": 0, "rq": 1, "pt": POPPED, "it": 20_000, "b": text}
    return fields | more


def proxy_heartbeat(client_id, group, **more):
    """Return the body of a heartbeat that a proxy copies (HeartbeatSyncerData)."""
    subscription = {"topic": "Orders", "subString": "*", "expressionType": "TAG", "subVersion": 7, "tagsSet": []}
    fields = {"heartbeatType": "REGISTER", "clientId": client_id, "group": group, "language": "JAVA", "version": 493}
    fields |= {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING", "localProxyId": "192.0.2.9%8080%8081"}
    return fields | {"channelData": '{"type":"GRPC_V2"}', "subscriptionDataSet": [subscription]} | more


def send(queue_id, *, topic="Orders", properties=""):
    """Return the header of SEND_MESSAGE; the message is the body."""
    fields = {"producerGroup": "makers", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 4}
    fields |= {"queueId": queue_id, "sysFlag": 0, "bornTimestamp": time.time_ns() // 1_000_000, "flag": 0}
    return fields | {"properties": properties, "reconsumeTimes": 0, "unitMode": "false", "batch": "false"}


def short(header):
    """Convert the header of SEND_MESSAGE to that of SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE, with short names."""
    names = ("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp")
    names += ("flag", "properties", "reconsumeTimes", "unitMode", "consumeRetryTimes", "batch")
    return {"abcdefghijklm"[number]: header[name] for number, name in enumerate(names) if name in header}


def batch(*bodies):
    """Return the body of SEND_BATCH_MESSAGE (MessageDecoder.encodeMessages), of messages without properties."""
    inner = (struct.pack(">iiii", 0, 0, 0, len(body)) + body + struct.pack(">h", 0) for body in bodies)
    return b"".join(struct.pack(">i", len(one) + 4) + one for one in inner)


def spooled(spool: Path, having: bytes = b"") -> list[events.Event]:
    """Return the event of every complete line, in the order of the files; decode each as the archive does.

    With ``having``: only of lines with this text; thousands of events take a second to decode.
    """
    stamp = time.time_ns() // 1_000_000
    return [decode(line, key=None, stamp=stamp, keyed=False) for line in lines(spool) if having in line]


def lines(spool: Path) -> Iterator[bytes]:
    """Yield every complete line, in the order of the files."""
    for file in sorted(spool.glob("*/*.jsonl")):
        yield from file.read_bytes().split(b"\n")[:-1]


def await_tick(spool: Path, brokers: int = 1) -> None:
    """Wait until the hook of each broker has ticked: then all that was called before is on disk."""
    now, deadline = time.time_ns() // 1_000_000, time.monotonic() + _READY_SECONDS_MAX
    while True:
        ticks = [one for one in spooled(spool, b'"TICK"') if isinstance(one, events.Tick) and one.time > now]
        if len({one.broker for one in ticks}) >= brokers:
            return
        assert time.monotonic() < deadline, "a hook has not ticked"
        time.sleep(0.1)


def numbers(hook_events):
    """Return the sequence numbers of each key."""
    by_key = {}
    for event in hook_events:
        by_key.setdefault((event.source_id, events.key_of(event)), []).append(event.seq)
    return by_key


def missing(hook_events):
    """Return how many sequence numbers are skipped; check that they increase."""
    gaps = 0
    for seqs in numbers(hook_events).values():
        assert all(one < other for one, other in itertools.pairwise(seqs))
        gaps += seqs[-1] - len(seqs)
    return gaps


def is_whole(hook_events):
    """Check that no sequence has a gap, time never decreases, and no sum of pulls begins before the last tick."""
    assert missing(hook_events) == 0
    assert all(one.time <= other.time for one, other in itertools.pairwise(hook_events))
    ticked = 0
    for event in hook_events:
        if isinstance(event, events.Tick):
            ticked = event.time
        elif isinstance(event, (events.PullMessage, events.PopMessage, events.AckMessage)):
            assert ticked <= event.first_time <= event.last_time <= event.time
            assert event.last_time - event.first_time <= 1_000
    return True
