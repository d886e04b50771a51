import gzip

import msgspec
import pytest

from rebalance_model.observe.events import ConsumeStats, Tick
from streaming.errors import UserError
from streaming.log.recording import Recorder, recorded_rows
from streaming.log.rows import encode, rows_of

TICK = Tick(time=5, cluster="C", source="poll", source_id="p@1", seq=1)
STATS = ConsumeStats(time=5, cluster="C", source="poll", source_id="p@1", seq=1, group="g", queues=())


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_what_is_recorded_comes_back_as_the_rows_of_the_log(tmp_path, name):
    events = [STATS, TICK, msgspec.structs.replace(STATS, seq=2)]
    with Recorder(tmp_path / name) as recorder:
        recorder.publish(events)
    assert list(recorded_rows(tmp_path / name, 4)) == [rows_of(event, encode(event), 4) for event in events]


def test_a_recording_shows_when_it_is_complete(tmp_path):
    recorder = Recorder(tmp_path / "r.jsonl")
    recorder.publish([TICK])
    assert not (tmp_path / "r.jsonl").exists()
    recorder.close()
    assert (tmp_path / "r.jsonl").read_bytes() == encode(TICK) + b"\n"


def test_a_recording_without_an_event_leaves_nothing_and_replaces_nothing(tmp_path):
    (tmp_path / "r.jsonl").write_bytes(b"older")
    Recorder(tmp_path / "r.jsonl").close()
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"older"]


def test_lines_that_are_no_events_go_as_they_are_to_partition_0(tmp_path):
    bad = [b"", b"{", b"\xff\xfe", b'{"type":"NEWER"}', b'{"a":\r1}', encode(TICK) + b"\r"]
    lines = [*bad, encode(STATS)]
    (tmp_path / "r.jsonl").write_bytes(b"\n".join(lines))  # and the last line has no end
    rows = [row for line in recorded_rows(tmp_path / "r.jsonl", 4) for row in line]
    unkeyed = [row for row in rows if row.key is None and row.partition == 0]
    assert [row.value for row in unkeyed] == bad
    assert rows[-1] == rows_of(STATS, encode(STATS), 4)[0]


def test_a_torn_recording_says_how_far_it_goes(tmp_path):
    data = gzip.compress(b"".join(encode(msgspec.structs.replace(STATS, seq=seq)) + b"\n" for seq in range(5000)))
    (tmp_path / "r.jsonl.gz").write_bytes(data[:-20])
    with pytest.raises(UserError, match=r"torn after line \d+"):
        list(recorded_rows(tmp_path / "r.jsonl.gz", 4))


def test_a_recording_that_is_not_there_or_not_compressed_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="can't be read"):
        list(recorded_rows(tmp_path / "none.jsonl", 4))
    (tmp_path / "r.jsonl.gz").write_bytes(b"plain\n")
    with pytest.raises(UserError, match="damaged after line 0"):
        list(recorded_rows(tmp_path / "r.jsonl.gz", 4))
