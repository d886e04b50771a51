import gzip

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.base.errors import UserError
from streaming.base.settings import load_settings
from streaming.log.files import offset_of
from streaming.pipeline.sources import _LINES_PER_BATCH, _rows_of_files, check_source, lines_of

LINES = [f'{{"line":{number}}}'.encode() for number in range(20_000)]
PLAIN = b"".join(line + b"\n" for line in LINES)
PACKED = gzip.compress(PLAIN)


def test_lines_end_at_newlines_only():
    assert list(lines_of(b"a\r\nb\rc\n\n\xe2\x80\xa8d\x0b\n")) == [b"a\r", b"b\rc", b"", b"\xe2\x80\xa8d\x0b"]


def test_a_tail_without_newline_is_a_line_and_an_empty_file_has_none():
    assert list(lines_of(b"a\nb")) == [b"a", b"b"]
    assert list(lines_of(b"")) == []
    assert list(lines_of(gzip.compress(b""))) == []


def test_a_gzip_of_several_members_is_one_file():
    assert list(lines_of(PACKED + PACKED)) == LINES + LINES


@given(st.integers(min_value=2, max_value=len(PACKED) - 1))
def test_a_gzip_torn_anywhere_gives_its_whole_lines_and_one_tail(length):
    *lines, tail = lines_of(PACKED[:length])
    assert lines == LINES[: len(lines)]
    assert (LINES[len(lines)] if len(lines) < len(LINES) else b"").startswith(tail)


def test_damage_in_a_gzip_hides_nothing_before_it():
    wrong_checksum = PACKED[:-8] + b"\0" * 8
    assert list(lines_of(wrong_checksum)) == LINES, "the last one without its line end, which is the damaged piece's"
    assert list(lines_of(PACKED + b"no gzip")) == [*LINES, b""]


def test_rows_say_where_they_are():
    path = "file:/log/partition=3/00000000000000000007.jsonl.gz"
    batch = pa.RecordBatch.from_pylist([{"path": path, "stamp": 42, "content": PACKED}])
    rows = pa.Table.from_batches(_rows_of_files(iter([batch])))
    assert rows["value"].to_pylist() == LINES
    assert rows["offset"].to_pylist() == [offset_of(7, line) for line in range(len(LINES))]
    assert set(rows["partition"].to_pylist()) == {3}
    assert set(rows["stamp"].to_pylist()) == {42}
    assert rows["key"].null_count == len(LINES)
    assert len(LINES) > _LINES_PER_BATCH, "or the seam between two Arrow batches was not looked at"


def test_a_log_that_is_not_there_is_refused_with_what_to_do(tmp_path):
    settings = load_settings(runtime={"root": tmp_path}, source={"kind": "files"})
    with pytest.raises(UserError, match=r"no telemetry log at .* replay FILE"):
        check_source(settings)
