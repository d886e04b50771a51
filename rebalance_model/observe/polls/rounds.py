"""Judge what only several answers show: a round of all members, and a broker's restart.

Each client's queues are known at another instant. Only a round, in which every member has been asked again, shows that
a queue has no owner or the wrong one; then the affected queues are judged.

A broker that polls show to have restarted (BROKER_STATUS with another boot time) has no members until they send their
next heartbeat, while its clients continue: the former members are expected back, as `hook.on_restart` does where a hook
reports.
"""

from rebalance_model.observe.group import rebalances
from rebalance_model.observe.group.expectation import infer
from rebalance_model.observe.group.membership import HEARD_FROM_ALL, Before, follow, recount_round
from rebalance_model.observe.polls.routes import note_beyond
from rebalance_model.observe.state import BrokerView, Unassigned
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


def note(step: GroupStep, asked: int, asked_before: int) -> None:
    """Record when a client has been asked, with an answer or without, and when before; by the collector's clock."""
    rounds = step.state.rounds
    if asked_before <= rounds.after < asked:
        rounds.asked_count += 1
        if rounds.asked_count >= len(step.state.members) > 0:
            _end(step)


def _end(step: GroupStep) -> None:
    state = step.state
    rounds = state.rounds
    recount_round(state)
    if rounds.asked_count < len(state.members):
        return  # one of the counted clients is no member
    clients = [state.clients[member] for member in state.members]
    known_at = min([client.asked_at_answer for client in clients])
    rounds.known_at = known_at if known_at > rounds.after else 0
    rounds.after = max([client.asked for client in clients])
    rounds.asked_count = 0
    if not step.facts.broadcasts:
        note_beyond(step)
        _compare_answers(step)


def _compare_answers(step: GroupStep) -> None:
    state = step.state
    astray = []
    for mq, queue in state.queues.items():
        if queue.owner is None:
            wrong = queue.in_route
            if wrong and queue.unassigned is None:
                queue.unassigned = Unassigned(step.now, lag=queue.lag, expected_owner=queue.expected_owner)
        else:
            wrong = queue.rival is not None or (
                queue.expected_owner is not None and queue.expected_owner != queue.owner
            )
        if wrong and not mq.is_retry:
            astray.append(mq)
    if astray:
        step.queues_to_judge |= dict.fromkeys(astray)
        step.changed("ROUND")
    else:
        for route in state.routes.values():
            if route.former:
                step.changed("ROUTES")
            route.former = ()
    if state.rounds.known_at:
        infer(step, astray)
