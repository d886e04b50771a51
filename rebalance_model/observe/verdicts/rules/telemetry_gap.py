"""TELEMETRY_GAP: part of the telemetry is missing. What rests on a source that lost something is explained by that.

Of a whole source it is about the cluster. SILENT: the source's ticks have stopped while another's go on; LATE: they
stay far behind; BUFFER_FULL: more events waited for it than can be kept (all three in `engine.ordering`). From its last
tick on nothing rests on it; that is reported when it has lasted for `Policy.source_silent_after`. Clear when it keeps
up again, of a collector also when another one does. On what it would have said nothing opens meanwhile, so it explains
nothing either: what does open rests on the other source.

LOST is about a group: the numbers of a source's events jump; clear when it has told everything once more: a hook when
every member has heartbeaten and every lock was renewed, a collector after two rounds.
"""

from rebalance_model.observe.hooks.hook import HEARD_FROM_ALL
from rebalance_model.observe.state import Loss, Silence
from rebalance_model.observe.turn import ClusterStep, Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict

ROUNDS = 2
"""A round of questions that was under way when answers were lost, and a whole one."""


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


def judge_hook(turn: Turn, broker: str) -> Verdict:
    """Judge whether events of a broker's hook are missing."""
    view = turn.state.views.get(broker)
    if view is None or not view.told_by:
        return CLEAR
    if view.told_by in turn.state.silent:
        return None  # when it is back it says itself what it has lost
    hook = view.hook
    if hook is None or not hook.lost_at:
        return CLEAR
    return _until(turn, hook.lost_at + HEARD_FROM_ALL, "HOOK_LOST")


def judge_polls(turn: Turn, _: str) -> Verdict:
    """Judge whether answers to the collector that is followed are missing."""
    state = turn.state
    if state.collector in state.silent:
        return None
    if not state.lost_at:
        return CLEAR
    return _until(turn, state.lost_at + ROUNDS * turn.policy.poll_interval, "POLL_LOST")


def source_evidence(step: ClusterStep, subject: str) -> Evidence:
    """Since when the source is silent, and what it says itself that it lost."""
    state = step.state
    source = state.sources.get(subject, "")
    found: Evidence = {"source": source, "limit_ms": step.policy.source_silent_after}
    if (silence := state.silent.get(source)) is not None:
        found |= {"silent_since": silence.since}
    return found | _of_loss(state.losses.get(source))


def hook_evidence(turn: Turn, broker: str) -> Evidence:
    """What the hook itself says that it lost."""
    view = turn.state.views.get(broker)
    source = view.told_by if view is not None else ""
    return {"source": source} | _of_loss(turn.state.losses.get(source))


def polls_evidence(turn: Turn, _: str) -> Evidence:
    """What the collector itself says that it lost."""
    return {"source": turn.state.collector} | _of_loss(turn.state.losses.get(turn.state.collector))


def _since(step: ClusterStep, silence: Silence, kind: str) -> Holds:
    sub_cause = f"{kind}_SILENT" if silence.why == "SILENT" else silence.why
    return Holds("warning", sub_cause, held=step.now - silence.since, stamp=silence.since)


def _until(turn: Turn, until: int, sub_cause: str) -> Verdict:
    if turn.now > until:
        return CLEAR
    turn.schedule_check(until + 1)
    return Holds("warning", sub_cause)


def _of_loss(loss: Loss | None) -> Evidence:
    if loss is None:
        return {}
    return {"lost": loss.count, "reason": loss.reason, "lost_from": loss.from_time, "lost_to": loss.to_time}


OF_SOURCE = Rule(
    "TELEMETRY_GAP",
    judge_source,
    source_evidence,
    open_after=lambda policy: policy.source_silent_after,
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=("BROKER_UNREACHABLE",),
)
OF_HOOK = Rule(
    "TELEMETRY_GAP",
    judge_hook,
    hook_evidence,
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=("BROKER_UNREACHABLE",),
)
OF_POLLS = Rule("TELEMETRY_GAP", judge_polls, polls_evidence, clear_after=lambda policy: policy.clear_after)
