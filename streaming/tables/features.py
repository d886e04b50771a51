"""Delta's table features: those with which this program's readers and writers are right, and the refusal of others.

A table's protocol says what a reader or a writer must understand. Somebody may raise it: with deletion vectors, for
example, a row that another engine has deleted is still in its file, and a reader that does not know them shows it. So
each table is looked at when it is opened, and one with a feature that is not listed here is refused, by name. As the
protocol has it, a reader needs only the reader features: a table that can't be written may still be shown.
"""

from collections.abc import Iterator
from urllib.parse import unquote

from deltalake import DeltaTable

from streaming.base.errors import UserError

READ = {
    "timestampNtz": "a type of columns, and no column that is read has it",
    "vacuumProtocolCheck": "is about removing files, not about reading them",
}
"""Reader features that are handled, and why; of the versions without a list, 1 has none."""
WRITTEN = {
    "timestampNtz": READ["timestampNtz"],
    "appendOnly": "matters only with `delta.appendOnly = true`, which is refused, because rows are dropped",
    "invariants": "appends check them; merged and rebuilt rows are rows that were appended",
    "checkConstraints": "matters only with a constraint, which is refused, because rebuilt rows are not checked",
    "changeDataFeed": "a commit adds rows or removes them, never both in a file, so it needs no files of changes",
    "generatedColumns": "implied by version 4; no column that is written is one",
}
"""Writer features that are handled, and why; the versions up to 4 imply some of them."""
_READER_VERSION, _WRITER_VERSION = 1, 4
"""The highest versions without a list of features, all of whose features are handled."""
_TABLE_FEATURES = 3, 7
"""The versions of reader and writer from which on the protocol lists its features."""
_IMPLIED = "columnMapping"
"""What reader version 2 implies, and writer version 5 (6 adds identityColumns)."""


def check_readable(delta: DeltaTable) -> None:
    """Check that the rows of a table are read as they are.

    Raises:
        UserError: it has a reader feature that is not handled.
    """
    protocol = delta.protocol()
    if protocol.min_reader_version < _TABLE_FEATURES[0]:
        named = [_IMPLIED] if protocol.min_reader_version > _READER_VERSION else []
    else:
        named = [name for name in sorted(protocol.reader_features or ()) if name not in READ]
    for feature in named:
        raise _refusal(delta, f"the Delta feature {feature}", "read")


def check_writable(delta: DeltaTable) -> None:
    """Check that rows of a table may be appended, merged, dropped and replaced.

    Raises:
        UserError: it has a feature that is not handled, or a property that forbids some of this.
    """
    check_readable(delta)
    for what in _unwritten(delta):
        raise _refusal(delta, what, "write")


def _unwritten(delta: DeltaTable) -> Iterator[str]:
    """Yield what a writer must know, or keep to, and this program does not."""
    protocol, properties = delta.protocol(), delta.metadata().configuration
    if protocol.min_writer_version < _TABLE_FEATURES[1]:
        named = [_IMPLIED] if protocol.min_writer_version > _WRITER_VERSION else []
    else:
        named = [name for name in sorted(protocol.writer_features or ()) if name not in WRITTEN]
    yield from (f"the Delta feature {name}" for name in named)
    if properties.get("delta.appendOnly", "").lower() == "true":
        yield "the property delta.appendOnly"
    constraints = (name for name in properties if name.startswith("delta.constraints."))
    yield from (f"the constraint {name.removeprefix('delta.constraints.')}" for name in constraints)


def _refusal(delta: DeltaTable, what: str, verb: str) -> UserError:
    place = unquote(delta.table_uri.removeprefix("file://").rstrip("/"))
    return UserError(
        f"The table {place.rpartition('/')[2]} has {what}, with which this program does not {verb} it: "
        f"restore the version before it with Spark (RESTORE TABLE delta.`{place}`, see schemas/BUILDING.md), or tables "
        "and checkpoints from one backup."
    )
