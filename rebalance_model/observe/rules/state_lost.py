"""STATE_LOST: the state of a group was lost, and the group began again.

What the job keeps of a group between two batches could not be read, or an event of the group could not be processed:
an internal error, or a damaged checkpoint. It costs this group, not the job. Members, owners and offsets are known
again after a round of polls or of heartbeats; the incidents that were open are resolved where they could be read. What
was lost for good is time: how long a condition had held, and what happened in between. Holds until a rebuild has
derived the group from the archive.

SHARD is about what a partition keeps beside its groups: sources, clocks, events that waited.
"""

from typing import cast

from rebalance_model.observe.rules.rule import CLEAR, Advice, Evidence, GroupRule, Holds, Verdict
from rebalance_model.observe.state import LostState
from rebalance_model.observe.step import GroupStep

CODE = "STATE_LOST"
BEGAN_AGAIN = "the state of the group was lost"
"""The reason with which its incidents end that were open before."""
_REBUILD = (
    "Run `rebalance-watch rebuild`, which derives the group from the archive; report the row of `telemetry_rejected` "
    "with the reason `state_lost`."
)


def judge(step: GroupStep, _: str) -> Verdict:
    """Judge whether the state was ever lost."""
    lost = step.state.lost
    if lost is None:
        return CLEAR
    return Holds("warning" if lost.part == "SHARD" else "critical", lost.part, stamp=lost.since)


def evidence(step: GroupStep, _: str) -> Evidence:
    """Return when the state was lost, how often, and why."""
    lost = cast("LostState", step.state.lost)  # a group that has begun again says so for good
    return {"lost_at": lost.last, "first_lost_at": lost.since, "times": lost.count, "error": lost.error}


RULE = GroupRule(
    CODE,
    judge,
    evidence,
    title="The state of {group} was lost",
    units={"lost_at": "epoch_ms", "first_lost_at": "epoch_ms", "times": "count", "error": "text"},
    sub_causes=("GROUP", "PROGRESS", "EVENT", "SHARD"),
    advice={
        "GROUP": Advice(
            short="it could not be read",
            what="The kept state of the group can't be read: the group began again, and its history has a gap.",
            first_step=_REBUILD,
        ),
        "PROGRESS": Advice(
            short="its quantities could not be read",
            what="The kept quantities of the group can't be read: lag and rates began again.",
            first_step=_REBUILD,
        ),
        "EVENT": Advice(
            short="an event could not be processed",
            what="An event of the group could not be processed, an internal error: the group began again.",
            first_step=_REBUILD,
        ),
        "SHARD": Advice(
            short="its partition began again",
            what=(
                "What the job keeps beside the groups of this partition can't be read: events that waited may be "
                "missing, and sources and clocks are measured again."
            ),
            first_step=_REBUILD,
        ),
    },
)
