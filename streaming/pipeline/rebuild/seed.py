"""The state from which the operator continues after a rebuild: one MessagePack file for each shard.

The operator's checkpoint stays, and with it the position in the log. A shard whose state is not from this rebuild is
replaced by its seed when its next rows arrive. Spark's own ``initialState`` works only with a new checkpoint, which
would read the log from its beginning: files would be listed again, and the rows that the last batch had appended to
`queue_progress` would be appended twice.
"""

from pathlib import Path

import msgspec

from rebalance_model.observe.engine.salvage import Saved
from streaming.base.errors import UserError
from streaming.base.files import replace_atomically


class Seed(msgspec.Struct, frozen=True):
    """A shard's state."""

    until: int
    """The offsets below are folded."""
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
        UserError: the folder of the seeds is missing.
    """
    try:
        return _DECODER.decode(_file(folder, partition).read_bytes())
    except FileNotFoundError:
        if folder.is_dir():
            return None
        raise UserError(
            f"The state of the last rebuild is missing ({folder}): restore it, or remove the checkpoints and the "
            "tables and start again."
        ) from None


def _file(folder: Path, partition: int) -> Path:
    return folder / f"{partition}.msgpack"
