"""TELEMETRY_GAP: telemetry of a source is missing; it explains incidents that depend on that source.

For a whole source the incident is about the cluster. SILENT: the source's ticks have stopped while another's continue.
LATE: they stay far behind. BUFFER_FULL: more events waited for it than can be buffered. CLOCK_WRONG: its times can't be
used, and no measurement corrects them (all four in `engine.ordering`). From its last tick on, nothing is judged from
it; the incident opens after `Policy.source_silent_after`, which a wrong clock has had before. Clear when the source
keeps up again, or another collector does. Rules that need the source are suspended meanwhile, so it explains nothing
that opens from the other source.

LOST is about a group: the sequence numbers of a source's events have a gap. What came too late without a gap, as
of a spool that is shipped later, is not lost: the source is LATE, once, and the archive has it. Clear when the source
has reported everything again: for a hook, when every member has sent a heartbeat and every lock was renewed; for a
collector, after two rounds.
"""

from collections.abc import Mapping

from rebalance_model.observe.group.membership import HEARD_FROM_ALL
from rebalance_model.observe.rules.rule import (
    CLEAR,
    OF_BROKER,
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
"""A round of requests that was in progress when answers were lost, and a complete one."""
_LOSS: Mapping[str, Unit] = {"lost": "count", "reason": "text", "lost_from": "epoch_ms", "lost_to": "epoch_ms"}
"""Units of the fields that describe a source's loss."""


def judge_source(step: ClusterStep, subject: str) -> Verdict:
    """Judge whether a broker's hook, or a collector that no other one replaces, keeps up."""
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
        return None  # when it returns, it reports its own losses
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
    """Return since when the source is silent, and the losses that it reports."""
    state = step.state
    source = state.sources.get(subject, "")
    fields: Evidence = {"source": source, "limit_ms": step.policy.source_silent_after}
    if (silence := state.silent.get(source)) is not None:
        fields |= {"silent_since": silence.since}
        fields |= {"ticks_behind_ms": max(0, step.now - silence.ticked)} if silence.ticked else {}
    return fields | _of_loss(state.losses.get(source))


def hook_evidence(step: GroupStep, broker: str) -> Evidence:
    """Return the losses that the hook reports."""
    view = step.state.views.get(broker)
    source = view.hook_source if view is not None else ""
    return {"source": source} | _of_loss(step.state.losses.get(source))


def polls_evidence(step: GroupStep, _: str) -> Evidence:
    """Return the losses that the collector reports."""
    return {"source": step.state.collector} | _of_loss(step.state.losses.get(step.state.collector))


def _since(step: ClusterStep, silence: Silence, kind: str) -> Holds:
    if silence.wrong_clock:  # it has been observed for as long; and a wrong clock may be the only one
        return Holds("warning", "CLOCK_WRONG", duration_ms=step.policy.source_silent_after, stamp=silence.since)
    sub_cause = f"{kind}_SILENT" if silence.why == "SILENT" else silence.why
    return Holds("warning", sub_cause, duration_ms=step.now - silence.since, stamp=silence.since)


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
    title="Telemetry of {subject} is missing",
    units={"source": "text", "limit_ms": "ms", "silent_since": "epoch_ms", "ticks_behind_ms": "ms", **_LOSS},
    sub_causes=("HOOK_SILENT", "POLL_SILENT", "LATE", "BUFFER_FULL", "CLOCK_WRONG"),
    open_after=lambda policy: policy.source_silent_after,
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=OF_BROKER,
    advice={
        "HOOK_SILENT": Advice(
            short="the hook is silent",
            what="The broker's hook stopped reporting; checks that need it are suspended.",
            first_step="Check that the broker and the shipper beside it run: `rebalance-watch collect spool`.",
        ),
        "POLL_SILENT": Advice(
            short="the collector is silent",
            what="The collector stopped reporting; checks that need it are suspended.",
            first_step="Check that `rebalance-watch collect poll` runs and reaches the log.",
        ),
        "LATE": Advice(
            short="it is far behind",
            what=(
                "The source is far behind the others and not waited for: it sends what it has kept, or is slow. "
                "Nothing is lost: the archive has it. Checks that need it are suspended until it has caught up."
            ),
            first_step=(
                "See whether it comes closer (`doctor`); if not, check its host and its connection to the log. "
                "Once it has caught up, `rebalance-watch rebuild` adds what came late to the history."
            ),
        ),
        "BUFFER_FULL": Advice(
            short="too many events wait for it",
            what=(
                "Events that wait for a delayed telemetry source have filled the buffer, so processing continues "
                "without it."
            ),
            first_step="Check the host of this source and its connection to the log.",
        ),
        "CLOCK_WRONG": Advice(
            short="its times are wrong",
            what="The source's times are far from the log's or other sources': its events are skipped.",
            first_step="Check the clocks and NTP: of the source's host, and of the host that stamps the log.",
        ),
    },
)
OF_HOOK = BrokerRule(
    CODE,
    judge_hook,
    hook_evidence,
    title="Telemetry of {subject} is missing",
    units={"source": "text", **_LOSS},
    sub_causes=("HOOK_LOST",),
    clear_after=lambda policy: policy.clear_after,
    absorbed_by=OF_BROKER,
    advice={
        "HOOK_LOST": Advice(
            short="events of the hook were lost",
            what="Events of the broker's hook are missing: results based on them may be wrong for half a minute.",
            first_step=(
                "Look for a full disk or a full spool on the broker's host; the evidence shows the hook's own reason."
            ),
        ),
    },
)
OF_POLLS = GroupRule(
    CODE,
    judge_polls,
    polls_evidence,
    title="Telemetry of {subject} is missing",
    units={"source": "text", **_LOSS},
    sub_causes=("POLL_LOST",),
    clear_after=lambda policy: policy.clear_after,
    advice={
        "POLL_LOST": Advice(
            short="answers to the collector were lost",
            what="Answers to the collector are missing: results based on them may be one round late.",
            first_step="Check the collector's log for answers that it could not send.",
        ),
    },
)
