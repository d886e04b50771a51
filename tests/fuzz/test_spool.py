"""Mutated spools, as a damaged disk or another program leaves them: each line is shipped."""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog
from hypothesis import given
from hypothesis import strategies as st

from streaming.collect.shipper import LogOutlet, Shipper
from streaming.collect.spool import CHUNK_BYTES
from tests.fuzz.forms import fuzzed
from tests.fuzz.mutations import mutants
from tests.fuzz.test_events import LINES, read
from tests.support.spool_logs import MemoryLog

FILES = [b"\n".join(LINES[n : n + 6]) + b"\n" for n in range(2_000, 4_000, 100)]
POSITIONS = [b'{"file":0,"offset":0}', b'{"file":1,"offset":500}', b'{"file":3,"offset":12}']
FOLDERS = [b"hook-broker-a@1795255650380", b"hook-broker%20b@12"]
NAMES = [b"00000000000000000000.jsonl", b"00000000000000000001.jsonl", b"00000000000000000002.jsonl", b".shipped"]


def place(folder: Path, name: bytes, content: bytes) -> bool:
    """Write a file if a file may have this name."""
    try:
        folder.mkdir(exist_ok=True)
        (folder / os.fsdecode(name.replace(b"/", b"")[:200])).write_bytes(content)
    except (ValueError, OSError):  # a null byte, "", "..": no other program could have made it
        return False
    return True


def folder_name(name: bytes) -> str:
    return os.fsdecode(name.replace(b"/", b"").replace(b"\0", b"")[:200]).strip(".") or "x"


@given(
    contents=st.lists(mutants(FILES), min_size=1, max_size=3),
    position=st.one_of(st.none(), mutants(POSITIONS)),
)
@fuzzed(short=60, long=5_000)
def test_each_line_of_a_mutated_spool_is_shipped(contents, position, tally, form):
    """Its bytes unchanged, from the position on that is kept; every one is then accepted or rejected."""
    with TemporaryDirectory() as name, structlog.testing.capture_logs():
        folder = Path(name) / "hook-broker-a@1"
        for number, content in enumerate(contents):
            place(folder, b"%020d.jsonl" % number, content)
        if position is not None:
            place(folder, b".shipped", position)
        log = MemoryLog()
        with tally.in_time(), Shipper([Path(name)], quiet_seconds=0) as shipper:
            taken = shipper._spools[folder].at
            shipper.send_to(LogOutlet(log))
            while shipper.step():
                pass
            shipper.finish()
    shipped = [value for partition in log.safe for value in partition]
    expected = lines(contents, taken.file, taken.offset)
    assert {line for line in expected if read(line, 2**62) is None} <= set(log.safe[0])
    assert set(shipped) == set(expected)
    tally.add("spool files", len(contents) + (position is not None))


def lines(contents: list[bytes], first: int, offset: int) -> list[bytes]:
    """Return what a reader must ship: complete lines of the newest file, all of those before."""
    complete: list[bytes] = []
    for number, content in enumerate(contents):
        rest = content[offset if offset <= len(content) else 0 :] if number == first else content
        if number < first:
            continue
        if number == len(contents) - 1:
            rest = rest[: rest.rfind(b"\n") + 1]
        if rest:
            complete += rest.removesuffix(b"\n").split(b"\n")
    assert max(map(len, contents)) < CHUNK_BYTES
    return complete


@given(
    spools=st.lists(
        st.tuples(mutants(FOLDERS), st.lists(st.tuples(mutants(NAMES), mutants(FILES)), min_size=1, max_size=3)),
        min_size=1,
        max_size=3,
    )
)
@fuzzed(short=60, long=5_000)
def test_names_that_no_hook_gives_do_not_stop_the_shipper(spools, tally, form):
    with TemporaryDirectory() as name, structlog.testing.capture_logs():
        for folder, files in spools:
            for file, content in files:
                place(Path(name) / folder_name(folder), file, content)
                tally.add("spool names")
        log = MemoryLog()
        with tally.in_time(), Shipper([Path(name)], quiet_seconds=0) as shipper:
            shipper.send_to(LogOutlet(log))
            while shipper.step():
                pass
            shipper.finish()


def test_a_deep_position_and_a_number_far_away_do_not_stop_the_shipper(tmp_path):
    """Found by mutation: the stack was full, and a list of all numbers between was made."""
    folder = tmp_path / "hook-broker-a@1"
    place(folder, b".shipped", b"[" * 5_000)
    for number in (0, 10**19):
        place(folder, b"%020d.jsonl" % number, LINES[0] + b"\n")
    log = MemoryLog()
    with structlog.testing.capture_logs(), Shipper([tmp_path], quiet_seconds=0) as shipper:
        shipper.send_to(LogOutlet(log))
        shipper.step()
    assert LINES[0] in [value for partition in log._unsafe + log.safe for value in partition]
