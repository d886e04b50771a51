"""Begin a group again after its state was lost, or note that a part beside its state was.

Nothing is concluded here: the group's next check opens the incident (`rules.state_lost`). It is due at once, and is a
timer as any other, so the rows do not depend on where a batch ends.
"""

from rebalance_model.observe.rules.state_lost import CODE
from rebalance_model.observe.state import GroupState, LostPart, LostState, Remains


def begun_again(cluster: str, group: str, remains: Remains, now: int) -> GroupState:
    """Return an empty state, which continues the numbers of the group's rows and its own incident.

    Args:
        cluster: the cluster.
        group: the consumer group.
        remains: what is known of the former state.
        now: the time on the timeline; epoch milliseconds. No group has as many rows as milliseconds have passed since
            1970, so rows are numbered from it where the former number is unknown.
    """
    state = GroupState(cluster, group, rows=max(remains.rows, now), last_seen=now)
    former = {key: one for key, one in remains.incidents.items() if key == one.key and one.causes}
    for key in [key for key in former if key.code == CODE]:
        state.incidents[key] = former.pop(key)
        state.unsettled[key.subject] = 1
    earlier = remains.lost
    if earlier is not None:
        former = earlier.open_incidents | former
    state.lost = LostState("GROUP", earlier.since if earlier else now, now, earlier.count if earlier else 0, "", former)
    return state


def note_lost(state: GroupState, part: LostPart, reason: str, now: int) -> None:
    """Note that a part was lost, and have the group checked at once.

    Args:
        state: the group's state; changed in place.
        part: what was lost.
        reason: why, in words.
        now: the time on the timeline; epoch milliseconds.
    """
    lost = state.lost or LostState(part, now, now, 0, "")
    state.lost = LostState(part, lost.since, now, lost.count + 1, reason, lost.open_incidents)
    state.next_check = now + 1
    if part == "SHARD":  # the state may be of an earlier batch, and its later rows are written
        state.rows = max(state.rows, now)
