"""Blobs of this state version load, and the fold goes on from them; older ones are refused in one sentence.

``python -m tests.core.test_state_blobs`` notes a field that was added at an end with a default: the version stays, and
its blobs, which lack the field, are kept as they are. Any other change needs a new version, whose blobs it adds.
"""

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from rebalance_model.observe.engine.salvage import Saved, ShardState
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.state import STATE_VERSION, GroupState, StateVersionError, decode_group
from tests.core.test_shard import LOG, POLICY
from tests.support.folding import Fold
from tests.support.hook_trace import A, B

BLOBS = Path(__file__).with_name("blobs")
ROOT = Path(__file__).parents[2]
HALF = len(LOG) // 3


def fold_first_part() -> tuple[Saved, GroupsInMemory]:
    fold = Fold(POLICY)
    for event in LOG[:HALF]:
        fold.push(event)
    return fold.shard.flush(), fold.groups


def saved() -> tuple[Saved, GroupsInMemory]:
    shard, groups = msgspec.msgpack.decode(
        (BLOBS / f"v{STATE_VERSION}.msgpack").read_bytes(), type=tuple[Saved, dict[str, bytes]]
    )
    return shard, GroupsInMemory(groups)


@pytest.mark.parametrize("version", range(1, STATE_VERSION))
def test_a_blob_of_another_release_is_refused(version):
    """A shard's own blob is read first: its groups are of the same version."""
    kept = (BLOBS / f"v{version}.msgpack").read_bytes()
    shard, _ = msgspec.msgpack.decode(kept, type=tuple[bytes | Saved, dict[str, bytes]])
    sentence = f"of version {version}, this release reads only version {STATE_VERSION}: use the older release"
    with pytest.raises(StateVersionError, match=sentence):
        Shard(shard if isinstance(shard, Saved) else Saved(shard), GroupsInMemory(), POLICY)


def test_a_blob_of_a_newer_release_is_refused_before_what_it_holds_is_read():
    """Its fields may be any: only the version is looked at."""
    newer = msgspec.msgpack.encode({"version": STATE_VERSION + 1, "waiting": "of another form", "more": [1]})
    sentence = f"of version {STATE_VERSION + 1}, this release reads only .*: use the newer release that wrote it"
    with pytest.raises(StateVersionError, match=sentence):
        Shard(Saved(newer), GroupsInMemory(), POLICY)


def test_a_blob_loads_and_is_sound():
    _, groups = saved()
    assert set(groups) == {"c/g", "c/h", "progress c/g", "progress c/h"}
    for key in ("c/g", "c/h"):
        state = decode_group(groups[key])
        state.validate()
        assert state.key == key
        assert {"a", "b"} <= set(state.members)
        assert set(state.views) == {A, B}
        assert state.incidents


def test_the_fold_goes_on_from_a_blob():
    shard, groups = saved()
    effects = Fold(POLICY, shard, groups).all(LOG[HALF:])
    assert {type(effect).__name__ for effect in effects} >= {"RebalanceSettled", "IncidentTransition", "QueueSnapshot"}


def test_two_processes_leave_the_same_bytes():
    """Sets of names have another order in each, so the state has none."""
    printed = "from tests.core.test_state_blobs import fold_first_part as f; s, g = f(); print(s, sorted(g.items()))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", printed], env={"PYTHONHASHSEED": seed}, cwd=ROOT, capture_output=True, check=True
        ).stdout
        for seed in "12"
    ]
    assert runs[0] == runs[1] != b""


def form() -> bytes:
    """The fields of everything that is kept, in their order."""
    (_, parts) = msgspec.json.schema_components([GroupState, ShardState])
    fields = {name: list(part.get("properties", part.get("prefixItems", []))) for name, part in parts.items()}
    named = {kind.__name__: list(kind.__struct_fields__) for kind in (GroupState, ShardState)}
    return msgspec.json.format(msgspec.json.encode(fields | named, order="deterministic"), indent=1)


def extends(kept: bytes, present: bytes) -> bool:
    """Return whether the present form has all fields of the kept one in their places, and others only after them."""
    before, now = msgspec.json.decode(kept), msgspec.json.decode(present)
    return all(now.get(name, [])[: len(fields)] == fields for name, fields in before.items())


def test_the_form_of_the_state_is_the_noted_one():
    assert form() == (BLOBS / f"v{STATE_VERSION}.json").read_bytes()


def test_only_a_field_at_the_end_keeps_the_version():
    assert extends(b'{"A":["x"]}', b'{"A":["x","y"],"B":[]}')
    assert not extends(b'{"A":["x"]}', b'{"A":["y","x"]}')
    assert not extends(b'{"A":["x","y"]}', b'{"A":["x"]}')
    assert not extends(b'{"A":["x"]}', b'{"B":["x"]}')


if __name__ == "__main__":
    blobs, noted = (BLOBS / f"v{STATE_VERSION}.{kind}" for kind in ("msgpack", "json"))
    if noted.exists() and not extends(noted.read_bytes(), form()):
        raise SystemExit(f"Another form than that of version {STATE_VERSION}: increment STATE_VERSION.")
    if not blobs.exists():
        shard_blob, groups = fold_first_part()
        blobs.write_bytes(msgspec.msgpack.encode((shard_blob, dict(groups))))
    noted.write_bytes(form())
