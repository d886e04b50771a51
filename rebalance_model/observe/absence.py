"""A source that stood: its clock has gone on without a word of it, and without a tick.

A broker that is stopped, or whose machine is, hears nobody for as long, and afterwards judges by its clock as if it
had. What did not come meanwhile proves nothing: the ages of what would have come by this source begin anew
(`covered_since` of its hook), and what was pending by its clock has waited for so much less.
"""

from rebalance_model.observe.state import GroupState


def note(state: GroupState, clock: str, stood: int, now: int) -> None:
    """The source has stood for so many milliseconds until ``now``, by its own clock.

    What is due in that time is looked at when it is over.
    """
    lived_by = clock == state.clock
    for view in state.views.values():
        hook = view.hook
        if hook is not None and hook.clock == clock:
            hook.covered_since = now
        elif hook is not None and lived_by:
            hook.heard_at += stood  # the group's clock has stood, not this hook
    if state.dues.get(clock, now) < now:
        state.dues[clock] = now
    for pending in state.pending.values() if lived_by else ():
        if pending.frozen_at is None:
            pending.since += stood
