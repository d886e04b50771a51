"""Logs in memory for a shipper, which can be killed."""

PARTITIONS = 3


class MemoryLog:
    """A publisher that keeps a prefix of each partition when it crashes before a flush, as Kafka does."""

    partitions = PARTITIONS

    def __init__(self, *, flush_seconds=0.0, touch=lambda: None):
        self.flush_seconds = flush_seconds
        self.flushes = 0
        self.safe = [[] for _ in range(PARTITIONS)]
        self._touch = touch
        self._unsafe = [[] for _ in range(PARTITIONS)]

    def write(self, rows):
        for row in rows:
            self._touch()
            self._unsafe[row.partition].append(row.value)

    def flush(self):
        self._touch()
        for safe, unsafe in zip(self.safe, self._unsafe, strict=True):
            safe.extend(unsafe)
            unsafe.clear()
            self._touch()
        self.flushes += 1
        self._touch()

    def crash(self, kept):
        for partition, (safe, unsafe) in enumerate(zip(self.safe, self._unsafe, strict=True)):
            safe.extend(unsafe[: kept >> 4 * partition & 15])
            unsafe.clear()
