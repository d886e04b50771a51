"""The state that the operator goes on from after a rebuild: one MessagePack file for each shard.

The operator's checkpoint stays, and with it how far the log was read. A shard whose state was made by an earlier
rebuild, or by none, takes the seed in its place when its next rows come. Spark's own ``initialState`` is for a new
checkpoint alone, which would begin the log anew: files are listed again, and what the position's batch had appended to
`queue_progress` would be appended twice.
"""

from pathlib import Path

import msgspec

from checkpoints.generation import replace
from rebalance_model.observe.engine.shard import Saved
from streaming.errors import UserError


class Seed(msgspec.Struct, frozen=True):
    """A shard's state."""

    until: int
    """It has folded the offsets below."""
    saved: Saved
    groups: dict[str, bytes]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Seed)


def write_seed(folder: Path, partition: int, seed: Seed) -> None:
    """Keep the state of one shard."""
    folder.mkdir(parents=True, exist_ok=True)
    replace(_file(folder, partition), _ENCODER.encode(seed))


def read_seed(folder: Path, partition: int) -> Seed | None:
    """Return the state of one shard; None: the rebuild had no rows of it.

    Raises:
        UserError: the seeds are gone.
    """
    try:
        return _DECODER.decode(_file(folder, partition).read_bytes())
    except FileNotFoundError:
        if folder.is_dir():
            return None
        raise UserError(
            f"The state that the rebuild made is gone ({folder}): restore it, or remove the checkpoints and the tables "
            "and start anew."
        ) from None


def _file(folder: Path, partition: int) -> Path:
    return folder / f"{partition}.msgpack"
