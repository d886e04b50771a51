"""PROXY_CLIENT_GONE: a client of a proxy sends no heartbeats any more, and did not leave.

A proxy in cluster mode copies each heartbeat of its clients, one every 10 s, to the other proxies, by one broker after
the other; with a hook at every broker none is missed. A client that ends tells its proxy, which copies that, too. One
that was killed, or lost its network, does not: its proxy keeps and renews its messages until it drops the client after
130 s, and messages in order wait for so long. Clear at a heartbeat, at its end, or when the proxy has dropped it.
"""

from rebalance_model.observe.rules import concerns
from rebalance_model.observe.rules.rule import CLEAR, OF_BROKER, Advice, ClientRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import IncidentKey
from rebalance_model.observe.state.popped_queues import popped_topic
from rebalance_model.observe.step import GroupStep

CODE = "PROXY_CLIENT_GONE"


def judge(step: GroupStep, client_id: str) -> Verdict:
    """Compare the age of its last heartbeat at any broker."""
    client = step.facts.pops.proxied.get(client_id)
    if client is None:
        return CLEAR
    if not step.cluster.has_all_hooks:
        return None
    limit = step.policy.proxy_client_silent_after
    last = max(client.last, step.facts.pops.covered_since)
    if step.now - last <= limit:
        step.schedule_check(last + limit + 1)
        return CLEAR
    return Holds("warning", client_id=client_id)


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """Return the client's proxy and language, and the age of its last heartbeat.

    And a popped topic, without which `mqadmin consumerProgress` fails for a group that has no retry topic.
    """
    pops = step.facts.pops
    client = pops.proxied.get(client_id)
    if client is None:
        return {"registered": False}
    return {
        "topic": min((popped_topic(step.state.group, topic) for _, topic in pops.queues.topics), default=None),
        "proxy": client.proxy or None,
        "language": client.language or None,
        "heartbeat_age_ms": step.now - client.last,
        "limit_ms": step.policy.proxy_client_silent_after,
    }


def explains(step: GroupStep) -> tuple[IncidentKey, ...]:
    """Return the group's open incidents of this rule, for `Holds.explained_by`."""
    return tuple(key for key in step.state.incidents if key.code == CODE)


RULE = ClientRule(
    CODE,
    judge,
    evidence,
    title="{subject} is gone, and its proxy keeps its messages",
    units={
        "registered": "flag",
        "topic": "text",
        "proxy": "text",
        "language": "text",
        "heartbeat_age_ms": "ms",
        "limit_ms": "ms",
    },
    concerns=concerns.PROXIED,
    needs=("POPS",),
    absorbed_by=(*OF_BROKER, "PROXY_UNREACHABLE", "TELEMETRY_GAP"),
    advice={
        "": Advice(
            what=(
                "The client's heartbeats have ended and it did not sign off: it was killed or cut off. Its proxy keeps "
                "its messages until it drops the client, up to 130 s."
            ),
            first_step="Check whether its process runs and reaches the proxy; its messages come back by themselves.",
            inspect=("PROGRESS",),
        ),
    },
)
