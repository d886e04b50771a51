"""Foreign files in a spool, or beside it, are named once and skipped: they end nothing, and lead nowhere else."""

import os
import socket
from threading import Thread

import pytest
import structlog

from streaming.collect import shipper as shipping
from streaming.collect import spool as spooling
from streaming.collect import spool_folder
from streaming.collect.shipper import LogOutlet, Shipper
from streaming.collect.spool_folder import SpoolFolder
from tests.support.spool_logs import MemoryLog
from tests.support.spool_writer import SpoolWriter, check_delivery

HANG_SECONDS = 60
SECRET = b'{"type":"TICK","secret":"only the shipper may read it"}\n'


@pytest.fixture
def said():
    with structlog.testing.capture_logs() as entries:
        yield entries


def warnings(said):
    return [(one["event"], one.get("detail")) for one in said if one["log_level"] == "warning"]


def steps(root, count=3, shipper_of=Shipper):
    """Return the log after some looks at the spools; fail if the shipper hangs."""
    memory = MemoryLog()

    def ship():
        with shipper_of([root]) as shipper:
            shipper.send_to(LogOutlet(memory))
            for _ in range(count):
                shipper.step()
            shipper.finish()

    thread = Thread(target=ship, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive(), "the shipper hangs"
    return memory.safe


def fifo(path, _):
    os.mkfifo(path)


def link(path, secret):
    path.symlink_to(secret)


def link_to_nothing(path, secret):
    path.symlink_to(secret.with_name("nothing"))


def folder(path, _):
    path.mkdir()


def server_socket(path, _):
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(path.parent)  # the path of a socket is short
        server.bind(path.name)


def device(path, _):
    if os.geteuid() != 0:
        pytest.skip("only root may make a device")
    os.mknod(path, 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero


KINDS = [fifo, link, link_to_nothing, folder, server_socket, device]


@pytest.fixture
def secret(tmp_path):
    file = tmp_path / "secret"
    file.write_bytes(SECRET)
    return file


@pytest.mark.parametrize("kind", KINDS)
def test_what_only_has_the_name_of_a_spool_file_is_skipped(tmp_path, secret, said, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writers = [SpoolWriter(tmp_path / "spool", name) for name in ("hook-a", "hook-b")]
    for writer in writers:
        writer.write(3)
    odd = writers[0].folder / f"{7:020d}.jsonl"
    kind(odd, secret)
    check_delivery(writers, steps(tmp_path / "spool"))
    assert warnings(said) == [("a spool file is not a regular file and is skipped", odd.name)]
    seen = len(writers[0].lines[writers[0].source_id])
    writers[0].write(3)  # into the file that is being written, although the odd one has a higher number
    values = {value for partition in steps(tmp_path / "spool") for value in partition}
    assert values == set(writers[0].lines[writers[0].source_id][seen:])
    assert os.path.lexists(odd)


@pytest.mark.parametrize("kind", KINDS)
def test_a_position_that_is_no_file_is_replaced_and_not_followed(tmp_path, secret, said, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)
    writer = SpoolWriter(tmp_path / "spool", "hook-a")
    writer.write(3)
    kind(writer.folder / ".shipped", secret)
    kind(writer.folder / ".shipped.tmp", secret)
    check_delivery([writer], steps(tmp_path / "spool"))
    assert secret.read_bytes() == SECRET, "the position was written through a link"
    assert not (tmp_path / "nothing").exists()
    assert warnings(said)[0][0] == "the position of a spool makes no sense; all that is there is sent again"
    if kind is not folder:
        assert b'"offset"' in (writer.folder / ".shipped").read_bytes()
        assert not (writer.folder / ".shipped").is_symlink()


@pytest.mark.parametrize("kind", [fifo, link, link_to_nothing])
def test_what_lies_beside_the_spools_is_named_once(tmp_path, secret, said, kind):
    writer = SpoolWriter(tmp_path / "spool", "hook-a")
    writer.write(3)
    kind(tmp_path / "spool" / "hook-b@1", secret)
    check_delivery([writer], steps(tmp_path / "spool"))
    assert warnings(said) == [("an entry is a link or not a folder; it is skipped", "hook-b@1")]


def test_a_link_to_a_folder_is_no_spool(tmp_path, said):
    elsewhere, writer = SpoolWriter(tmp_path / "elsewhere", "hook-b"), SpoolWriter(tmp_path / "spool", "hook-a")
    elsewhere.write(3)
    writer.write(3)
    (tmp_path / "spool" / "hook-b@1").symlink_to(elsewhere.folder)
    check_delivery([writer], steps(tmp_path / "spool"))
    assert warnings(said) == [("an entry is a link or not a folder; it is skipped", "hook-b@1")]
    assert [one.name for one in elsewhere.folder.iterdir()] == [elsewhere.file.name]


def test_the_folder_that_is_given_may_be_a_link(tmp_path):
    writer = SpoolWriter(tmp_path / "disk" / "spool", "hook-a")
    writer.write(3)
    (tmp_path / "spool").symlink_to(tmp_path / "disk" / "spool")
    check_delivery([writer], steps(tmp_path / "spool"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a file to another user")
@pytest.mark.parametrize("number", [0, 7])
def test_a_hard_link_to_a_file_of_another_user_is_not_shipped(tmp_path, secret, said, number):
    """The owner of the folder can link what the shipper alone may read; its own files may have any number of links."""
    writer, other = SpoolWriter(tmp_path / "spool", "hook-a"), SpoolWriter(tmp_path / "spool", "hook-b")
    other.write(3)
    writer.roll()
    writer.write(3)
    for path in (writer.folder, *writer.folder.iterdir()):
        os.chown(path, 12_345, -1)
    os.link(writer.file, tmp_path / "backup")
    odd = writer.folder / f"{number:020d}.jsonl"
    odd.unlink(missing_ok=True)
    os.link(secret, odd)
    check_delivery([writer, other], steps(tmp_path / "spool"))
    expected = [("a spool file belongs to another user than its folder and is skipped", odd.name)]
    assert [one for one in warnings(said) if "missing" not in one[0]] == expected
    assert secret.read_bytes() == SECRET


def test_a_file_that_becomes_a_fifo_between_two_looks_is_not_opened(tmp_path, monkeypatch):
    """Its name was listed as that of a file."""
    writer, other = SpoolWriter(tmp_path, "hook-a"), SpoolWriter(tmp_path, "hook-b")
    other.write(3)
    numbers = SpoolFolder.numbers

    def listed_too_early(spool):
        listing = numbers(spool)
        if spool._path == writer.folder and writer.file.is_file():
            writer.file.unlink()
            os.mkfifo(writer.file)
        return listing

    monkeypatch.setattr(SpoolFolder, "numbers", listed_too_early)
    check_delivery([other], steps(tmp_path))


def test_a_folder_that_is_made_again_is_shipped_again(tmp_path, said):
    writer, other = SpoolWriter(tmp_path / "spool", "hook-a"), SpoolWriter(tmp_path / "spool", "hook-b")
    memory = MemoryLog()
    with Shipper([tmp_path / "spool"]) as shipper:
        shipper.send_to(LogOutlet(memory))
        shipper.step()
        writer.folder.rename(tmp_path / "old")
        shipper.step()
        writer.folder.mkdir()
        writer.file.touch()
        writer.write(3)
        other.write(3)
        shipper.step()
    check_delivery([writer, other], memory.safe)
    assert warnings(said) == [("a spool's folder was removed or replaced", writer.folder.name)]


def test_a_folder_that_somebody_locks_stops_no_other(tmp_path, said):
    locked, other = SpoolWriter(tmp_path, "hook-a"), SpoolWriter(tmp_path, "hook-b")
    locked.write(3)
    other.write(3)
    lock_holder = SpoolFolder(locked.folder, lambda *_: None)
    memory = MemoryLog()
    with Shipper([tmp_path]) as shipper:
        shipper.send_to(LogOutlet(memory))
        shipper.step()
        check_delivery([other], memory.safe)
        lock_holder.close()
        shipper.step()
    check_delivery([locked, other], memory.safe)
    assert warnings(said) == [("another process ships a spool; it is skipped", locked.folder.name)]


ODD_NAMES = [b"\xff\xfe", b"a\nb", b"\x1b[31m@1", b"%ff@1", b"%", b"@", b"@1", b"x@" + b"9" * 200, "消费@1".encode()]


def test_odd_names_of_folders_do_not_stop_the_shipper(tmp_path, said):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(3)
    for name in ODD_NAMES:
        (tmp_path / os.fsdecode(name)).mkdir()
    check_delivery([writer], steps(tmp_path))


def test_a_number_beyond_all_that_a_position_can_have_is_no_spool_file(tmp_path, said):
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(3)
    odd = writer.folder / ("9" * 20 + ".jsonl")
    odd.touch()
    check_delivery([writer], steps(tmp_path))
    assert warnings(said) == [("a spool file is not a regular file and is skipped", odd.name)]


def test_a_spool_of_empty_lines_does_not_delay_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(spooling, "SPOOL_LINES", 50)
    hostile, writer = SpoolWriter(tmp_path, "hook-a"), SpoolWriter(tmp_path, "hook-b")
    hostile.file.write_bytes(b"\n" * 120)
    writer.write(3)
    memory = MemoryLog()
    with Shipper([tmp_path]) as shipper:
        shipper.send_to(LogOutlet(memory))
        shipper.step()
        assert sum(value == b"" for values in memory.safe for value in values) == 50
        shipper.step()
        shipper.step()
    values = [[value for value in values if value] for values in memory.safe]
    check_delivery([writer], values)
    assert sum(value == b"" for values in memory.safe for value in values) == 120


def test_as_many_spools_are_open_as_may_be_and_the_oldest_are_first(tmp_path, said, monkeypatch):
    monkeypatch.setattr(shipping, "SPOOL_FOLDERS", 2)
    writers = [SpoolWriter(tmp_path, f"hook-{number}") for number in range(3)]
    for _ in range(2):
        writers[0].reboot()
    for writer in writers:
        writer.write(3)
    first = writers[0]
    memory = MemoryLog()
    with Shipper([tmp_path], quiet_seconds=0) as shipper:
        assert {path.name for path in shipper._spools} == {"hook-0@1", "hook-1@1"}
        shipper.send_to(LogOutlet(memory))
        for _ in range(9):
            shipper.step()
        check_delivery(writers[1:2], [[one for one in values if b"hook-1@" in one] for values in memory.safe])
    assert ("there are more than 2 spools; the newest wait", None) in warnings(said)
    assert first.folder.exists()


def test_a_folder_with_too_many_names_is_left_alone_and_the_others_go_on(tmp_path, said, monkeypatch):
    monkeypatch.setattr(spool_folder, "SPOOL_NAMES", 10)
    hostile, writer = SpoolWriter(tmp_path, "hook-a"), SpoolWriter(tmp_path, "hook-b")
    hostile.write(3)
    writer.write(3)
    for number in range(20):
        (hostile.folder / f"x{number}").touch()
    check_delivery([writer], steps(tmp_path))
    assert [what for what, _ in warnings(said)] == ["a spool can't be read; retrying"]
    for number in range(20):
        (hostile.folder / f"x{number}").unlink()
    check_delivery([hostile], [[one for one in values if b"hook-a" in one] for values in steps(tmp_path)])


def test_the_warnings_about_one_spool_are_limited(tmp_path, said, monkeypatch):
    monkeypatch.setattr(shipping, "SPOOL_WARNINGS", 5)
    writer = SpoolWriter(tmp_path, "hook-a")
    writer.write(3)
    for number in range(100, 150):
        os.mkfifo(writer.folder / f"{number:020d}.jsonl")
    check_delivery([writer], steps(tmp_path))
    assert len(warnings(said)) == 6
    assert "further warnings" in warnings(said)[-1][0]
