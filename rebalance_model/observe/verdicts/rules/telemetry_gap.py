"""TELEMETRY_GAP: part of the telemetry is missing. What rests on a source that lost something is explained by that.

SILENT: the source's ticks have stopped while another's go on (`sources`); clear when it ticks again. On what it would
have told nothing opens meanwhile, so it explains nothing either: what does open rests on the other source.
LOST: its numbers jump; clear when it has told everything once more: a hook when every member has heartbeaten and every
lock was renewed, a collector after two rounds.
"""

from rebalance_model.observe.hooks.hook import HEARD_FROM_ALL
from rebalance_model.observe.turn import Turn
from rebalance_model.observe.verdicts.verdict import CLEAR, Evidence, Holds, Rule, Verdict

ROUNDS = 2
"""A round of questions that was under way when answers were lost, and a whole one."""


def judge_hook(turn: Turn, broker: str) -> Verdict:
    """Of a broker's hook."""
    view = turn.state.views.get(broker)
    if view is None or not view.told_by:
        return CLEAR
    if view.told_by in turn.state.silent:
        return Holds("warning", "HOOK_SILENT")
    hook = view.hook
    if hook is None or not hook.lost_at:
        return CLEAR
    return _until(turn, hook.clock, hook.lost_at + HEARD_FROM_ALL, turn.clock_of(hook), "HOOK_LOST")


def judge_polls(turn: Turn, _: str) -> Verdict:
    """Of the collector that is followed, or was."""
    state = turn.state
    if state.poll_clock in state.silent:
        return Holds("warning", "POLL_SILENT")
    if not state.lost_at:
        return CLEAR
    return _until(turn, state.clock, state.lost_at + ROUNDS * turn.policy.poll_interval, turn.now, "POLL_LOST")


def hook_evidence(turn: Turn, broker: str) -> Evidence:
    """What the hook itself says that it lost, and since when it is silent."""
    view = turn.state.views.get(broker)
    return _evidence(turn, view.told_by if view is not None else "")


def polls_evidence(turn: Turn, _: str) -> Evidence:
    """What the collector itself says that it lost, and since when it is silent."""
    return _evidence(turn, turn.state.poll_clock)


def _until(turn: Turn, clock: str, until: int, now: int, sub_cause: str) -> Verdict:
    if now > until:
        return CLEAR
    turn.look_again(clock, until + 1)
    return Holds("warning", sub_cause)


def _evidence(turn: Turn, clock: str) -> Evidence:
    since, loss = turn.state.silent.get(clock), turn.state.losses.get(clock)
    found: Evidence = {"source": clock, "limit_ms": turn.policy.source_silent_after}
    if since is not None:
        found |= {"silent_since": since}
    if loss is not None:
        found |= {"lost": loss.count, "reason": loss.reason, "lost_from": loss.from_time, "lost_to": loss.to_time}
    return found


OF_HOOK = Rule("TELEMETRY_GAP", judge_hook, hook_evidence, absorbed_by=("BROKER_UNREACHABLE",))
OF_POLLS = Rule("TELEMETRY_GAP", judge_polls, polls_evidence)
