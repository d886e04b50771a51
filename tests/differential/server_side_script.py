"""Random requests to a broker's QueryAssignmentProcessor, and the model's answers to them.

A case is JSON: the broker's settings, its tables, and a request of each client. An answer is a sorted list of
[topic, broker, queue id, mode], or None if the client must keep its queues.
"""

import random

from rebalance_model.allocation.server_side import QueryAssignment, QueryAssignmentProcessor, RequestMode
from rebalance_model.entities import MessageQueue
from tests.differential.allocation_script import Json

BROKER = "broker-a"
TOPICS = ("T", "T", "T", "%RETRY%G", "%LMQ%x", "é😀")
STRATEGIES = ("AVG", "AVG", "AVG_BY_CIRCLE", "AVG_BY_CIRCLE", "CONSISTENT_HASH", "", None)
CLIENTS = ("c0", "c1", "c10", "c2", "é", "😀", "\uff5e", " ", "\u00a0", "\u2003")


def case(seed: int) -> Json:
    """Return the random case of a seed, always the same one."""
    rng = random.Random(f"server side/{seed}")
    topic = rng.choice(TOPICS)
    ids = [(broker, queue) for broker in rng.sample([BROKER, "b", "é"], rng.randint(1, 2)) for queue in range(6)]
    clients = rng.choices(CLIENTS, k=rng.randint(0, 3)) + rng.sample(CLIENTS, rng.randint(0, 7))
    return {
        "topic": topic,
        "model": rng.choice(["CLUSTERING"] * 9 + ["BROADCASTING"]),
        "strategy": rng.choice(STRATEGIES),
        "server_load_balancer_enable": rng.random() < 0.9,
        "default_mode": rng.choice(["PULL", "POP"]),
        "default_shared": rng.randint(-1, 4),
        "set_mode": [rng.choice(["PULL", "POP"]), rng.randint(-1, 5)] if rng.random() < 0.6 else None,
        "route": [[topic, *mq] for mq in rng.sample(ids, rng.randint(0, 6))] if rng.random() < 0.95 else None,
        "clients": clients if rng.random() < 0.95 else None,
        "asking": [*dict.fromkeys(clients), "stranger", "", "\x1f\t", None],
    }


def model_answers(case: Json) -> Json:
    """Return the model's answer to each client."""
    topic, mode = case["topic"], case["set_mode"]
    broker = QueryAssignmentProcessor(
        BROKER, case["server_load_balancer_enable"], case["default_mode"], case["default_shared"]
    )
    if mode is not None:
        broker.message_request_modes[topic, "G"] = RequestMode(*mode)
    route = None if case["route"] is None else {MessageQueue(*mq) for mq in case["route"]}

    def answer(cid: str | None) -> Json:
        query = QueryAssignment(topic, "G", cid, case["strategy"], case["model"])
        assignments = broker.query_assignment(query, route, case["clients"])
        if assignments is None:
            return None
        queues = [(given.message_queue, given.mode) for given in assignments]
        return sorted([mq.topic, mq.broker, mq.queue_id, mode] for mq, mode in queues)

    return [answer(cid) for cid in case["asking"]]
