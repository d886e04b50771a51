"""The state from which the operator continues after a rebuild: one MessagePack file for each shard.

The operator's checkpoint stays, and with it the position in the log. A shard whose state was made by an earlier
rebuild, or by none, takes the seed instead when its next rows come. Spark's own ``initialState`` works with a new
checkpoint only, which would read the log from its beginning: files are listed again, and the rows that the position's
batch had appended to `queue_progress` would be appended twice.
"""

from pathlib import Path

import msgspec

from rebalance_model.observe.engine.shard import Saved
from streaming.base.errors import UserError
from streaming.base.files import replace_atomically


class Seed(msgspec.Struct, frozen=True):
    """A shard's state."""

    until: int
    """It has folded the offsets below."""
    saved: Saved
    groups: dict[str, bytes]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Seed)


def write_seed(folder: Path, partition: int, seed: Seed) -> None:
    """Write the state of one shard."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_atomically(_file(folder, partition), _ENCODER.encode(seed))


def read_seed(folder: Path, partition: int) -> Seed | None:
    """Return the state of one shard; None if the rebuild had no rows of it.

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
