"""Fold events as a job does, and check that what it keeps and what it writes fits."""

import msgspec

from rebalance_model.observe.effects import AnyRow
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import AnyEvent
from rebalance_model.observe.events.decoding import decode
from rebalance_model.observe.group_store import KEY_PREFIX, GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.progress.state import decode_progress
from rebalance_model.observe.state import decode_group
from schemas.arrow import table_of_json
from streaming.pipeline.effects import by_table


def check_readable(groups: GroupsInMemory) -> None:
    """Read every state as the next batch does."""
    for key, blob in groups.items():
        (decode_progress if key.startswith(KEY_PREFIX) else decode_group)(blob)


def fold(events: list[AnyEvent], stamp: int) -> list[AnyRow]:
    """Fold events that arrive at once; check that the state can be kept, and that all rows fit their tables."""
    groups = GroupsInMemory()
    shard, rows = Shard(None, groups, Policy()), list[AnyRow]()
    for event in events:
        line = msgspec.json.encode(event)
        rows += shard.push(decode(line, key=None, stamp=stamp, keyed=False), stamp, len(line))
    rows += shard.finish()
    Shard(shard.flush(), groups, Policy())
    check_readable(groups)
    for table, count, lines in by_table(rows):
        assert table_of_json(table, lines).num_rows == count
    return rows
