"""The committed offset of each group and queue on one broker (org.apache.rocketmq.broker.offset.ConsumerOffsetManager).

A commit overwrites the stored offset. So offsets may go back: after a rebalance the former owner's last commit can
overwrite the new owner's progress.
"""

import msgspec

from rebalance_model.dialect import Dialect

NOT_FOUND = -1
"""The answer to a query for a queue that has no offset."""

Offsets = dict[str, dict[int, int]]
"""By ``topic@group``, then by queue id."""


class ConsumerOffsetManager(msgspec.Struct):
    """The offsets of every group on one broker."""

    dialect: Dialect = Dialect()
    use_server_side_reset_offset: bool = True
    offset_table: Offsets = {}
    pull_offset_table: Offsets = {}
    """The offset of each group's next pull, from its last one."""
    reset_offset_table: Offsets = {}
    """Offsets that an operator set and the client has not taken yet."""

    def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        """Store an offset, also a lower one than before (commitOffset).

        Returns:
            Whether it went back, in which case Java logs "update consumer offset less than store".
        """
        offsets = self.offset_table.setdefault(_key(topic, group), {})
        former = offsets.get(queue_id)
        offsets[queue_id] = offset
        return former is not None and offset < former

    def query_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return the pending reset offset, else the stored offset, else `NOT_FOUND` (queryOffset)."""
        key = _key(topic, group)
        if self.resets and queue_id in (waiting := self.reset_offset_table.get(key, {})):
            return waiting[queue_id]
        return self.offset_table.get(key, {}).get(queue_id, NOT_FOUND)

    def commit_pull_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Record where the next pull begins (commitPullOffset)."""
        self.pull_offset_table.setdefault(_key(topic, group), {})[queue_id] = offset

    def query_pull_offset(self, group: str, topic: str, queue_id: int) -> int:
        """Return where the next pull begins; the committed offset if that is not recorded (queryPullOffset)."""
        noted = self.pull_offset_table.get(_key(topic, group), {}).get(queue_id)
        return self.query_offset(group, topic, queue_id) if noted is None else noted

    def clear_pull_offset(self, group: str, topic: str) -> None:
        """Remove the offsets at which the next pulls of the topic begin (clearPullOffset)."""
        self.pull_offset_table.pop(_key(topic, group), None)

    @property
    def resets(self) -> bool:
        """Return whether this broker stores reset offsets."""
        return self.dialect.server_side_reset and self.use_server_side_reset_offset

    def assign_reset_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Store a reset offset set by an operator (assignResetOffset); ignore empty names and negative numbers."""
        if topic and group and queue_id >= 0 and offset >= 0:
            key = _key(topic, group)
            self.reset_offset_table.setdefault(key, {})[queue_id] = offset
            self.offset_table.setdefault(key, {})[queue_id] = offset

    def has_offset_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Return whether a reset offset is pending for the client (hasOffsetReset)."""
        return queue_id in self.reset_offset_table.get(_key(topic, group), {})

    def query_then_erase_reset_offset(self, group: str, topic: str, queue_id: int) -> int | None:
        """Return the pending reset offset and remove it, for a pull (queryThenEraseResetOffset)."""
        return self.reset_offset_table.get(_key(topic, group), {}).pop(queue_id, None)

    def which_topic_by_consumer(self, group: str) -> frozenset[str]:
        """Return the topics of which the group has offsets (whichTopicByConsumer)."""
        return frozenset(_names(key)[0] for key in _keys(self.offset_table, group=group))

    def which_group_by_topic(self, topic: str) -> frozenset[str]:
        """Return the groups that have offsets of the topic (whichGroupByTopic)."""
        return frozenset(_names(key)[1] for key in _keys(self.offset_table, topic=topic))

    def clone_offset(self, source_group: str, target_group: str, topic: str) -> None:
        """Copy the offsets of a topic from another group (cloneOffset); no change if the source group has none."""
        if (offsets := self.offset_table.get(_key(topic, source_group))) is not None:
            self.offset_table[_key(topic, target_group)] = dict(offsets)

    def remove_offset(self, group: str) -> None:
        """Remove a group from every table (removeOffset)."""
        for table in (self.offset_table, self.reset_offset_table, self.pull_offset_table):
            for key in _keys(table, group=group):
                del table[key]

    def clean_offset(self, group: str) -> None:
        """Remove a group's committed offsets; its pull offsets and reset offsets stay (cleanOffset)."""
        for key in _keys(self.offset_table, group=group):
            del self.offset_table[key]

    def clean_offset_by_topic(self, topic: str) -> None:
        """Remove a topic from every table, for the groups that have consumer offsets of it (cleanOffsetByTopic)."""
        for key in _keys(self.offset_table, topic=topic):
            for table in (self.offset_table, self.pull_offset_table, self.reset_offset_table):
                table.pop(key, None)


def _key(topic: str, group: str) -> str:
    return f"{topic}@{group}"


def _names(key: str) -> list[str]:
    """Split a key into topic and group as Java's ``split("@")`` does, which drops empty parts at the end."""
    return key.rstrip("@").split("@")


def _keys(table: Offsets, *, topic: str | None = None, group: str | None = None) -> list[str]:
    """Return the keys of a topic or a group; a key without exactly two parts belongs to neither."""
    wanted = [(key, names) for key in table if len(names := _names(key)) == 2]
    return [key for key, names in wanted if topic in (None, names[0]) and group in (None, names[1])]
