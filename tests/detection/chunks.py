"""Prove many seeds in chunks whose results are saved, so that an interrupted run resumes where it stopped.

Results are saved by the digest of the core's and the proof's source: other code never uses them.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tests.detection.proof import Proof, prove

CODE = Path(__file__).parents[2]
CHUNK = 16
"""The number of seeds of a chunk."""
RESULTS = Path(".rebalance-watch/detection")
"""The default folder of saved results."""
_DECODER = msgspec.msgpack.Decoder(Proof)


def digest() -> str:
    """Return the digest of the core's and the proof's source."""
    files = sorted([*(CODE / "rebalance_model").rglob("*.py"), *Path(__file__).parent.glob("*.py")])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:16]


def resume(folder: Path, seeds: range, processes: int = 1, *, popped: bool = False) -> Iterator[Proof]:
    """Yield the result of each chunk: the saved one, or that of running its seeds, which is then saved.

    With ``popped`` they are those of `pop_generator`.
    """
    saved = folder / digest() / "popped" if popped else folder / digest()
    saved.mkdir(parents=True, exist_ok=True)
    for first in range(seeds.start, seeds.stop, CHUNK):
        chunk = range(first, min(first + CHUNK, seeds.stop))
        file = saved / f"{first}-{chunk.stop}.msgpack"
        if file.exists():
            yield _DECODER.decode(file.read_bytes())
            continue
        result = Proof()
        for one in prove(chunk, processes, popped=popped):
            result.add(one)
        part = file.with_suffix(".part")
        part.write_bytes(msgspec.msgpack.encode(result))
        part.replace(file)
        yield result
