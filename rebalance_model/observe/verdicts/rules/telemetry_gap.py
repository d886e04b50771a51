"""TELEMETRY_GAP: part of the telemetry is missing. What rests on a source that lost something is explained by that.

SILENT: the source's ticks have stopped while another's go on; LATE: they stay far behind; BUFFER_FULL: more events
waited for it than can be kept (all three in `engine.ordering`). From its last tick on nothing rests on it; that is
told when it has lasted for `Policy.source_silent_after`. Clear when it keeps up again. On what it would have said
nothing opens meanwhile, so it explains nothing either: what does open rests on the other source.
LOST: its numbers jump; clear when it has told everything once more: a hook when every member has heartbeaten and every
lock was renewed, a collector after two rounds.
"""

from rebalance_model.observe.hooks.hook import HEARD_FROM_ALL
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import Silence
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict

ROUNDS = 2
"""A round of questions that was under way when answers were lost, and a whole one."""


def judge_hook(turn: Turn, broker: str) -> Verdict:
    """Of a broker's hook."""
    view = turn.state.views.get(broker)
    if view is None or not view.told_by:
        return CLEAR
    if (silence := turn.state.silent.get(view.told_by)) is not None:
        return _since(turn, silence, "HOOK")
    hook = view.hook
    if hook is None or not hook.lost_at:
        return CLEAR
    return _until(turn, hook.lost_at + HEARD_FROM_ALL, "HOOK_LOST")


def judge_polls(turn: Turn, _: str) -> Verdict:
    """Of the collector that is followed, or was."""
    state = turn.state
    if (silence := state.silent.get(state.collector)) is not None:
        return _since(turn, silence, "POLL")
    if not state.lost_at:
        return CLEAR
    return _until(turn, state.lost_at + ROUNDS * turn.policy.poll_interval, "POLL_LOST")


def hook_evidence(turn: Turn, broker: str) -> Evidence:
    """What the hook itself says that it lost, and since when it is silent."""
    view = turn.state.views.get(broker)
    return _evidence(turn, view.told_by if view is not None else "")


def polls_evidence(turn: Turn, _: str) -> Evidence:
    """What the collector itself says that it lost, and since when it is silent."""
    return _evidence(turn, turn.state.collector)


def _since(turn: Turn, silence: Silence, kind: str) -> Holds:
    sub_cause = f"{kind}_SILENT" if silence.why == "SILENT" else silence.why
    return Holds("warning", sub_cause, held=turn.now - silence.since)


def _until(turn: Turn, until: int, sub_cause: str) -> Verdict:
    if turn.now > until:
        return CLEAR
    turn.schedule_check(until + 1)
    return Holds("warning", sub_cause, held=turn.policy.source_silent_after)  # its numbers say so: told at once


def _evidence(turn: Turn, source: str) -> Evidence:
    silence, loss = turn.state.silent.get(source), turn.state.losses.get(source)
    found: Evidence = {"source": source, "limit_ms": turn.policy.source_silent_after}
    if silence is not None:
        found |= {"silent_since": silence.since}
    if loss is not None:
        found |= {"lost": loss.count, "reason": loss.reason, "lost_from": loss.from_time, "lost_to": loss.to_time}
    return found


def _settled(_: Policy) -> int:
    """That something is lost shows with the next event of a source, not with its first tick."""
    return 1_000


def _lasting(policy: Policy) -> int:
    return policy.source_silent_after


OF_HOOK = Rule(
    "TELEMETRY_GAP", judge_hook, hook_evidence, _lasting, clear_after=_settled, absorbed_by=("BROKER_UNREACHABLE",)
)
OF_POLLS = Rule("TELEMETRY_GAP", judge_polls, polls_evidence, _lasting, clear_after=_settled)
