"""Let the queries' checkpoints follow a root, or a log of files, to another folder, as after it was moved or restored.

Spark's file source knows the files that it has read by their addresses. In another folder every file would be new to
it, and every row would be read again. So the addresses in its lists are rewritten; the log's id shows that it is the
same log. The description of the operator's state has the addresses of its schemas, which are in the checkpoint itself.
Delta's tables and all else below the root have only relative paths.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from checkpoints.manifest import Basis
from checkpoints.spark_files import checksum_of, is_as_written, numbers, read_lines, refusal
from checkpoints.state_files import DESCRIPTIONS
from streaming.base.errors import UserError
from streaming.base.files import replace_atomically

_FILES = "files "
"""How the source of a log of files begins; its folder follows."""
_ADDRESS = re.compile(r"(file:(?://)?)(/.*)")
_SCHEMA = re.compile(r'"(file:(?://)?)/[^"]*(/state/\d+/_stateSchema/[^"]*)"')
"""The address of a schema in a description: its scheme, and its path below the checkpoint."""
_LEGAL = "/_-!.~'()*,;:$&+=@"
"""What java.net.URI leaves in a path as it is, beside letters, digits and what is not ASCII."""


def has_moved(kept: Basis, now: Basis) -> bool:
    """Return whether the log is the same one, of files, in another folder than before."""
    are_files = kept.source.startswith(_FILES) and now.source.startswith(_FILES)
    return are_files and kept.source != now.source and bool(kept.log.log) and kept.log.log == now.log.log


def follow(checkpoint: Path, kept: Basis, now: Basis) -> None:
    """Rewrite the addresses of the log's files in a query's checkpoint; what is rewritten already stays.

    Raises:
        UserError: a list of files is not whole, or has files of another folder.
    """
    former, folder = (_address(basis.source.removeprefix(_FILES)) for basis in (kept, now))
    for file in sorted((checkpoint / "sources" / "0").glob("[0-9]*")):
        if (entries := read_lines(file)) is None:
            raise refusal(file)
        version = file.read_bytes().partition(b"\n")[0].decode()
        lines = [version, *_moved(entries, former, folder, file)]
        checksum_of(file).unlink(missing_ok=True)  # before: without checksums a file counts as whole
        replace_atomically(file, "\n".join(lines).encode())


def follow_itself(checkpoint: Path) -> None:
    """Rewrite the addresses of the state's schemas in the descriptions of a query's state, if they are not here."""
    for number in numbers(checkpoint / DESCRIPTIONS):
        file = checkpoint / DESCRIPTIONS / str(number)
        if not is_as_written(file):
            continue  # whether it is needed is checked later
        text = file.read_text("utf-8")
        moved = _SCHEMA.sub(lambda found: f'"{found[1]}{_address(str(checkpoint.resolve()))}{found[2]}"', text)
        if moved != text:
            checksum_of(file).unlink(missing_ok=True)
            replace_atomically(file, moved.encode())


def _moved(entries: list[dict[str, object]], former: str, folder: str, file: Path) -> Iterator[str]:
    for entry in entries:
        found = _ADDRESS.fullmatch(str(entry["path"]))
        scheme, path = found.groups() if found else ("", "")
        base = next((one for one in (former, folder) if path.startswith(f"{one}/partition=")), None)
        if base is None:
            raise UserError(
                f"{file} has a file of another folder than that of the log ({entry['path']}): restore source.path, or "
                "start under a new runtime.root, which reads the log from its beginning."
            )
        moved = entry | {"path": f"{scheme}{folder}{path[len(base) :]}"}
        yield json.dumps(moved, ensure_ascii=False, separators=(",", ":"))


def _address(folder: str) -> str:
    """Return the path of a folder as it is in the addresses that Hadoop makes."""
    return "".join(letter if ord(letter) > ord("~") else quote(letter, safe=_LEGAL) for letter in folder)
