"""BROKER_UNREACHABLE: a broker answers no request of any collector; it explains incidents that depend on the broker.

Judged for the cluster, from broadcasts alone (BROKER_STATUS). It takes two consecutive requests without any answer
(an error code of the broker is an answer), or one if the ticks of its hook have stopped as well. Holds while no
collector that keeps up reaches the broker; clear at the first answer. Unknown while no collector keeps up. A broker of
several replicas is reached while its master answers, or the slave that acts as master; a mere slave's answers do not
count. BROKER_NAME_SHARED explains it.

A broker that was taken out of the cluster never answers again. Telemetry does not tell it from one that is down: a
name server forgets a broker that was stopped at once, and one that crashed after 120 s (RouteInfoManager), and then no
route names it any more. So only time does: a broker is gone when it has neither answered nor been listed for
`broker_gone_after`, nor has its hook reported. A person ends the incident sooner (`incident close`).
"""

from rebalance_model.observe.rules.rule import CLEAR, Advice, ClusterRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import UNANSWERED_POLLS, ClusterBroker, ClusterState, IncidentKey, Reach
from rebalance_model.observe.step import BROKER_NAME_SHARED, ClusterStep

GONE = "no name server lists the broker any more"
"""Why the incidents of a broker that is gone are resolved."""


def judge(step: ClusterStep, broker: str) -> Verdict:
    """Check the unanswered requests."""
    view = step.state.brokers.get(broker)
    if view is None or not view.reached_by:
        return CLEAR
    reaches = _reaches(step.state, view)
    if not reaches:
        return None
    if any(not reach.unanswered for reach in reaches):
        return CLEAR
    stopped_at = hook_stopped_at(step.state, view)
    decided = [_decided_at(reach, stopped_at) for reach in reaches]
    if None in decided:
        return None
    stamp = max(at for at in decided if at is not None)
    gone_at = (_away_since(reaches) or 0) + step.policy.broker_gone_after
    if gone_at > step.now:  # else its hook still reports
        step.schedule_check(gone_at)
    sub_cause = "" if stopped_at is None else "HOOK_SILENT"
    shared = IncidentKey(BROKER_NAME_SHARED, broker)  # the other one may have stopped, whose address is still listed
    return Holds("critical", sub_cause, stamp=stamp, explained_by=(shared,))


def is_gone(step: ClusterStep, broker: str) -> bool:
    """Return whether the cluster no longer has the broker: it has been away for long by each collector."""
    view = step.state.brokers.get(broker)
    if view is None or step.state.is_watched(broker):
        return False
    since = _away_since(_reaches(step.state, view))
    return since is not None and step.now - since >= step.policy.broker_gone_after


def _away_since(reaches: list[Reach]) -> int | None:
    """Return since when no collector has reached the broker or found it listed; None: one has, or it is unknown.

    A collector that has just started reports only brokers that it has found listed.
    """
    away = [reach.unlisted_since or reach.reported_at for reach in reaches]
    return max(away) if away and min(away) > 0 else None


def evidence(step: ClusterStep, broker: str) -> Evidence:
    """Return for how long the broker has been unreachable."""
    view = step.state.brokers.get(broker)
    if view is None:
        return {}
    reaches = [reach for reach in _reaches(step.state, view) if reach.unanswered]
    return {
        "unanswered": max((reach.unanswered for reach in reaches), default=0),
        "limit": UNANSWERED_POLLS,
        "silent_ms": step.now - min(reach.asked_in_vain for reach in reaches) if reaches else 0,
        "hook_silent": hook_stopped_at(step.state, view) is not None if view.hook else None,
        "unlisted_since": min((reach.unlisted_since for reach in reaches), default=0) or None,
    }


def hook_stopped_at(state: ClusterState, view: ClusterBroker) -> int | None:
    """Return when the ticks of the broker's hook stopped; None if they continue, or the broker has no hook."""
    if view.hook in state.silent:
        return state.silent[view.hook].since
    return state.ended.get(view.hook)


def _reaches(state: ClusterState, view: ClusterBroker) -> list[Reach]:
    """Return the reachability of the broker for each collector that keeps up."""
    return [reach for collector, reach in view.reached_by.items() if state.keeps_up(collector)]


def _decided_at(reach: Reach, hook_stopped_at: int | None) -> int | None:
    """Return when a collector was found not to reach the broker; None if it reaches it or that is undecided."""
    both = max(reach.first_at, hook_stopped_at) if hook_stopped_at is not None else None
    second = reach.second_at if reach.unanswered >= UNANSWERED_POLLS else None
    return min((at for at in (both, second) if at is not None), default=None)


RULE = ClusterRule(
    "BROKER_UNREACHABLE",
    judge,
    evidence,
    title="Broker {subject} does not answer",
    units={
        "unanswered": "count",
        "limit": "count",
        "silent_ms": "ms",
        "hook_silent": "flag",
        "unlisted_since": "epoch_ms",
    },
    sub_causes=("", "HOOK_SILENT"),
    needs=("POLLS",),
    clear_after=lambda policy: policy.clear_after,
    advice={
        "": Advice(
            what=(
                "The broker is unreachable; its queues are not consumed and their state is unknown. With a slave that "
                "still answers: nothing is sent to them, no lock is granted, and only concurrent groups read on."
            ),
            first_step="Check that the process is running, and that the collector's host can reach its port.",
            inspect=("BROKERS",),
        ),
        "HOOK_SILENT": Advice(
            short="it is most likely down",
            what="The broker is unreachable and its hook stopped reporting: it is most likely down.",
            first_step="Check that the process is running; its queues are consumed again when it is back.",
            inspect=("BROKERS",),
        ),
    },
)
