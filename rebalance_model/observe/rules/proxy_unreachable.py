"""PROXY_UNREACHABLE: a proxy answers no request of any collector; it explains incidents of the groups behind it.

Judged for the cluster, as BROKER_UNREACHABLE is: from PROXY_STATUS, which a collector sends once a round. A collector
of release 0.1 sends none: then from what it reports of each group (PROXY_CONNECTION), in the one shard that writes the
rows of the cluster. It takes two consecutive rounds without any answer. Clear at the first answer; unknown while no
collector keeps up. When it answers again, its lists show which of its clients have come back: a group without any has
NO_ACTIVE_CLIENTS_WITH_LAG of its own. A proxy that no collector asks any more is forgotten.
"""

from rebalance_model.observe.group.proxied import PROXIED_FORGOTTEN
from rebalance_model.observe.rules.rule import CLEAR, Advice, ClusterRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import UNANSWERED_POLLS, ClusterProxy, Reach
from rebalance_model.observe.step import PROXY_UNREACHABLE, ClusterStep

PROXIES_MAX = 256
"""Proxies that are kept of a cluster."""


def noted(proxy: ClusterProxy, collector: str, at: tuple[int, int], interval: int, *, is_silence: bool) -> None:
    """Note what a collector reports of a proxy.

    Args:
        proxy: what is known of it, which changes in place.
        collector: the source that reports.
        at: when the request was sent, and when it was reported.
        interval: how often proxies are asked, milliseconds: requests of one round count once.
        is_silence: whether nothing answered.
    """
    asked, now = at
    reach = proxy.reached_by.setdefault(collector, Reach())
    if not is_silence:
        proxy.reached_by[collector] = Reach(reported_at=now)
        return
    reach.reported_at = now
    if not reach.unanswered:
        reach.unanswered, reach.asked_in_vain, reach.first_at = 1, asked, now
    elif asked >= reach.asked_in_vain + reach.unanswered * interval // 2:
        reach.unanswered += 1
        reach.second_at = reach.second_at or now


def judge(step: ClusterStep, proxy: str) -> Verdict:
    """Check the unanswered rounds."""
    view = step.state.proxies.get(proxy)
    if view is None:
        return CLEAR
    kept_up = [reach for collector, reach in view.reached_by.items() if step.state.keeps_up(collector)]
    reaches = [reach for reach in kept_up if step.now - reach.reported_at <= PROXIED_FORGOTTEN]
    if not reaches:
        return CLEAR if kept_up else None
    step.schedule_check(max(reach.reported_at for reach in reaches) + PROXIED_FORGOTTEN + 1)
    if any(not reach.unanswered for reach in reaches):
        return CLEAR
    if any(reach.unanswered < UNANSWERED_POLLS for reach in reaches):
        return None
    return Holds("critical", stamp=max(reach.second_at for reach in reaches))


def evidence(step: ClusterStep, proxy: str) -> Evidence:
    """Return for how long the proxy has been unreachable."""
    view = step.state.proxies.get(proxy)
    reaches = [reach for reach in view.reached_by.values() if reach.unanswered] if view is not None else []
    return {
        "unanswered": max((reach.unanswered for reach in reaches), default=0),
        "limit": UNANSWERED_POLLS,
        "silent_ms": step.now - min(reach.asked_in_vain for reach in reaches) if reaches else 0,
    }


RULE = ClusterRule(
    PROXY_UNREACHABLE,
    judge,
    evidence,
    title="Proxy {subject} does not answer",
    units={"unanswered": "count", "limit": "count", "silent_ms": "ms"},
    needs=("POLLS",),
    clear_after=lambda policy: policy.clear_after,
    advice={
        "": Advice(
            what=(
                "The proxy is unreachable: its clients consume nothing. When it is back most connect again by "
                "themselves; some libraries do not, and their groups stay without clients."
            ),
            first_step=(
                "Check that the proxy's process is running, and that the collector's host can reach its remoting port. "
                "Once it is back, restart the clients that it does not list again (`group show`)."
            ),
        ),
    },
)
