"""Handle a broker's restart that only polls show (BROKER_STATUS with another boot time).

The broker has no members until they send their next heartbeat, while its clients continue: the former members are
expected back, as `hook.on_restart` does where a hook reports.
"""

from rebalance_model.observe.group import rebalances
from rebalance_model.observe.group.membership import HEARD_FROM_ALL, Before, follow
from rebalance_model.observe.state import BrokerView
from rebalance_model.observe.step import GroupStep


def await_members(step: GroupStep, broker: str, view: BrokerView) -> None:
    """Expect the former members back until an answer of the broker must list them again."""
    until = step.now + HEARD_FROM_ALL + step.policy.poll_interval
    view.expected_back_until = dict.fromkeys((*view.expected_back_until, *view.info.client_ids()), until)
    view.back_at = step.now
    step.schedule_check(until)
    rebalances.open_or_extend(step, "BROKER_RESTARTED", broker, client_id=None)
    rebalances.interrupt_all(step, broker)


def stop_waiting(step: GroupStep) -> None:
    """Remove the members that have not returned in time."""
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
