"""CLIENT_UNRESPONSIVE: a member has not answered two questions in a row, though its broker answers.

Frozen, starved of CPU, or cut off from its broker: what it last said of its queues is all that is known of them. Of a
client that stands on two channels it is not known: the broker passes the question on by one of them, which may be dead
while the client is well on the other (seen for 130 s after a restart of a real broker). Clients behind a proxy answer
no such question at all.
"""

from rebalance_model.observe.group.expectation import division
from rebalance_model.observe.state import UNANSWERED_POLLS
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, client_id: str) -> Verdict:
    """By the questions in vain; one may be a long garbage collection."""
    client = turn.state.clients.get(client_id)
    if client is None or not client.unanswered or division(turn.state) == "PROXIED":
        return CLEAR
    if not client.silent or any(view.info.client_ids().count(client_id) > 1 for view in turn.state.views.values()):
        return None
    return Holds("warning", client_id=client_id)


def evidence(turn: Turn, client_id: str) -> Evidence:
    """For how long, and what is at stake."""
    client = turn.state.clients.get(client_id)
    if client is None:
        return {"member": False}
    return {
        "unanswered": client.unanswered,
        "limit": UNANSWERED_POLLS,
        "silent_ms": turn.now - client.unanswered_since if client.unanswered else 0,
        "queues": turn.state.shares.get(client_id, 0),
        "answered": client.answered,
    }


RULE = Rule("CLIENT_UNRESPONSIVE", judge, evidence)
