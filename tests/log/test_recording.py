import gzip

import msgspec
import pytest

from rebalance_model.observe.events import ConsumeStats, Tick
from streaming.base.errors import UserError
from streaming.log.recording import Recorder, ended, replayed_rows
from streaming.log.rows import encode, rows_of
from tests.support.recordings import recorded_rows

TICK = Tick(time=5, cluster="C", source="poll", source_id="p@1", seq=1)
END = Tick(time=6, cluster="C", source="poll", source_id="p@1", seq=2, end=True)
STATS = ConsumeStats(time=5, cluster="C", source="poll", source_id="p@1", seq=1, broker="b", group="g", queues=())


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_what_is_recorded_comes_back_as_the_rows_of_the_log(tmp_path, name):
    events = [STATS, TICK, msgspec.structs.replace(STATS, seq=2), END]
    with Recorder(tmp_path / name) as recorder:
        recorder.publish(events)
    assert list(recorded_rows(tmp_path / name, 4)) == [rows_of(event, encode(event), 4) for event in events]


def replace(event, **fields):
    return msgspec.structs.replace(event, **fields)


def test_a_recording_ends_with_a_last_tick_of_each_source(tmp_path):
    hook = Tick(time=9, cluster="C", broker="b", broker_id=2, source="hook", source_id="hook-b@1", seq=4)
    with Recorder(tmp_path / "r.jsonl") as recorder:
        recorder.publish([TICK, hook, replace(STATS, time=70)])
    lines = (tmp_path / "r.jsonl").read_bytes().splitlines()
    ends = [replace(hook, time=1_009, seq=5, end=True), replace(TICK, time=1_070, seq=2, end=True)]
    assert lines[3:] == [encode(tick) for tick in ends]


def test_a_log_is_ended_once_for_the_newest_incarnation_of_each_source():
    first, second = (replace(TICK, source_id=f"p@{start}") for start in (9, 10))
    assert list(ended([first, second])) == [first, second, replace(second, time=1_005, seq=2, end=True)]
    assert list(ended(ended([first, second]))) == list(ended([first, second]))
    assert list(ended([first, replace(second, end=True)]))[2:] == []


def test_what_a_source_says_after_a_tick_keeps_its_end_from_being_one():
    log = [END, replace(STATS, time=80, seq=3)]
    assert list(ended(log))[2:] == [replace(TICK, time=1_080, seq=3, end=True)]


def test_two_clusters_of_one_collector_are_ended_each_with_its_own_number():
    other = replace(TICK, cluster="D", seq=2, time=6)
    ends = [replace(TICK, time=1_005, seq=3, end=True), replace(other, time=1_006, seq=4, end=True)]
    assert list(ended([TICK, other]))[2:] == ends


def test_the_end_of_a_poll_that_never_ticked_names_no_broker():
    poll = replace(STATS, broker="b")
    hook = replace(poll, source="hook", source_id="hook-b@1", broker_id=1)
    assert [(tick.broker, tick.broker_id) for tick in list(ended([poll, hook]))[2:]] == [("b", 1), ("", 0)]


def test_lines_are_ended_as_lines_and_what_is_no_event_ends_nothing():
    assert list(ended([b"{", b"\xff", encode(TICK)]))[3:] == [encode(replace(TICK, time=1_005, seq=2, end=True))]
    assert list(ended([b"{"])) == [b"{"]


def test_a_replay_ends_what_its_recording_lacks(tmp_path):
    (tmp_path / "r.jsonl").write_bytes(encode(STATS) + b"\n")
    rows = list(replayed_rows(tmp_path / "r.jsonl", 2))
    end = replace(TICK, time=1_005, end=True)
    assert rows == [rows_of(event, encode(event), 2) for event in (STATS, end)]


def test_a_recording_shows_when_it_is_complete(tmp_path):
    recorder = Recorder(tmp_path / "r.jsonl")
    recorder.publish([TICK])
    assert not (tmp_path / "r.jsonl").exists()
    recorder.close()
    assert (tmp_path / "r.jsonl").read_bytes().startswith(encode(TICK) + b"\n")


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
    with pytest.raises(UserError, match=r"incomplete after line \d+"):
        list(recorded_rows(tmp_path / "r.jsonl.gz", 4))


def test_a_recording_that_is_not_there_or_not_compressed_is_a_sentence(tmp_path):
    with pytest.raises(UserError, match="can't be read"):
        list(recorded_rows(tmp_path / "none.jsonl", 4))
    (tmp_path / "r.jsonl.gz").write_bytes(b"plain\n")
    with pytest.raises(UserError, match="damaged after line 0"):
        list(recorded_rows(tmp_path / "r.jsonl.gz", 4))
