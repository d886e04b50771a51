import gzip
import os
import time

import pytest

from streaming.base.errors import UserError
from streaming.log.files import FilePublisher, files_of, offset_of, parse_path, position_of
from streaming.log.rows import KeyedRow


def _rows(partition, *values):
    return [KeyedRow(partition, None, value) for value in values]


def _lines(root, partition):
    lines = []
    for file in files_of(root, partition):
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        assert data.endswith(b"\n")
        lines += data[:-1].split(b"\n")
    return lines


def _visible(root):
    """Return what Spark's file source would list: everything but names with a leading dot or underscore."""
    return [file for file in root.rglob("*") if file.is_file() and file.name[0] not in "._"]


def test_a_file_shows_when_it_is_complete_and_not_before(tmp_path):
    with FilePublisher(tmp_path, 2) as publisher:
        publisher.write(_rows(0, b"a", b"b"))
        assert _visible(tmp_path) == []
        publisher.flush()
        assert [file.name for file in _visible(tmp_path)] == ["00000000000000000000.jsonl.gz"]
        assert _lines(tmp_path, 0) == [b"a", b"b"]


def test_rows_keep_their_order_and_numbers_go_on_after_a_restart(tmp_path):
    for values in ([b"a", b"b"], [b"c"], [b"d"]):
        with FilePublisher(tmp_path, 2, compress=False) as publisher:
            publisher.write(_rows(1, *values))
    assert _lines(tmp_path, 1) == [b"a", b"b", b"c", b"d"]
    assert [parse_path(str(file)) for file in files_of(tmp_path, 1)] == [(1, 0), (1, 1), (1, 2)]


def test_mtimes_rise_strictly_over_restarts_and_a_clock_that_went_back(tmp_path):
    with FilePublisher(tmp_path, 3, file_bytes_max=4) as publisher:
        for value in (b"aa", b"bb", b"cc"):
            publisher.write(row for partition in range(3) for row in _rows(partition, value))
    newest = max(_visible(tmp_path), key=lambda file: file.stat().st_mtime_ns)
    ahead_ms = time.time_ns() // 1_000_000 + 3_600_000
    os.utime(newest, ns=(ahead_ms * 1_000_000, ahead_ms * 1_000_000))
    with FilePublisher(tmp_path, 3) as publisher:
        publisher.write(row for partition in range(3) for row in _rows(partition, b"dd"))
    by_mtime = sorted(_visible(tmp_path), key=lambda file: file.stat().st_mtime_ns)
    stamps = [file.stat().st_mtime_ns for file in by_mtime]
    assert len(set(stamps)) == len(stamps) == 12
    assert all(stamp % 1_000_000 == 0 for stamp in stamps)  # Spark compares milliseconds
    for partition in range(3):
        numbers = [parse_path(str(file))[1] for file in by_mtime if file.parent.name == f"partition={partition}"]
        assert numbers == [0, 1, 2, 3]


def test_a_file_holds_no_more_than_its_bound_and_every_row_is_in_one(tmp_path):
    values = [bytes([97 + number]) * (3 + number) for number in range(12)]
    with FilePublisher(tmp_path, 1, compress=False, file_bytes_max=20) as publisher:
        publisher.write(_rows(0, *values))
    assert all(file.stat().st_size <= 20 for file in files_of(tmp_path, 0))
    assert _lines(tmp_path, 0) == values


def test_a_row_over_the_bound_is_refused_and_the_rest_stays(tmp_path):
    with FilePublisher(tmp_path, 1, file_bytes_max=20) as publisher:
        publisher.write(_rows(0, b"a"))
        with pytest.raises(UserError, match="exceeds the size"):
            publisher.write(_rows(0, b"x" * 20))
    assert _lines(tmp_path, 0) == [b"a"]


def test_age_makes_a_file_visible(tmp_path):
    with FilePublisher(tmp_path, 2, roll_seconds=0.5) as publisher:
        publisher.write(_rows(0, b"a"))
        assert _visible(tmp_path) == []
        time.sleep(0.51)
        publisher.write(_rows(1, b"b"))  # as the tick does every second
        assert _lines(tmp_path, 0) == [b"a"]
        assert _lines(tmp_path, 1) == [b"b"]


def test_what_a_killed_writer_had_written_shows_after_the_next_start(tmp_path):
    with FilePublisher(tmp_path, 1, compress=False) as publisher:
        publisher.write(_rows(0, b"a"))
    killed = tmp_path / "partition=0" / f".{1:020d}.jsonl.tmp"
    killed.write_bytes(b"b\ntor")
    (tmp_path / "partition=0" / f".{2:020d}.jsonl.tmp").write_bytes(b"")
    with FilePublisher(tmp_path, 1, compress=False) as publisher:
        publisher.write(_rows(0, b"c"))
    contents = [file.read_bytes() for file in files_of(tmp_path, 0)]
    assert contents == [b"a\n", b"b\ntor", b"c\n"]
    stamps = [file.stat().st_mtime_ns for file in files_of(tmp_path, 0)]
    assert stamps == sorted(set(stamps))


def test_a_second_writer_is_refused_with_a_sentence(tmp_path):
    with FilePublisher(tmp_path, 1), pytest.raises(UserError, match="Another process writes the log"):
        FilePublisher(tmp_path, 1)
    FilePublisher(tmp_path, 1).close()  # and may have it afterwards


def test_another_partition_count_is_refused_with_a_sentence(tmp_path):
    FilePublisher(tmp_path, 8).close()
    with pytest.raises(UserError, match="8 partitions, not 4"):
        FilePublisher(tmp_path, 4)
    FilePublisher(tmp_path, 8).close()


def test_a_log_that_can_not_be_written_is_a_sentence(tmp_path):
    with FilePublisher(tmp_path, 1) as publisher:
        (tmp_path / "partition=0").rmdir()
        with pytest.raises(UserError, match="can't be written"):
            publisher.write(_rows(0, b"a"))


@pytest.mark.parametrize(
    "path",
    [
        "partition=3/00000000000000000012.jsonl",
        "/x/partition=3/00000000000000000012.jsonl.gz",
        "file:///x/partition=3/00000000000000000012.jsonl.gz",
    ],
)
def test_a_path_says_partition_and_number(path):
    assert parse_path(path) == (3, 12)


@pytest.mark.parametrize(
    "path",
    [
        "partition=3/.00000000000000000012.jsonl.tmp",
        "partition=3/12.jsonl",
        "00000000000000000012.jsonl",
        "partition=x/00000000000000000012.jsonl",
        "partition=3/00000000000000000012.jsonl.bz2",
    ],
)
def test_another_path_is_refused(path):
    with pytest.raises(ValueError, match="not a file of a log"):
        parse_path(path)


def test_offsets_rise_over_lines_and_files_and_can_be_read_back():
    positions = [(0, 0), (0, 2**24 - 1), (1, 0), (7, 12)]
    offsets = [offset_of(number, line) for number, line in positions]
    assert offsets == sorted(set(offsets))
    assert [position_of(offset) for offset in offsets] == positions
