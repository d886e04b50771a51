"""CLIENT_UNRESPONSIVE: a member has not answered two questions in a row, though its broker answers.

Frozen, starved of CPU, or cut off from its broker: what it last said of its queues is all that is known of them. Of a
client that stands on two channels it is not known: the broker passes the question on by one of them, which may be dead
while the client is well on the other (seen for 130 s after a restart of a real broker). Clients behind a proxy answer
no such question at all.
"""

from rebalance_model.observe.group.expectation import division
from rebalance_model.observe.rules.rule import CLEAR, Advice, ClientRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import UNANSWERED_POLLS
from rebalance_model.observe.step import GroupStep


def judge(step: GroupStep, client_id: str) -> Verdict:
    """By the questions in vain; one may be a long garbage collection."""
    client = step.state.clients.get(client_id)
    if client is None or not client.unanswered or division(step.state) == "PROXIED":
        return CLEAR
    if not client.silent or any(view.info.client_ids().count(client_id) > 1 for view in step.state.views.values()):
        return None
    return Holds("warning", client_id=client_id)


def evidence(step: GroupStep, client_id: str) -> Evidence:
    """For how long, and what is at stake."""
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
    units={
        "member": "flag",
        "unanswered": "count",
        "limit": "count",
        "silent_ms": "ms",
        "queues": "count",
        "answered": "epoch_ms",
    },
    needs=("POLLS", "ANSWERS"),
    advice={
        "": Advice(
            what=(
                "The member answers nothing, though its broker does; its queues stay with it until the broker drops it."
            ),
            first_step="Look whether its process is paused, starved or cut off; end it to free its queues at once.",
        ),
    },
)
