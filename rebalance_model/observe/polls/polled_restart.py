"""A broker's restart that only polls show (BROKER_STATUS with another boot time).

It has no members then, until they heartbeat again, while its clients go on as before: who was a member is waited for,
as `hook.restart` does where a hook tells.
"""

from rebalance_model.observe.group import rebalances
from rebalance_model.observe.group.membership import Before, follow
from rebalance_model.observe.hooks.hook import HEARD_FROM_ALL
from rebalance_model.observe.state import BrokerView
from rebalance_model.observe.turn import Turn


def await_members(turn: Turn, broker: str, view: BrokerView) -> None:
    """Wait for the members of before, until an answer of the broker must list them again."""
    until = turn.now + HEARD_FROM_ALL + turn.policy.poll_interval
    view.awaited = dict.fromkeys(view.info.client_ids(), until)
    view.back_at = turn.now
    turn.schedule_check(until)
    rebalances.open_or_extend(turn, "BROKER_RESTARTED", broker, client_id=None)
    rebalances.interrupt_all(turn, broker)


def stop_waiting(turn: Turn) -> None:
    """Drop the members that have not come back by now."""
    now = turn.now
    for broker, view in turn.state.views.items():
        late = {client_id for client_id, until in view.awaited.items() if until <= now}
        if late:
            before = Before(turn.state, broker)
            view.awaited = {client_id: until for client_id, until in view.awaited.items() if until > now}
            follow(turn, before, first_sight=False)
        elif view.awaited:
            turn.schedule_check(min(view.awaited.values()))
