"""CLOCK_SKEW: a client's clock is off the collector's. The one rule that compares clocks; see `clock_skew`.

What it costs the client: the broker keeps its older subscription, where it is slow, and its stamps mislead whoever
reads them beside another's.
"""

from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdict import CLEAR, Evidence, Holds, Rule, Verdict


def judge(turn: Turn, client_id: str) -> Verdict:
    """By the bounds that its answers have given."""
    client = turn.state.clients.get(client_id)
    if client is None:
        return CLEAR
    if client.skew is None:
        return None
    (low, high), limit = client.skew, turn.policy.clock_skew
    if low > limit:
        return Holds("info", "AHEAD", client_id)
    if high < -limit:
        return Holds("info", "BEHIND", client_id)
    return CLEAR if -limit <= low and high <= limit else None


def evidence(turn: Turn, client_id: str) -> Evidence:
    """The bounds."""
    client = turn.state.clients.get(client_id)
    low, high = client.skew if client is not None and client.skew is not None else (None, None)
    return {"ahead_ms_min": low, "ahead_ms_max": high, "limit_ms": turn.policy.clock_skew}


RULE = Rule("CLOCK_SKEW", judge, evidence, open_after=lambda policy: policy.clock_skew_after)
