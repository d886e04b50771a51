"""`generation.json`, a file beside the checkpoints, and the names in tables and commits that derive from it.

It records the settings that the state was made with (`Basis`), the rebuild from which the state continues, and a swap
that was decided and may be unfinished (`Swap`). `checkpoints.generation` checks and writes it, `checkpoints.swap`
carries out the swap.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from rebalance_model.observe.policy import SNAPSHOT_INTERVAL_MIN, Policy
from schemas.contract import CommitKind, Operation, tables_of
from schemas.tables import TABLES
from streaming.base.errors import UserError
from streaming.base.files import replace_atomically
from streaming.log.identity import LogId

PROPERTY = "rebalance_watch.generation"
SWAP_MARK = "rebalance_watch.swap"
"""Marks the commits of a swap in the tables' history: such a commit replaces all rows of the table. A property of the
table has the same name, and the id of its last swap."""
OPERATOR = "operator"
ARCHIVE = "archive"
QUERY_TABLES: Mapping[str, tuple[str, ...]] = {
    OPERATOR: tables_of(Operation.RUN_OPERATOR, CommitKind.APPEND),
    ARCHIVE: tables_of(Operation.RUN_ARCHIVE, CommitKind.APPEND),
}
"""The tables that each query appends to; alert tables have no query. A query's checkpoint is the folder of its name."""

MANIFEST = "generation.json"
POLICY = "policy.toml"


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """The inputs that determine the state: with another basis the same log leads to other rows."""

    source: str
    partitions: int
    state_partitions: int
    code_version: str
    policy: Policy
    state_version: int = 1
    """The version of the operator's state; manifests before version 2 do not contain it."""
    log: LogId = LogId()
    """The ids of the log; those of earlier releases had none."""


class Swap(msgspec.Struct, frozen=True):
    """Replacement rows for tables, and the state that goes with them; paths are relative to the checkpoints."""

    swap_id: str
    tables: tuple[str, ...]
    """The tables to replace, in this order; the others stay."""
    rows: str
    """The folder with one folder of Parquet files per table."""
    seed: str
    """The id of the rebuild from whose state the operator continues; empty: the state in its checkpoint."""
    operator: str = ""
    """A copy of the operator's checkpoint that replaces it; empty: the checkpoint stays."""
    basis: Basis | None = None
    """The settings that the state was made with, possibly by another release; None: as before."""
    operation: Operation = Operation.REBUILD
    """The name of the swap in the tables' history."""
    repeated_until: dict[str, int] = {}
    """The time of the newest row of each table that stays although the operator will read the log again, epoch ms."""


class Manifest(msgspec.Struct, frozen=True):
    """The content of `generation.json`."""

    generation: str
    basis: Basis
    tables: tuple[str, ...] = tuple(TABLES)
    """The tables that existed: a table that a later release adds is created and not reported as missing."""
    seed: str = ""
    """The rebuild from whose state the operator continues; empty: the state in its checkpoint."""
    swapped: dict[str, str] = {}
    """The last swap of each table, or of the state whose rows it has, by the table's name."""
    repeated_until: dict[str, int] = {}
    """By table the time up to which the operator's rows may be there already, because it reads the log again."""
    swap: Swap | None = None
    """The swap that was decided and may be unfinished; None: there is none."""


def app_id(query: str, table: str, generation: str, swap_id: str = "") -> str:
    """Return Delta's application id for a query's appends to a table.

    A swap (`Manifest.swapped`) changes it, so that an unfinished batch appends its rows again.
    """
    return f"{query}/{table}/{generation}" + (f"/{swap_id}" if swap_id else "")


def read_manifest(checkpoints: Path) -> Manifest | None:
    """Return the manifest; None if there are no checkpoints.

    Raises:
        UserError: the file can't be read.
    """
    file = checkpoints / MANIFEST
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return None
    return decode_manifest(content, file)


def required_manifest(checkpoints: Path) -> Manifest:
    """Return the manifest.

    Raises:
        UserError: there are no checkpoints, or the file can't be read.
    """
    if (manifest := read_manifest(checkpoints)) is None:
        raise UserError(f"There are no checkpoints in {checkpoints}: start `rebalance-watch run` first.")
    return manifest


def decode_manifest(content: bytes, place: object) -> Manifest:
    """Return a manifest of any release.

    It may be of a newer one, which this one follows when an upgrade is undone: the thresholds that only that one knows
    are left out. An older one had no minimum for the snapshot interval.

    Raises:
        UserError: it can't be read.
    """
    try:
        fields = msgspec.json.decode(content, type=dict[str, Any])
        if isinstance(basis := fields.get("basis"), dict) and isinstance(policy := basis.get("policy"), dict):
            kept = {name: policy[name] for name in policy if name in Policy.__struct_fields__}
            if isinstance(groups := kept.get("group"), list):
                kept["group"] = [_with_minimum(group) for group in groups]
            basis["policy"] = _with_minimum(kept)
        return msgspec.convert(fields, Manifest)
    except msgspec.DecodeError as error:
        raise UserError(f"{place} can't be read ({error}): restore it, or start under a new runtime.root.") from None


def _with_minimum(thresholds: Any) -> Any:
    """Return the thresholds, of all groups or of an override, with a snapshot interval that this release accepts."""
    interval = thresholds.get("snapshot_interval") if isinstance(thresholds, dict) else None
    too_short = isinstance(interval, int) and interval < SNAPSHOT_INTERVAL_MIN
    return thresholds | {"snapshot_interval": SNAPSHOT_INTERVAL_MIN} if too_short else thresholds


def write_manifest(checkpoints: Path, manifest: Manifest) -> None:
    """Write the manifest, and also its policy as a file for `--policy`."""
    replace_atomically(checkpoints / POLICY, _as_toml(manifest.basis.policy).encode())
    replace_atomically(checkpoints / MANIFEST, msgspec.json.format(msgspec.json.encode(manifest)))


def _as_toml(policy: Policy) -> str:
    """Return the policy as TOML; numbers, strings and lists of them are written alike in JSON and TOML."""
    thresholds = {name: value for name, value in msgspec.structs.asdict(policy).items() if name != "group"}
    tables = [("", thresholds), *(("[[group]]\n", override) for override in policy.group)]
    return "\n".join(
        head + "".join(f"{name} = {_toml_value(value)}\n" for name, value in table.items()) for head, table in tables
    )


def _toml_value(value: object) -> str:
    if not isinstance(value, Mapping):
        return json.dumps(value, ensure_ascii=False)
    return f"{{{', '.join(f'{_toml_value(key)} = {_toml_value(of)}' for key, of in value.items())}}}"
