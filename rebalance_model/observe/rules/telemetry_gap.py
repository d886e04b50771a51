"""TELEMETRY_GAP: part of the telemetry is missing. What rests on a source that lost something is explained by that.

Of a whole source it is about the cluster. SILENT: the source's ticks have stopped while another's go on; LATE: they
stay far behind; BUFFER_FULL: more events waited for it than can be kept (all three in `engine.ordering`). From its last
tick on nothing rests on it; that is reported when it has lasted for `Policy.source_silent_after`. Clear when it keeps
up again, of a collector also when another one does. On what it would have said nothing opens meanwhile, so it explains
nothing either: what does open rests on the other source.

LOST is about a group: the numbers of a source's events jump; clear when it has told everything once more: a hook when
every member has heartbeaten and every lock was renewed, a collector after two rounds.
"""

from collections.abc import Mapping

from rebalance_model.observe.group.membership import HEARD_FROM_ALL
from rebalance_model.observe.rules.rule import (
    CLEAR,
    Advice,
    BrokerRule,
    ClusterRule,
    Evidence,
    GroupRule,
    Holds,
    Unit,
    Verdict,
)
from rebalance_model.observe.state import Loss, Silence
from rebalance_model.observe.step import ClusterStep, GroupStep

CODE = "TELEMETRY_GAP"
ROUNDS = 2
"""A round of questions that was under way when answers were lost, and a whole one."""
_LOSS: Mapping[str, Unit] = {"lost": "count", "reason": "text", "lost_from": "epoch_ms", "lost_to": "epoch_ms"}
"""Of what a source says of a loss."""


def judge_source(step: ClusterStep, subject: str) -> Verdict:
    """Judge whether a broker's hook, or a collector that no other stands in for, keeps up."""
    state = step.state
    source = state.sources.get(subject, "")
    silence = state.silent.get(source)
    if silence is None:
        return CLEAR
    if source in state.collectors and any(state.keeps_up(other) for other in state.collectors):
        return CLEAR
    return _since(step, silence, "POLL" if source in state.collectors else "HOOK")


def judge_hook(step: GroupStep, broker: str) -> Verdict:
    """Judge whether events of a broker's hook are missing."""
    view = step.state.views.get(broker)
    if view is None or not view.hook_source:
        return CLEAR
    if view.hook_source in step.state.silent:
        return None  # when it is back it says itself what it has lost
    hook = view.hook
    if hook is None or not hook.lost_at:
        return CLEAR
    return _until(step, hook.lost_at + HEARD_FROM_ALL, "HOOK_LOST")


def judge_polls(step: GroupStep, _: str) -> Verdict:
    """Judge whether answers to the collector that is followed are missing."""
    state = step.state
    if state.collector in state.silent:
        return None
    if not state.lost_at:
        return CLEAR
    return _until(step, state.lost_at + ROUNDS * step.policy.poll_interval, "POLL_LOST")


def source_evidence(step: ClusterStep, subject: str) -> Evidence:
    """Since when the source is silent, and what it says itself that it lost."""
    state = step.state
    source = state.sources.get(subject, "")
    found: Evidence = {"source": source, "limit_ms": step.policy.source_silent_after}
    if (silence := state.silent.get(source)) is not None:
        found |= {"silent_since": silence.since}
    return found | _of_loss(state.losses.get(source))


def hook_evidence(step: GroupStep, broker: str) -> Evidence:
    """What the hook itself says that it lost."""
    view = step.state.views.get(broker)
    source = view.hook_source if view is not None else ""
    return {"source": source} | _of_loss(step.state.losses.get(source))


def polls_evidence(step: GroupStep, _: str) -> Evidence:
    """What the collector itself says that it lost."""
    return {"source": step.state.collector} | _of_loss(step.state.losses.get(step.state.collector))


def _since(step: ClusterStep, silence: Silence, kind: str) -> Holds:
    sub_cause = f"{kind}_SILENT" if silence.why == "SILENT" else silence.why
    return Holds("warning", sub_cause, held=step.now - silence.since, stamp=silence.since)


def _until(step: GroupStep, until: int, sub_cause: str) -> Verdict:
    if step.now > until:
        return CLEAR
    step.schedule_check(until + 1)
    return Holds("warning", sub_cause)


def _of_loss(loss: Loss | None) -> Evidence:
    if loss is None:
        return {}
    return {"lost": loss.count, "reason": loss.reason, "lost_from": loss.from_time, "lost_to": loss.to_time}


OF_SOURCE = ClusterRule(
    CODE,
    judge_source,
    source_evidence,
    units={"source": "text", "limit_ms": "ms", "silent_since": "epoch_ms", **_LOSS},
    sub_causes=("HOOK_SILENT", "POLL_SILENT", "LATE", "BUFFER_FULL"),
    open_after=lambda policy: policy.source_silent_after,
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=("BROKER_UNREACHABLE",),
    advice={
        "HOOK_SILENT": Advice(
            what="The broker's hook stopped reporting; checks that need it are suspended.",
            first_step="Look whether the broker runs, and the shipper beside it: `rebalance-watch collect spool`.",
        ),
        "POLL_SILENT": Advice(
            what="The collector stopped reporting; checks that need it are suspended.",
            first_step="Look whether `rebalance-watch collect poll` runs and reaches the log.",
        ),
        "LATE": Advice(
            what="The source is far behind the others and not waited for; checks that need it are suspended.",
            first_step=(
                "Check its host and its way to the log; then `rebalance-watch rebuild` fills the hole in the history."
            ),
        ),
        "BUFFER_FULL": Advice(
            what=(
                "More events waited for a telemetry source that is behind than can be kept in memory, so it is not "
                "waited for."
            ),
            first_step="Check the host of this source and its way to the log.",
        ),
    },
)
OF_HOOK = BrokerRule(
    CODE,
    judge_hook,
    hook_evidence,
    units={"source": "text", **_LOSS},
    sub_causes=("HOOK_LOST",),
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=("BROKER_UNREACHABLE",),
    advice={
        "HOOK_LOST": Advice(
            what="Events of the broker's hook are missing: what rests on them may be wrong for half a minute.",
            first_step=(
                "Look for a full disk or a full spool on the broker's host; the evidence has the hook's own reason."
            ),
        ),
    },
)
OF_POLLS = GroupRule(
    CODE,
    judge_polls,
    polls_evidence,
    units={"source": "text", **_LOSS},
    sub_causes=("POLL_LOST",),
    clear_after=lambda policy: policy.clear_after,
    advice={
        "POLL_LOST": Advice(
            what="Answers to the collector are missing: what rests on them may be late by a round.",
            first_step="Look into the collector's own log for what it could not send.",
        ),
    },
)
