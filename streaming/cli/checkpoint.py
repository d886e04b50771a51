"""`rebalance-watch checkpoint`: what the checkpoints say; nothing is changed."""

from collections.abc import Iterator

import msgspec
import typer

from streaming.base.settings import load_settings
from streaming.cli.options import TableOrJsonOption

app = typer.Typer(help="Look at the checkpoints of the job.", no_args_is_help=True)


class QueryPosition(msgspec.Struct, frozen=True):
    """The position up to which a query has read the log."""

    query: str
    batch: int | None
    """The last batch that was started; None before the first."""
    is_finished: bool
    """True if it is finished; else the next start repeats it."""
    position: dict[int, int]
    """By partition the offset after the last row of the finished batches."""


class Checkpoints(msgspec.Struct, frozen=True):
    """The checkpoints of a runtime root."""

    generation: str
    source: str
    partitions: int
    state_partitions: int
    release: str
    state_version: int
    seed: str
    """The rebuild from whose state the job continues; empty: none."""
    swap: str
    """A swap of a rebuild that the next start completes; empty: none."""
    is_running: bool
    """True if a run on this machine holds them."""
    queries: tuple[QueryPosition, ...]


@app.callback()
def _group() -> None:
    """Keep `show` a subcommand while it is the only one."""


@app.command()
def show(*, output: TableOrJsonOption = "table") -> None:
    """Show what the job's state was made with, and how far each query has read the log.

    A state is made again by `rebuild`; there is no reset: a job without history needs another runtime.root.
    """
    from streaming.cli.grid import Grid, GridColumn
    from streaming.cli.output import print_table, screen

    checkpoints = _checkpoints()
    if output == "json":
        typer.echo(msgspec.json.format(msgspec.json.encode(checkpoints)).decode())
        return
    table = Grid([GridColumn("checkpoints"), GridColumn("")])
    for name, value in _lines(checkpoints):
        table.add(name, value)
    print_table(table, screen())


def _checkpoints() -> Checkpoints:
    from checkpoints.lease import is_claimed
    from checkpoints.manifest import QUERY_TABLES, read_manifest
    from checkpoints.position import last_batch, position_of_query, unfinished_batch
    from streaming.base.errors import UserError
    from streaming.base.place import queries_of

    settings = load_settings()
    here = settings.runtime.checkpoints
    manifest = read_manifest(here)
    if manifest is None:
        raise UserError(
            f"There are no checkpoints in {here}: start `rebalance-watch run` first, or set another --root."
        )
    queries, basis = queries_of(settings), manifest.basis
    return Checkpoints(
        generation=manifest.generation,
        source=basis.source,
        partitions=basis.partitions,
        state_partitions=basis.state_partitions,
        release=basis.code_version,
        state_version=basis.state_version,
        seed=manifest.seed,
        swap=manifest.swap.swap_id if manifest.swap is not None else "",
        is_running=is_claimed(here),
        queries=tuple(
            QueryPosition(
                query,
                last_batch(queries / query),
                unfinished_batch(queries / query) is None,
                position_of_query(here / query) if queries == here else {},
            )
            for query in QUERY_TABLES
        ),
    )


def _lines(checkpoints: Checkpoints) -> Iterator[tuple[str, str]]:
    yield "generation", checkpoints.generation
    yield "log", f"{checkpoints.source}, {checkpoints.partitions} partitions"
    state = f"version {checkpoints.state_version}, of release {checkpoints.release}"
    yield "state", f"{state}, in {checkpoints.state_partitions} partitions"
    yield (
        "rebuild",
        f"{checkpoints.swap}, which the next start swaps in" if checkpoints.swap else checkpoints.seed or "-",
    )
    yield "run", "a run on this machine works on them" if checkpoints.is_running else "no run on this machine"
    for progress in checkpoints.queries:
        ends = "" if progress.is_finished else ", which the next start repeats"
        yield f"{progress.query} batch", "-" if progress.batch is None else f"{progress.batch}{ends}"
        if progress.position:
            offsets = ", ".join(f"{partition}: {offset:,}" for partition, offset in sorted(progress.position.items()))
            yield f"{progress.query} has read", f"until {offsets}"
