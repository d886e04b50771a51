"""Long proofs in parts: what a chunk of seeds has shown is kept, so that a run that was stopped goes on where it was.

Kept by the digest of all code that has a say: a chunk that other code was proved by is never taken for this one's.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.detection.proof import Proof, prove

CODE = Path(__file__).parents[2]
CHUNK = 16
KEPT = Path(".rebalance-watch/detection")
"""Where the results of whole chunks are kept, unless another folder is named."""
_DECODER = msgspec.msgpack.Decoder(Proof)


def digest() -> str:
    """Of the core's and the proof's source."""
    files = sorted([*(CODE / "rebalance_model").rglob("*.py"), *Path(__file__).parent.glob("*.py")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def resume(folder: Path, seeds: range, processes: int = 1) -> Iterator[Proof]:
    """What each chunk has shown: from the folder where a former run has kept it, else by running its seeds."""
    kept = folder / digest()
    kept.mkdir(parents=True, exist_ok=True)
    for first in range(seeds.start, seeds.stop, CHUNK):
        chunk = range(first, min(first + CHUNK, seeds.stop))
        file = kept / f"{first}-{chunk.stop}.msgpack"
        if file.exists():
            yield _DECODER.decode(file.read_bytes())
            continue
        shown = Proof()
        for one in prove(chunk, processes):
            shown.take(one)
        part = file.with_suffix(".part")
        part.write_bytes(msgspec.msgpack.encode(shown))
        part.replace(file)
        yield shown
