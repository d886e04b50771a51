"""A spool as a broker's hook writes it, written by a test."""

from collections import defaultdict
from urllib.parse import quote

from rebalance_model.observe.events import Tick, UpdateConsumerOffset, key_of
from rebalance_model.observe.events.decoding import RejectedError, decode
from streaming.log.rows import encode


class SpoolWriter:
    """One instance and its incarnations; records every line of each, by source id, in order."""

    def __init__(self, root, instance):
        self.instance = instance
        self.lines = defaultdict(list)
        self.torn = []
        self._root = root
        self._start = 0
        self._half = b""
        self.reboot()

    @property
    def source_id(self):
        return f"{self.instance}@{self._start}"

    @property
    def folder(self):
        return self._root / quote(self.source_id, safe="@")

    @property
    def file(self):
        """The newest incarnation."""
        return self.folder / f"{self._number:020d}.jsonl"

    def reboot(self):
        """Start a new incarnation; an unfinished line of the last one stays as it is."""
        if self._half:
            self.torn.append(self._half)
            self._half = b""
        self._start += 1
        self._number = -1
        self._seq = defaultdict(int)
        self.folder.mkdir(parents=True)
        self._next_file()

    def write(self, count=1):
        for _ in range(count):
            line = self._line()
            self._put(line[len(self._half) :] + b"\n")
            self._half = b""
            self.lines[self.source_id].append(line)
            self._seq[self._key] += 1

    def write_half(self):
        """Write the beginning of the next line, as a reader may find it in the middle of a write."""
        if not self._half:
            self._half = self._line()[:40]
            self._put(self._half)

    def roll(self):
        if self._half:
            self.write()
        self._next_file()

    def _line(self):
        """Return the next line: every third is a tick, the others are commits of three groups."""
        count = len(self.lines[self.source_id])
        group = f"g{count % 7 % 3}"
        common = {"time": count, "cluster": "C", "broker": "b", "source": "hook", "source_id": self.source_id}
        if count % 3 == 0:
            event = Tick(**common, seq=self._seq[""] + 1)
        else:
            seq = self._seq[f"C/{group}"] + 1
            event = UpdateConsumerOffset(
                **common, seq=seq, group=group, channel="127.0.0.1:5", topic="T", queue_id=0, offset=count
            )
        self._key = key_of(event)
        return encode(event)[:-1] + b',"newer":true}'  # a field that no reader knows yet

    def _put(self, data):
        with self.file.open("ab") as file:
            file.write(data)

    def _next_file(self):
        self._number += 1
        self.file.touch(exist_ok=False)


def check_delivery(writers, logs, rejected_partition=0):
    """Check that every line is in the log, a source's lines of a partition are in order, and ``seq`` shows repetitions.

    ``logs`` are the values of each partition, in order.
    """
    rejected, folded = set(), [defaultdict(list) for _ in logs]
    for partition, values in enumerate(logs):
        last = {}
        for value in values:
            try:
                event = decode(value, key=None, stamp=2**62, keyed=False)
            except RejectedError:
                assert partition == rejected_partition
                rejected.add(value)
                continue
            key = event.source_id, key_of(event)
            # As in the observer, a number that is not above the last one is a repetition.
            if event.seq > last.get(key, 0):
                assert event.seq == last.get(key, 0) + 1, f"{key} has a gap"
                last[key] = event.seq
                folded[partition][event.source_id].append(value)
    for writer in writers:
        for source_id, lines in writer.lines.items():
            ticks = [line for line in lines if b'"TICK"' in line]
            by_source = [rows[source_id] for rows in folded]
            for rows in by_source:
                assert [line for line in rows if b'"TICK"' in line] == ticks
                places = [lines.index(row) for row in rows] if len(lines) < 500 else []
                assert places == sorted(places)
            commits = [row for rows in by_source for row in rows if b'"TICK"' not in row]
            assert sorted(commits) == sorted(line for line in lines if b'"TICK"' not in line)
    assert rejected == {half for writer in writers for half in writer.torn}
