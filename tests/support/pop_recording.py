"""The recording of POP and gRPC consumers (field/lab/pop.tar.xz), as a hook and a collector report it today.

It has every call at the broker's hook, and what the broker was asked, with the answers. The hook's sums are made here
as `Sums.java` makes them: ended every second, and an ack's also before a change of its queue.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import msgspec

from rebalance_model.observe import events
from streaming.collect import client_responses

FOLDER = Path(__file__).parents[1] / "field/lab"
CLUSTER, BROKER, PROXY = "lab", "broker-a", "proxy-1:8080"
TICK = 1_000
NO_MEMBER, MEMBERS = 206, 203
FIFO = {"grpc-fifo"}
"""The groups with consumeMessageOrderly."""
_IN_ORDER = "999"


def recorded(folder: Path, name: str) -> list[dict]:
    """Return the lines of a file of the unpacked recording, with ``t``, epoch milliseconds."""
    return [json.loads(line) for line in (folder / "pop" / f"{name}.jsonl").read_text().splitlines()]


def events_of(folder: Path) -> list[events.Event]:
    """Return the events of both sources in the order of time."""
    found = [*hook_events(folder), *poll_events(folder)]
    return sorted(found, key=lambda event: event.time)


def hook_events(folder: Path) -> Iterator[events.Event]:
    """Yield what the hook reports."""
    return _Hook(recorded(folder, "proxy-heartbeats")).read(recorded(folder, "hook-cluster-fs"))


def poll_events(folder: Path, *, proxies: bool = False) -> Iterator[events.Event]:
    """Yield what a collector reports that asks the broker alone; with ``proxies`` the proxy for its clients, too."""
    calls = [
        call
        for call in recorded(folder, "polls-cluster-fs")
        if "req" in call and (call["to"] == "broker" or (proxies and call["req"] == MEMBERS))
    ]
    source = _Source("poll", "poll-1", calls[0]["t"])
    ticked = calls[0]["t"]
    for call in sorted(calls, key=lambda one: one["t"] + one["ms"]):
        answered = call["t"] + call["ms"]
        while ticked + TICK <= answered:
            ticked += TICK
            yield source.event(events.Tick, ticked)
        yield _answer(source, call, answered)


def _answer(source: "_Source", call: dict, answered: int) -> events.Event:
    kind, read = {
        203: (events.ConsumerConnection, client_responses.connection),
        208: (events.ConsumeStats, client_responses.consume_stats),
        307: (events.ConsumerRunningInfo, client_responses.running_info),
    }[call["req"]]
    if call["to"] == "proxy":
        kind, read = events.ProxyConnection, client_responses.proxy_connection
    code, fields = call["answer"]["code"], {"asked": call["t"], "answered": answered}
    if code == 0:
        fields |= read(call["answer"]["body"].encode())
    elif code == NO_MEMBER:
        fields |= client_responses.NO_MEMBERS
    else:
        fields["error"] = {"code": code}
    if call["to"] == "proxy":
        fields |= {"proxy": PROXY, "broker": ""}
    elif call["req"] == MEMBERS and "error" not in fields:
        fields["consume_message_orderly"] = call["ext"]["consumerGroup"] in FIFO  # nobody asked 201
    if "clientId" in call["ext"]:
        fields["client_id"] = call["ext"]["clientId"]
    return source.event(kind, answered, group=call["ext"]["consumerGroup"], **fields)


class _Source:
    """One source's numbers."""

    def __init__(self, source: str, name: str, start: int) -> None:
        self._common = {"cluster": CLUSTER, "broker": BROKER, "source": source, "source_id": f"{name}@{start}"}
        self._numbers: dict[str, int] = defaultdict(int)

    def event(self, kind: type[events.Event], time: int, **fields: object) -> events.Event:
        """Return the next event of its group."""
        group = str(fields.get("group", ""))
        self._numbers[group] += 1
        tag = {"type": kind.__struct_config__.tag, "seq": self._numbers[group], "time": time}
        return msgspec.convert(msgspec.to_builtins(self._common | tag | fields), type=events.AnyEvent)


class _Hook:
    """The hook: its open sums, by group, topic and queue, and then by channel, kind, order and code."""

    def __init__(self, beats: list[dict]) -> None:
        """Begin with the bodies of the proxy's messages, in the order in which they were sent."""
        self._beats = iter(beats)
        self._sums: dict[tuple, dict[tuple, dict]] = {}

    def read(self, calls: list[dict]) -> Iterator[events.Event]:
        ticked = calls[0]["t"]
        self._source = _Source("hook", f"hook-{BROKER}", ticked)
        yield self._source.event(events.BrokerStatus, ticked, boot_time=ticked)
        for call in calls:
            while ticked + TICK <= call["t"]:
                ticked += TICK
                for place in list(self._sums):
                    yield from self._closed(place, ticked)
                yield self._source.event(events.Tick, ticked)
            read = getattr(self, f"_{call['code']}", None)
            if read is not None:
                ext = call["ext"] or {}
                answer = call["resp"]
                yield from read(call, ext, {"channel": call["addr"]} | ({"code": answer["code"]} if answer else {}))

    def _closed(self, place: tuple, time: int) -> Iterator[events.Event]:
        for one in self._sums.pop(place, {}).values():
            kind = one.pop("kind")
            yield self._source.event(kind, time, **one)

    def _sum(self, kind: type, call: dict, ext: dict, common: dict, *apart: object) -> dict:
        """Return the open sum of such calls, with what each sum has."""
        group, topic, queue_id = ext["consumerGroup"], ext["topic"], int(ext["queueId"])
        sums = self._sums.setdefault((group, topic, queue_id), {})
        began = {"kind": kind, "group": group, "topic": topic, "queue_id": queue_id, "first_time": call["t"]}
        one = sums.setdefault((kind, common["channel"], common.get("code"), *apart), began | common)
        one["last_time"] = call["t"]
        return one

    def _11(self, call: dict, ext: dict, common: dict) -> Iterator[events.Event]:
        total = self._sum(events.PullMessage, call, ext, common)
        total.setdefault("first_offset", int(ext["queueOffset"]))
        commits = int(ext["sysFlag"]) & 1
        total |= {"last_offset": int(ext["queueOffset"]), "commit_offset": int(ext["commitOffset"]) if commits else -1}
        total["count"] = total.get("count", 0) + 1
        yield from ()

    def _14(self, call: dict, ext: dict, common: dict) -> Iterator[events.Event]:
        yield from self._of_queue(events.QueryConsumerOffset, call, ext, common)

    def _15(self, call: dict, ext: dict, common: dict) -> Iterator[events.Event]:
        more = {"offset": int(ext["commitOffset"])}
        yield from self._of_queue(events.UpdateConsumerOffset, call, ext, common | more)

    def _of_queue(self, kind: type, call: dict, ext: dict, fields: dict) -> Iterator[events.Event]:
        place = (ext["consumerGroup"], ext["topic"], int(ext["queueId"]))
        yield from self._closed(place, call["t"])
        group, topic, queue_id = place
        yield self._source.event(kind, call["t"], group=group, topic=topic, queue_id=queue_id, **fields)

    def _34(self, call: dict, _: dict, common: dict) -> Iterator[events.Event]:
        body = json.loads(call["body"])
        for data in body["consumerDataSet"]:
            fields = {"consume_type": data["consumeType"], "message_model": data["messageModel"]}
            fields |= {"consume_from_where": data["consumeFromWhere"], "client_id": body["clientID"]}
            fields |= {"language": call["lang"], "version": call["ver"]}
            subscriptions = _subscriptions(data["subscriptionDataSet"])
            yield self._source.event(
                events.HeartBeat,
                call["t"],
                group=data["groupName"],
                subscriptions=subscriptions,
                **(common | fields),
            )

    def _35(self, call: dict, ext: dict, common: dict) -> Iterator[events.Event]:
        if "consumerGroup" in ext:
            more = {"group": ext["consumerGroup"], "client_id": ext["clientID"]}
            yield self._source.event(events.UnregisterClient, call["t"], **(common | more))

    def _38(self, call: dict, ext: dict, common: dict) -> Iterator[events.Event]:
        ids = json.loads(call["resp"].get("body") or "{}").get("consumerIdList", [])
        more = {"group": ext["consumerGroup"], "asked": call["t"], "consumer_ids": ids}
        yield self._source.event(events.GetConsumerListByGroup, call["t"], **(common | more))

    def _200050(self, call: dict, ext: dict, common: dict) -> Iterator[events.Event]:
        total = self._sum(events.PopMessage, call, ext, common)
        total |= {"invisible_ms": int(ext["invisibleTime"]), "poll_ms": int(ext["pollTime"])}
        total["order"] = ext["order"] == "true"
        total["filtered"] = total.get("filtered", False) or ext["exp"] != "*"
        total["count"] = total.get("count", 0) + 1
        yield from ()

    def _200051(self, call: dict, ext: dict, common: dict) -> Iterator[events.Event]:
        _, popped, invisible, revive, *_ = ext["extraInfo"].split()
        total = self._sum(events.AckMessage, call, ext, common, revive == _IN_ORDER)
        offsets = {offset for first, last in total.get("ranges", ()) for offset in range(first, last + 1)}
        total["ranges"] = ranges_of(offsets | {int(ext["offset"])})
        total |= {"order": revive == _IN_ORDER, "invisible_ms": int(invisible)}
        total["pop_time_min"] = min(int(popped), total.get("pop_time_min", int(popped)))
        total["pop_time_max"] = max(int(popped), total.get("pop_time_max", int(popped)))
        yield from ()

    def _200053(self, call: dict, ext: dict, common: dict) -> Iterator[events.Event]:
        _, popped, invisible, revive, *_ = ext["extraInfo"].split()
        more = {"offset": int(ext["offset"]), "order": revive == _IN_ORDER, "pop_time": int(popped)}
        more |= {"invisible_ms": int(invisible), "changed_ms": int(ext["invisibleTime"])}
        yield from self._of_queue(events.ChangeMessageInvisibletime, call, ext, common | more)

    def _310(self, call: dict, _: dict, common: dict) -> Iterator[events.Event]:
        if (sent := next(self._beats, None)) is None:
            return  # the recording of the bodies ends before that of the calls
        beat = sent["body"]
        more = {"group": beat["group"], "client_id": beat["clientId"], "proxy": beat["localProxyId"]}
        more |= {"registers": beat["heartbeatType"] == "REGISTER", "language": beat["language"]}
        more |= {"version": beat["version"], "consume_type": beat.get("consumeType") or ""}
        more |= {"message_model": beat.get("messageModel") or ""}
        more["subscriptions"] = _subscriptions(beat.get("subscriptionDataSet") or [])
        yield self._source.event(events.ProxyHeartBeat, call["t"], **(common | more))


def ranges_of(offsets: set[int]) -> list[tuple[int, int]]:
    """Return offsets as ranges, each with its first and its last offset."""
    made: list[tuple[int, int]] = []
    for offset in sorted(offsets):
        if made and offset == made[-1][1] + 1:
            made[-1] = (made[-1][0], offset)
        else:
            made.append((offset, offset))
    return made


def _subscriptions(sent: list[dict]) -> list[dict]:
    names = {"topic": "topic", "sub_string": "subString", "expression_type": "expressionType"}
    names["sub_version"] = "subVersion"
    return [{name: one[field] for name, field in names.items()} for one in sent]
