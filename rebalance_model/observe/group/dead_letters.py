"""Return which brokers have got dead letters of a group, in the present period of growth.

Offsets accumulate: an answer that shows no more than an earlier one proves that nothing was added in between, however
long the interval. So a period ends with an answer, never by time alone.
"""

from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import DeadLetters, GroupState


def added(state: GroupState, policy: Policy) -> dict[str, DeadLetters]:
    """Return the dead letters of each broker that got some in the present period; empty if there is none.

    The period is over when every one of these brokers has answered, more than `dead_letters_clear_after` after the last
    addition to any of them, that it has no more.
    """
    found = {broker: one for broker, one in state.dead_letters.items() if one.added}
    if not found:
        return found
    last_added_at = max(one.last_added_at for one in found.values())
    confirmed = min(one.time for one in found.values())
    return {} if confirmed - last_added_at > policy.dead_letters_clear_after else found
