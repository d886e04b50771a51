"""The shipper loses no line, keeps their order, and deletes nothing too early."""

import errno
import gzip
import json
import os
import time
from contextlib import contextmanager
from threading import Event, Thread
from unittest import mock

import pytest
import structlog

from rebalance_model.observe.events import Tick
from rebalance_model.observe.events.decoding import VALUE_BYTES_MAX, RejectedError, decode
from streaming.base.errors import UserError
from streaming.collect import spool as spooling
from streaming.collect.shipper import LogOutlet, RecordingOutlet, Shipper, ship
from streaming.collect.spool_folder import SpoolFolder
from streaming.log.files import FilePublisher, files_of
from streaming.log.recording import Recorder
from streaming.log.rows import encode, publish
from tests.support.spool_logs import PARTITIONS, MemoryLog
from tests.support.spool_writer import SpoolWriter, check_delivery


@pytest.fixture
def said():
    with structlog.testing.capture_logs() as entries:
        yield entries


def shipped(*roots, quiet_seconds=10.0):
    """Return the log after one run over the present files."""
    memory = MemoryLog()
    with Shipper(roots, quiet_seconds=quiet_seconds) as shipper:
        shipper.send_to(LogOutlet(memory))
        shipper.drain()
        shipper.finish()
    return memory.safe


@contextmanager
def unreadable(number):
    """Let a disk fail at the files of this number."""
    read = SpoolFolder.read

    def failing(folder, at, *arguments):
        if at == number:
            raise OSError(errno.EIO, "Input/output error")
        return read(folder, at, *arguments)

    with mock.patch.object(SpoolFolder, "read", failing):
        yield


def lag_of(said):
    return [(one["bytes_behind"], one["files_behind"], one["lines_sent"]) for one in said if one["event"] == "spool"]


def test_the_file_being_written_is_followed_by_complete_lines(tmp_path):
    writer = SpoolWriter(tmp_path, "hook-a")
    memory = MemoryLog()
    with Shipper([tmp_path]) as shipper:
        shipper.send_to(LogOutlet(memory))
        writer.write()
        assert shipper.step()
        writer.write_half()
        assert not shipper.step()
        assert len(memory.safe[1]) == 1
        writer.write()
        assert shipper.step()
    check_delivery([writer], memory.safe)


def test_a_later_source_is_shipped_and_its_name_gives_the_source_id(tmp_path):
    memory = MemoryLog()
    with Shipper([tmp_path]) as shipper:
        shipper.send_to(LogOutlet(memory))
        assert not shipper.step()
        writer = SpoolWriter(tmp_path, "hook-ü/b%")
        writer.write(9)
        assert shipper.step()
    check_delivery([writer], memory.safe)


def test_an_incarnation_ends_when_a_newer_one_exists_and_writing_stops(tmp_path):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(4)
    writer.write_half()
    old = writer.folder
    writer.reboot()
    safe = shipped(tmp_path)
    assert old.is_dir()  # a second broker started by mistake must not end the first one's spool
    assert not any(b'"newer"' not in value for values in safe for value in values)
    (file,) = old.glob("*.jsonl")
    os.utime(file, (time.time() - 11,) * 2)
    again = shipped(tmp_path)
    assert not old.exists()
    assert again == [writer.torn, [], []]


def test_an_empty_folder_left_by_a_crash_is_removed_at_once(tmp_path):
    writer = SpoolWriter(tmp_path, "hook-a")
    old = writer.folder
    writer.reboot()
    (old / f"{0:020d}.jsonl").unlink()
    shipped(tmp_path)
    assert old.is_dir()  # its writer may be about to create its first file
    (old / ".shipped").write_bytes(b'{"file":1,"offset":0}')
    shipped(tmp_path)
    assert not old.exists()


def incarnations(safe):
    """Return the source ids in the order of the log."""
    return [json.loads(value)["source_id"] for value in safe]


def test_a_newer_incarnation_waits_until_all_of_the_older_one_is_sent(tmp_path, monkeypatch):
    monkeypatch.setattr(spooling, "CHUNK_BYTES", 700)
    writer = SpoolWriter(tmp_path, "hook-a")
    for _ in range(9):  # the tenth is older than the ninth by its name
        writer.write(40)
        writer.roll()
        writer.reboot()
    writer.write(40)
    other = SpoolWriter(tmp_path, "hook-b")
    other.write(10)
    safe = shipped(tmp_path)
    starts = [int(name.partition("@")[2]) for name in incarnations(safe[0]) if name.startswith("hook-a")]
    assert starts == sorted(starts)
    assert set(starts) == set(range(1, 11))
    check_delivery([writer, other], safe)
    assert incarnations(safe[0]).index("hook-b@1") < len(starts), "another source does not wait"


def test_a_newer_incarnation_waits_while_the_older_one_can_not_be_read(tmp_path):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(3)
    writer.roll()
    writer.reboot()
    writer.write(3)
    memory = MemoryLog()
    with Shipper([tmp_path]) as shipper:
        shipper.send_to(LogOutlet(memory))
        with unreadable(number=1):
            for _ in range(3):
                shipper.step()
        assert set(incarnations(memory.safe[0])) == {"hook-a@1"}
        for _ in range(3):
            shipper.step()
    check_delivery([writer], memory.safe)


def test_broker_10_is_no_newer_incarnation_of_broker_1(tmp_path):
    for name in ("hook-a-1", "hook-a-10"):
        SpoolWriter(tmp_path, name).write(1)
    shipped(tmp_path, quiet_seconds=0)
    assert len(list(tmp_path.iterdir())) == 2


def test_an_overlong_line_is_rejected_and_the_next_is_complete(tmp_path):
    writer = SpoolWriter(tmp_path, "hook-a")
    path = writer.file
    path.write_bytes(b'{"type":"' + b"x" * (2 * spooling.CHUNK_BYTES + 5) + b'"}\n')
    writer.write()
    safe = shipped(tmp_path)
    *pieces, tick = safe[0]
    assert b"".join(pieces) + b"\n" + tick + b"\n" == path.read_bytes()
    assert len(pieces) == 3
    for piece in pieces:
        with pytest.raises(RejectedError, match="too_large" if len(piece) > VALUE_BYTES_MAX else "malformed"):
            decode(piece, key=None, stamp=0, keyed=False)


def test_an_invalid_position_is_reported_and_the_oldest_file_comes_first(tmp_path, said):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(5)
    for garbage in (b"", b"{", b"[]", b'{"file":-1,"offset":0}', b'{"file":7,"offset":0}'):
        (writer.folder / ".shipped").write_bytes(garbage)
        check_delivery([writer], shipped(tmp_path))
    assert sum("all that is there is sent again" in one["event"] for one in said) == 5


def test_missing_files_are_reported_and_the_rest_is_sent(tmp_path, said):
    writer = SpoolWriter(tmp_path, "hook-a")
    for _ in range(4):
        writer.write(3)
        writer.roll()
    for number in (1, 2):
        (writer.folder / f"{number:020d}.jsonl").unlink()
    safe = shipped(tmp_path)
    assert sum(b'"TICK"' in value for value in safe[1]) == 2
    assert [one["event"] for one in said if one["log_level"] == "warning"] == [
        "files 1 to 2 of a spool are missing; shipping continues after them"
    ]


def test_a_truncated_file_is_sent_again(tmp_path, said):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(6)
    shipped(tmp_path)
    writer.file.write_bytes(b"")
    writer.lines.clear()
    writer._seq.clear()
    writer.write(3)
    check_delivery([writer], shipped(tmp_path))
    assert any("shorter" in one["event"] for one in said)


def test_an_unreadable_file_delays_only_its_own_source(tmp_path, said):
    bad, good = SpoolWriter(tmp_path, "hook-a"), SpoolWriter(tmp_path, "hook-b")
    bad.write(3)
    good.write(3)
    bad.roll()
    memory = MemoryLog()
    with Shipper([tmp_path]) as shipper:
        shipper.send_to(LogOutlet(memory))
        with unreadable(number=1):
            for _ in range(3):
                shipper.step()
        check_delivery([bad, good], memory.safe)
        bad.write(3)
        shipper.step()
    check_delivery([bad, good], memory.safe)
    assert len([one for one in said if "can't be read" in one["event"]]) == 1


def test_on_a_full_disk_sent_files_are_deleted_without_a_position(tmp_path, said):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(3)
    writer.roll()
    with mock.patch.object(SpoolFolder, "keep_position", side_effect=OSError(28, "No space left on device")):
        safe = shipped(tmp_path)
    assert [file.name for file in writer.folder.iterdir()] == [f"{1:020d}.jsonl"]
    writer.write(3)
    check_delivery([writer], [one + two for one, two in zip(safe, shipped(tmp_path), strict=True)])
    assert any("position can't be kept" in one["event"] for one in said)


def test_files_are_deleted_only_after_the_log_has_their_lines(tmp_path):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(3)
    writer.roll()
    memory = MemoryLog(flush_seconds=1e9)
    with Shipper([tmp_path]) as shipper:
        shipper.send_to(LogOutlet(memory))
        shipper.drain()
        shipper.finish()
        assert sorted(file.name for file in writer.folder.iterdir()) == [f"{n:020d}.jsonl" for n in (0, 1)]
        memory.flush()  # the publisher rolled by itself
        shipper.step()
        assert sorted(file.name for file in writer.folder.iterdir()) == [".shipped", f"{1:020d}.jsonl"]


def test_a_sent_file_that_a_crash_left_is_deleted_at_the_start(tmp_path):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(3)
    writer.roll()
    (writer.folder / ".shipped").write_bytes(b'{"file":1,"offset":0}')
    Shipper([tmp_path]).close()
    assert [file.name for file in sorted(writer.folder.iterdir())] == [".shipped", f"{1:020d}.jsonl"]


def test_lines_that_an_outlet_did_not_acknowledge_are_sent_again(tmp_path):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(8)
    memory = MemoryLog()
    with Shipper([tmp_path]) as shipper:
        shipper.send_to(LogOutlet(MemoryLog(flush_seconds=1e9)))
        shipper.step()
        shipper.send_to(LogOutlet(memory))
        shipper.step()
    check_delivery([writer], memory.safe)


def test_a_second_shipper_is_refused(tmp_path):
    SpoolWriter(tmp_path, "hook-a")
    with Shipper([tmp_path]), pytest.raises(UserError, match="Another process ships the spool"):
        Shipper([tmp_path])
    Shipper([tmp_path]).close()


def test_a_missing_spool_folder_is_a_user_error(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        Shipper([tmp_path / "none"])


def test_the_reported_lag_is_what_the_log_has_not_acknowledged(tmp_path, said):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(4)
    writer.roll()
    writer.write(2)
    size = sum(file.stat().st_size for file in writer.folder.iterdir())
    memory = MemoryLog(flush_seconds=1e9)
    with Shipper([tmp_path]) as shipper:
        shipper.send_to(LogOutlet(memory))
        shipper.step()
        shipper.report()
        memory.flush()
        shipper.step()
        shipper.report()
    assert lag_of(said) == [(size, 2, 6), (0, 0, 0)]


def file_log(root):
    values = []
    for partition in range(PARTITIONS):
        data = b"".join(gzip.decompress(file.read_bytes()) for file in files_of(root, partition))
        values.append(data.removesuffix(b"\n").split(b"\n"))
    return values


def test_shipping_spools_does_not_roll_the_files_of_a_log_faster(tmp_path):
    writer = SpoolWriter(tmp_path / "spool", "hook-a")
    roll = 0.3
    with (
        Shipper([tmp_path / "spool"]) as shipper,
        FilePublisher(tmp_path / "log", PARTITIONS, roll_seconds=roll) as log,
    ):
        shipper.send_to(LogOutlet(log))
        sink = shipper.beside(lambda events: publish(log, events))
        began = time.monotonic()
        seq = 0
        while time.monotonic() - began < 4 * roll:
            writer.write()
            seq += 1
            sink([Tick(time=seq, cluster="P", source="poll", source_id="poll@1", seq=seq)])
            time.sleep(0.02)
        assert (writer.folder / ".shipped").exists()
        took = time.monotonic() - began
    shipper.finish()
    assert len(files_of(tmp_path / "log", 0)) <= took / roll + 1
    values = [[value for value in values if b"poll@1" not in value] for values in file_log(tmp_path / "log")]
    check_delivery([writer], values)


def test_a_recording_has_polls_and_spools_before_files_are_deleted(tmp_path):
    writer = SpoolWriter(tmp_path / "spool", "hook-a")
    writer.write(4)
    writer.roll()
    tick = Tick(time=1, cluster="P", source="poll", source_id="poll@1", seq=1)
    with Shipper([tmp_path / "spool"]) as shipper:
        with Recorder(tmp_path / "r.jsonl") as recorder:
            shipper.send_to(RecordingOutlet(recorder))
            shipper.beside(recorder.publish)([tick])
            assert (writer.folder / f"{0:020d}.jsonl").exists()
        shipper.finish()
    lines = (tmp_path / "r.jsonl").read_bytes().splitlines()
    assert [line for line in lines if b'"end":true' not in line] == [encode(tick), *writer.lines[writer.source_id]]
    assert [file.name for file in sorted(writer.folder.iterdir())] == [".shipped", f"{1:020d}.jsonl"]


def test_following_continues_until_it_is_stopped(tmp_path, settings_in):
    writer = SpoolWriter(tmp_path / "spool", "hook-a")
    settings = settings_in(tmp_path / "root", partitions=PARTITIONS)
    stop = Event()
    thread = Thread(target=ship, args=(settings, [tmp_path / "spool"], stop))
    thread.start()
    try:
        for _ in range(10):
            writer.write(3)
            writer.roll()
            time.sleep(0.05)
    finally:
        stop.set()
        thread.join()
    ship(settings, [tmp_path / "spool"], Event(), once=True)
    check_delivery([writer], file_log(settings.log_path))
    assert json.loads((writer.folder / ".shipped").read_bytes())["file"] == 10
