"""CLIENT_UNRESPONSIVE: a member has not answered two consecutive requests, though its broker answers.

It is frozen, starved of CPU, or cut off from its broker: its last answer is all that is known of its queues. Unknown
for a client with two channels: the broker forwards the request on one of them, which may be dead while the client
works on the other (observed for 130 s after a restart of a real broker). Clients behind a proxy never answer this
request. A client that answers "not supported", or has never answered but works, is alive and does not
report its queues (`polls.answers`): coverage says so.
"""

from rebalance_model.observe.group.ghost_connections import is_listed_twice
from rebalance_model.observe.rules import concerns, unresponsive
from rebalance_model.observe.rules.rule import CLEAR, Advice, ClientRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import UNANSWERED_POLLS
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, client_id: str) -> Verdict:
    """Count the unanswered requests; a single one may be a long garbage collection."""
    client = step.state.clients.get(client_id)
    if client is None or not client.unanswered or step.facts.division == "PROXIED":
        return CLEAR
    if not client.silent or is_listed_twice(step.state, client_id):
        return None
    return Holds(unresponsive.severity_of(step, RULE.code, client_id), client_id=client_id)


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """Return for how long the client has not answered, and how many queues it has."""
    client = step.state.clients.get(client_id)
    if client is None:
        return {"member": False}
    return {
        "unanswered": client.unanswered,
        "limit": UNANSWERED_POLLS,
        "silent_ms": step.now - client.unanswered_since if client.unanswered else 0,
        "queues": step.state.shares.get(client_id, 0),
        "answered": client.answered,
    }


RULE = ClientRule(
    "CLIENT_UNRESPONSIVE",
    judge,
    evidence,
    title="{subject} does not answer",
    units={
        "member": "flag",
        "unanswered": "count",
        "limit": "count",
        "silent_ms": "ms",
        "queues": "count",
        "answered": "epoch_ms",
    },
    concerns=concerns.SILENT,
    needs=("POLLS", "ANSWERS"),
    advice={
        "": Advice(
            what=(
                "The member answers no request, though its broker does; it keeps its queues until the broker drops it."
            ),
            first_step="Check whether its process is paused, starved or cut off; end it to free its queues at once.",
            inspect=("MEMBERS",),
        ),
    },
)
