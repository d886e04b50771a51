"""Spark's scratch files of a process that was killed."""

import multiprocessing

from streaming.pipeline.hadoop import scratch_folder


def leave(folder):
    """Make files in a folder of this process's own, which then ends."""
    (scratch_folder(folder) / "blockmgr-1").mkdir()


def test_a_start_removes_what_a_killed_process_left_and_nothing_else(tmp_path):
    foreign = tmp_path / "warehouse"
    foreign.mkdir()
    killed = multiprocessing.get_context("spawn").Process(target=leave, args=(tmp_path,))
    killed.start()
    killed.join()
    [left] = tmp_path.glob("run-*")
    assert (left / "blockmgr-1").is_dir()

    mine = scratch_folder(tmp_path)
    assert set(tmp_path.iterdir()) == {mine, foreign}

    running = multiprocessing.get_context("spawn").Process(target=leave, args=(tmp_path,))
    running.start()
    running.join()
    assert mine.is_dir()
    assert scratch_folder(tmp_path) == mine
