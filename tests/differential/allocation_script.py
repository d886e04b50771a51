"""Random cases for the allocation strategies, and the model's answers to them.

A case is JSON: a strategy with its parameters, queues, clients, and the requesting clients. `model_answers` and
`java_answers` (allocation_java.py) return plain values: for each requesting client the indexes of its queues in
`universe`, None for null, or the exception's class and message. Parameters that are code (hash functions, resolvers)
are given by name, and the same Python object serves both sides.
"""

import random
from collections import Counter
from collections.abc import Callable
from hashlib import md5
from pathlib import Path
from typing import Any

from rebalance_model.allocation import AllocateStrategy, AllocationError, AllocationNullError, strategy
from rebalance_model.entities import MessageQueue, java_order, queue_order

Json = Any
VECTORS = Path(__file__).parent / "vectors"
"""The recorded answers of the real classes (record_allocation.py)."""
NAMES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY")

TOPICS = ("T", "%RETRY%G", "Tópico😀")
BROKERS = (
    *("b", "broker-a", "r1@a", "r1@b", "r2@b", "r3@c", "r1-a", "r2-b", "é@\uff5e", "😀@é"),
    *("r1@", "r1@b@@", "r1@@", "r1@x@y", "@r1", "@", "@@", "a@@b", "@r1@", ""),
)
CLIENTS = (
    *("c0", "c1", "c2", "c10", "192.168.0.1@100", "10.0.0.2@1#2", "é", "😀", "\uff5e", " "),
    *("r1-c0", "r1-c1", "r2-c0", "r3-c0", "r4@c0", "c0-1"),
)
ROOMS = ("r1", "r2", "r3", "a", "é", "😀", "")
INNER = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "CONFIG", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY")


def _characters(key: str) -> int:
    return sum(map(ord, key))


HASHES: dict[str, Callable[[str], int]] = {
    "one place": lambda _: 7,
    "few places": lambda key: _characters(key) % 23,
    "below zero": lambda key: -_characters(key),
    "whole long": lambda key: int.from_bytes(md5(key.encode()).digest()[:8], "big", signed=True),
}


def _room(name: str) -> str | None:
    return name.replace("@", "-").split("-")[0]


class Rooms:
    """The room is the text before the first "-" or "@"; for some brokers it is empty, and one has none."""

    def broker_deploy_in(self, mq: MessageQueue) -> str | None:
        return None if mq.broker == "@@" else _room(mq.broker)

    def consumer_deploy_in(self, cid: str) -> str | None:
        return _room(cid)


class OneRoom(Rooms):
    def broker_deploy_in(self, mq: MessageQueue) -> str | None:
        return "r"

    def consumer_deploy_in(self, cid: str) -> str | None:
        return "r"


class FewRooms(Rooms):
    """Rooms with several brokers and clients each, and some with only brokers or only clients."""

    def broker_deploy_in(self, mq: MessageQueue) -> str | None:
        return "xyz😀\uff5e"[(_characters(mq.broker) + mq.queue_id) % 5]

    def consumer_deploy_in(self, cid: str) -> str | None:
        return "xyw"[_characters(cid) % 3]


class ForgetfulRooms(FewRooms):
    """No room for some clients."""

    def consumer_deploy_in(self, cid: str) -> str | None:
        return {"c10": None, "é": ""}.get(cid, super().consumer_deploy_in(cid))


class FickleRooms(FewRooms):
    """Another room at each call for a client."""

    def __init__(self) -> None:
        self._asked: Counter[str] = Counter()

    def consumer_deploy_in(self, cid: str) -> str | None:
        self._asked[cid] += 1
        return ("x", "y", "nowhere", "z", None)[(self._asked[cid] + _characters(cid)) % (3 + len(cid) % 3)]


RESOLVERS: dict[str, type[Rooms]] = {
    "rooms": Rooms,
    "one room": OneRoom,
    "few rooms": FewRooms,
    "forgetful rooms": ForgetfulRooms,
    "fickle rooms": FickleRooms,
}


def case(name: str, seed: int) -> Json:
    """Return the random case of a name and seed, always the same one."""
    rng = random.Random(f"{name}/{seed}")
    clients = _clients(rng)
    asking = [*dict.fromkeys(clients or ()), "stranger", "", None]
    queues = _queues(rng)
    return {"strategy": name, "params": _params(rng, name), "queues": queues, "clients": clients, "asking": asking}


def _queues(rng: random.Random, most: int = 24) -> Json:
    if rng.random() < 0.03:
        return rng.choice([None, []])
    brokers = rng.sample(BROKERS, rng.randint(1, 6))
    queues = [[rng.choice(TOPICS), rng.choice(brokers), rng.randint(-1, 9)] for _ in range(rng.randint(1, most))]
    if rng.random() < 0.5:
        queues = list(map(list, dict.fromkeys(map(tuple, queues))))
    return sorted(queues, key=lambda mq: queue_order(MessageQueue(*mq))) if rng.random() < 0.8 else queues


def _clients(rng: random.Random) -> Json:
    if rng.random() < 0.03:
        return rng.choice([None, []])
    clients = rng.sample(CLIENTS, rng.randint(1, 9))
    if rng.random() < 0.3:
        clients += rng.choices([*clients, ""], k=rng.randint(1, 3))
    return sorted(clients, key=java_order) if rng.random() < 0.8 else clients


def _params(rng: random.Random, name: str, depth: int = 0) -> Json:
    match name:
        case "CONSISTENT_HASH":
            params: Json = {"virtual_node_cnt": rng.choice([-1, 0, 1, 2, 3, 10, 10])} if rng.random() < 0.6 else {}
            return params | ({"custom_hash_function": rng.choice(list(HASHES))} if rng.random() < 0.4 else {})
        case "CONFIG":
            return {"message_queue_list": _queues(rng, most=4)} if rng.random() < 0.9 else {}
        case "MACHINE_ROOM":
            return {"consumeridcs": rng.sample(ROOMS, rng.randint(0, 5))} if rng.random() < 0.9 else {}
        case "MACHINE_ROOM_NEARBY":
            inner = rng.choice(INNER[:5] if depth else INNER)
            spec = {"strategy": inner, "params": _params(rng, inner, depth + 1)}
            params = {"inner": spec, "resolver": rng.choice(list(RESOLVERS))}
            return params | rng.choice([{}] * 40 + [{"inner": None}, {"resolver": None}])
    return {}


def universe(case: Json) -> list[Json]:
    """Return every queue that an answer may contain: the given ones, then the configured ones."""
    configured, spec = [], case
    while spec:
        configured += spec["params"].get("message_queue_list") or []
        spec = spec["params"].get("inner")
    return [*(case["queues"] or []), *configured]


def build(spec: Json) -> AllocateStrategy:
    """Build the model's strategy."""
    params = dict(spec["params"])
    if params.get("custom_hash_function"):
        params["custom_hash_function"] = HASHES[params["custom_hash_function"]]
    if params.get("message_queue_list") is not None:
        params["message_queue_list"] = [MessageQueue(*mq) for mq in params["message_queue_list"]]
    if params.get("consumeridcs") is not None:
        params["consumeridcs"] = set(params["consumeridcs"])
    if params.get("inner"):
        params["inner"] = build(params["inner"])
    if params.get("resolver"):
        params["resolver"] = RESOLVERS[params["resolver"]]()
    return strategy(spec["strategy"], **params)


def refusal(error: AllocationError, *, building: bool = False) -> Json:
    """Return the exception as in Java; except while building, a NullPointerException has the JVM's own message."""
    if isinstance(error, AllocationNullError):
        return ["NullPointerException", str(error) if building else None]
    return ["IllegalArgumentException", str(error)]


def model_answers(case: Json) -> Json:
    """Return the strategy's name and each requesting client's share; only the refusal if it can't be built."""
    try:
        model = build(case)
    except AllocationError as error:
        return refusal(error, building=True)
    places: dict[MessageQueue, int] = {}
    for place, mq in enumerate(universe(case)):
        places.setdefault(MessageQueue(*mq), place)
    queues = None if case["queues"] is None else [MessageQueue(*mq) for mq in case["queues"]]

    def answer(cid: str | None) -> Json:
        try:
            share = model.allocate("G", cid, queues, case["clients"])
        except AllocationError as error:
            return refusal(error)
        return None if share is None else [places[mq] for mq in share]

    return {"name": model.name, "answers": [answer(cid) for cid in case["asking"]]}
