"""BROKER_NAME_SHARED: two brokers register under one name, and requests reach one or the other.

A name server keeps for each name the address that registered last. Where a second cluster uses the same name servers
and names, as a test cluster does that was copied from production, clients, tools and the collector reach either broker:
other members, other offsets. A restart shows a boot time that was never seen; one that comes back after another shows
two processes. It takes two such returns within `WITHIN`: a failover to a slave and back is one. It explains what
follows for groups with queues there. Clear when none has come for as long. By hooks alone it is not seen, as each hook
is in its own broker.

The broker that a collector knew first is the group's own; while it holds, answers of the other one do not enter the
groups (`is_foreign`). Which one answers is known by the last BROKER_STATUS: what the collector asked for after the name
servers changed the address in the same round may yet be the other one's.
"""

from rebalance_model.observe.rules.rule import CLEAR, Advice, ClusterRule, Evidence, Holds, Verdict
from rebalance_model.observe.state import ClusterBroker
from rebalance_model.observe.step import BROKER_NAME_SHARED, ClusterStep

WITHIN = 600_000
"""Returns of a former boot time count for so long; milliseconds."""
RETURNS = 2
"""Number of returns that are needed."""
BOOTS_MAX = 8
"""Boot times that are kept of a broker's name."""


def note(view: ClusterBroker, boot_time: int, now: int) -> None:
    """Note the boot time of a broker's answer."""
    if view.boots and view.boots[-1] == boot_time:
        return
    if boot_time in view.boots:
        view.boots.remove(boot_time)
        view.boot_returns = [*(at for at in view.boot_returns[-RETURNS:] if now - at <= WITHIN), now]
        if boot_time not in view.foreign_boots:
            view.foreign_boots = list(view.boots)
    view.boots = [*view.boots, boot_time][-BOOTS_MAX:]


def judge(step: ClusterStep, broker: str) -> Verdict:
    """Check how often a former boot time came back."""
    view = step.state.brokers.get(broker)
    if view is None or not view.boot_returns or step.now - view.boot_returns[-1] > WITHIN:
        return CLEAR
    step.schedule_check(view.boot_returns[-1] + WITHIN + 1)
    return Holds("critical") if is_shared(view, step.now) else None


def is_shared(view: ClusterBroker, now: int) -> bool:
    """Return whether two brokers have the name."""
    return sum(now - at <= WITHIN for at in view.boot_returns) >= RETURNS


def is_foreign(view: ClusterBroker | None, now: int) -> bool:
    """Return whether another broker answers by the name now, so that its answers are of other groups."""
    if view is None or not view.foreign_boots:
        return False  # the usual case
    return view.boots[-1] in view.foreign_boots and is_shared(view, now)


def evidence(step: ClusterStep, broker: str) -> Evidence:
    """Return the two boot times, and how often they alternated."""
    view = step.state.brokers.get(broker)
    if view is None or len(view.boots) < RETURNS:
        return {}
    other, last = view.boots[-2:]
    recent = sum(step.now - at <= WITHIN for at in view.boot_returns)
    return {"booted_at": last, "other_booted_at": other, "returns": recent, "returns_needed": RETURNS}


RULE = ClusterRule(
    BROKER_NAME_SHARED,
    judge,
    evidence,
    title="Two brokers have the name {subject}",
    units={"booted_at": "epoch_ms", "other_booted_at": "epoch_ms", "returns": "count", "returns_needed": "count"},
    needs=("POLLS",),
    advice={
        "": Advice(
            what=(
                "Two brokers register under this name at the name servers: clients and tools reach one or the other, "
                "with other members and offsets. Its boot time alternates between two values."
            ),
            first_step=(
                "Compare the broker's address at the name servers over a minute (mqadmin clusterList): give one of the "
                "two clusters its own name servers, or other names."
            ),
            inspect=("BROKERS",),
        ),
    },
)
