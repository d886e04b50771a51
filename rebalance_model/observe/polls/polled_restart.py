"""A broker's restart that only polls show (BROKER_STATUS with another boot time).

It has no members then, until they heartbeat again, while its clients go on as before: who was a member is waited for,
as `hook.restart` does where a hook tells.
"""

from rebalance_model.observe.group import rebalances
from rebalance_model.observe.group.membership import HEARD_FROM_ALL, Before, follow
from rebalance_model.observe.state import BrokerView
from rebalance_model.observe.step import GroupStep


def await_members(step: GroupStep, broker: str, view: BrokerView) -> None:
    """Wait for the members of before, until an answer of the broker must list them again."""
    until = step.now + HEARD_FROM_ALL + step.policy.poll_interval
    view.expected_back_until = dict.fromkeys(view.info.client_ids(), until)
    view.back_at = step.now
    step.schedule_check(until)
    rebalances.open_or_extend(step, "BROKER_RESTARTED", broker, client_id=None)
    rebalances.interrupt_all(step, broker)


def stop_waiting(step: GroupStep) -> None:
    """Drop the members that have not come back by now."""
    now = step.now
    for broker, view in step.state.views.items():
        late = {client_id for client_id, until in view.expected_back_until.items() if until <= now}
        if late:
            before = Before(step.state, broker)
            view.expected_back_until = {
                client_id: until for client_id, until in view.expected_back_until.items() if until > now
            }
            follow(step, before, first_sight=False)
        elif view.expected_back_until:
            step.schedule_check(min(view.expected_back_until.values()))
