"""The folder of the rebuilds: what is kept for an undo, and what is removed."""

import msgspec
import pytest

from checkpoints.manifest import Manifest
from streaming.pipeline.rebuild.folder import MANIFEST, Folder
from tests.support.basis import BASIS


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path)


def swapped_in(folder, rebuild_id, before):
    """Leave what a rebuild leaves that was swapped in after another."""
    for part in (folder.seeds, folder.rows, folder.shards, folder.before):
        part(rebuild_id).mkdir(parents=True)
    was = msgspec.json.encode(Manifest("generation", BASIS, seed=before))
    (folder.before(rebuild_id) / MANIFEST).write_bytes(was)


def kept(folder):
    return sorted(part.relative_to(folder.root).as_posix() for part in folder.root.glob("*/*"))


def test_the_next_rebuild_leaves_what_an_undo_of_the_last_one_needs(folder):
    for rebuild_id, before in (("a", ""), ("b", "a")):
        swapped_in(folder, rebuild_id, before)
    folder.clear("b")
    assert kept(folder) == ["a/a", "b/b", "b/before", "b/rows", "b/shards"]


def test_three_rebuilds_and_two_undos_leave_the_next_rebuild_possible(folder):
    """The third one has removed the rows from before the first one; the state of that one is current again."""
    for rebuild_id, before in (("a", ""), ("b", "a")):
        swapped_in(folder, rebuild_id, before)
    folder.clear("b")
    swapped_in(folder, "c", "b")
    folder.clear("a")
    assert kept(folder) == ["a/a"]
