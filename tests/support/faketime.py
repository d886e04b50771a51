"""A process whose host's clock is wrong and is set: libfaketime moves its wall clock, and not the monotonic one."""

from pathlib import Path

LIBRARY = next(iter(sorted(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), Path("libfaketimeMT.so.1"))


class FakeClock:
    """The clock of a process that is started with this environment."""

    def __init__(self, file: Path, seconds: int) -> None:
        """Begin that many seconds ahead of the real time, or behind if negative."""
        self._file = file
        self.set(seconds)
        self.environment = {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_CACHE_DURATION": "1",  # seconds; reading the file at each look took 15 s of processor time
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # else each timed wait of the JVM ends at once: a third of a core
        }

    def set(self, seconds: int) -> None:
        """Set the clock to that many seconds ahead of the real time."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+d}\n")
        new.replace(self._file)
