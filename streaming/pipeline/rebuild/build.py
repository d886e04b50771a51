"""Derive rows and states from the archive while the job runs, and request their swap.

The archive of one partition is folded through a shard in the order of time: no source is late. It takes two passes over
the rows. The first reads only broadcasts, in the order of the log, through the job's own ordering: it determines each
source's clock offset, which sources were still active at the end, and their last ticks. The second passes all rows to a
shard, sorted by corrected time (DuckDB sorts, on disk if memory is short), so no source is behind another. Rows younger
than the last tick of any active source are only put into the buffer, as if they had arrived at one instant: the job
continues as if it had just received all of them, and waits for the slowest source as always.
"""

import secrets
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from checkpoints.generation import check_rebuild
from checkpoints.manifest import ARCHIVE, OPERATOR, Manifest, required_manifest
from checkpoints.position import Position, position_of_query
from rebalance_model.observe.effects import AnyRow
from rebalance_model.observe.engine.ordering import NEVER, Ordering, Waiting, is_known
from rebalance_model.observe.engine.salvage import Saved
from rebalance_model.observe.engine.shard import Shard
from rebalance_model.observe.events import ClockStep, Tick, source_of
from rebalance_model.observe.group_store import GroupsInMemory
from rebalance_model.observe.policy import Policy
from rebalance_model.observe.state import STATE_VERSION
from streaming.base.errors import UserError
from streaming.base.place import Place
from streaming.pipeline.archive_rows import batches, decoded
from streaming.pipeline.rebuild.folder import Folder, Ready, Seed, write_seed
from streaming.pipeline.rebuild.rows import RowFiles, keep_older, last_seq_of
from streaming.tables import ReadModel
from streaming.tables.files import literal

_FLUSH_ROWS = 50_000

_COUNT = "SELECT count(*) AS rows FROM telemetry t WHERE t.partition = $partition AND t.offset < $until"

_BROADCASTS = """
-- The last hour of ticks shows which sources are active at the end.
SELECT t.offset, t.value, t.ingest_time
FROM telemetry t
WHERE t.partition = $partition AND t.offset < $until AND t.group IS NULL AND (
    t.type <> 'TICK' OR t.ingest_time >= (
        SELECT max(o.ingest_time) - INTERVAL 1 HOUR
        FROM telemetry o
        WHERE o.partition = $partition AND o.offset < $until
    )
)
ORDER BY t.offset
"""

_IN_TIME = """
SELECT t.value, t.ingest_time, {moment} AS moment
FROM telemetry t
WHERE t.partition = $partition AND t.offset < $until
ORDER BY moment, t.offset
"""

_AS_IT_CAME = """
SELECT t.value, t.ingest_time
FROM telemetry t
WHERE t.partition = $partition AND t.offset >= $since AND t.offset < $until
ORDER BY t.offset
"""


class Survey(NamedTuple):
    """The sources of a partition, as its broadcasts show them."""

    corrections: dict[str, list[tuple[int, int]]]
    """By source: pairs of an offset and the correction of its times from this offset on, in milliseconds."""
    complete_until: int
    """The earliest last tick of the active sources, epoch milliseconds."""


class ArchivedPartition:
    """One partition's shard, folded up to an offset."""

    def __init__(self, number: int, policy: Policy, seed: Seed | None = None) -> None:
        """Start without state, or continue from a state."""
        self.number = number
        self.until = seed.until if seed is not None else 0
        """The offsets below are folded."""
        self.groups = GroupsInMemory(seed.groups if seed is not None else {})
        self._policy = policy
        saved = seed.saved if seed is not None else None
        self._shard = Shard(saved, self.groups, policy, number, contains_failures=True)

    def count(self, model: ReadModel, until: int) -> int:
        """Return how many rows `fold` will fold."""
        return int(model.rows(_COUNT, self._range(until))[0]["rows"])

    def fold(self, model: ReadModel, until: int) -> Iterator[list[AnyRow]]:
        """Fold the archive from its beginning up to an offset, in the order of time; yield the rows of each event."""
        survey = _survey(model, self._range(until), self._policy)
        stamp, pushed = 0, 0
        for value, ingested, moment in _scan(
            model, _IN_TIME.format(moment=_moment(survey.corrections)), self._range(until)
        ):
            event, size = decoded(value, ingested)
            pushed += 1
            if event is None:
                yield []
                continue
            stamp = max(stamp, min(moment, ingested))
            state = self._shard.timeline.state
            state.known_at = max(state.known_at, ingested)
            yield self._shard.push(event, stamp, size, at_once=moment >= survey.complete_until)
            if pushed % _FLUSH_ROWS == 0:
                self._shard.flush()  # memory: a group is smaller as a blob
        self.until = until

    def go_on(self, model: ReadModel, until: int) -> Iterator[list[AnyRow]]:
        """Fold newer rows of the archive up to an offset, in the order of the log, as the job does."""
        for value, ingested in _scan(model, _AS_IT_CAME, self._range(until) | {"since": self.until}):
            event, size = decoded(value, ingested)
            yield self._shard.push(event, ingested, size) if event is not None else []
        self.until = until

    def save(self) -> Saved:
        """Bring `groups` up to date; return the shard's own part."""
        return self._shard.flush()

    def _range(self, until: int) -> dict[str, object]:
        return {"partition": self.number, "until": until}


def _survey(model: ReadModel, parameters: dict[str, object], policy: Policy) -> Survey:
    ordering = Ordering(Waiting(), [], policy)
    state = ordering.state
    corrections: dict[str, list[tuple[int, int]]] = {}
    for offset, value, ingested in _scan(model, _BROADCASTS, parameters):
        event, size = decoded(value, ingested)
        if event is None:
            continue
        event = ordering.identified(event)
        if isinstance(event, ClockStep) and not is_known(event, state.sources[source_of(event)]):
            name, step = source_of(event), event.step
            steps = [(since, correction - step) for since, correction in corrections.get(name, [])[1:]]
            corrections[name] = [(0, 0), *(steps or [(0, -step)]), (offset, 0)]  # what is older is by the former clock
        ordering.push(event, ingested, size)
        for _ in ordering.released(()):
            pass
        ordering.skipped()
        if not isinstance(event, Tick):
            for name, source in state.sources.items():
                steps = corrections.get(name, [(0, 0)])
                if source.correction != steps[-1][1]:
                    corrections[name] = [*steps, (offset, source.correction)]
    speaking = [
        source.tick
        for source in state.sources.values()
        if source.tick >= 0 and not source.ended and state.elapsed - source.tick_elapsed <= ordering.limit_of(source)
    ]
    return Survey(corrections, min(speaking, default=NEVER))


def _moment(corrections: dict[str, list[tuple[int, int]]]) -> str:
    """Return SQL for a row's corrected time; a source's first correction also applies to earlier rows."""
    source = "t.cluster || '/' || regexp_replace(t.source_id, '(.)@[0-9]+$', '\\1')"
    cases = []
    for name, known in corrections.items():
        first, *later = [correction for _, correction in known[1:]]
        for (_, correction), (until, _) in pairwise(known[1:]):
            cases.append(f"WHEN {source} = {literal(name)} AND t.offset < {until} THEN {correction}")
        cases.append(f"WHEN {source} = {literal(name)} THEN {later[-1] if later else first}")
    return f"epoch_ms(t.time) - CASE {' '.join(cases)} ELSE 0 END" if cases else "epoch_ms(t.time)"


def _scan(model: ReadModel, query: str, parameters: dict[str, object]) -> Iterator[tuple[Any, ...]]:
    return chain.from_iterable(batches(model, query, parameters))


CAUGHT_UP_ROWS = 5_000
"""Rows left at which the swap is requested: the job pauses while they are folded."""
_REPORT_ROWS = 2_000

Report = Callable[[int, int], None]
"""Called with the number of folded rows, and the number of all rows."""


def build(checkpoints: Path, tables: Place, report: Report = lambda *_: None) -> Ready:
    """Fold the archive into rows and states beside the running job; return a rebuild for `Folder.announce`.

    Raises:
        UserError: there is nothing to rebuild from.
    """
    folder, manifest = Folder(checkpoints), require_manifest(checkpoints)
    rebuild_id = secrets.token_hex(8)
    folder.withdraw()
    folder.clear(manifest.seed)
    until = _common(checkpoints)
    if not until:
        raise UserError("There is nothing to rebuild: the job has not finished a batch yet.")
    with ReadModel(tables) as model:
        last_seq = last_seq_of(model)
        keep_older(model, folder.rows(rebuild_id))
        rows = RowFiles(folder.rows(rebuild_id), "row", last_seq)
        shards = _folded(model, manifest.basis.policy, until, rows, report)
    while True:
        until = _common(checkpoints)
        with ReadModel(tables) as model:
            left = sum(_go_on(shard, model, until[number], rows) for number, shard in shards.items())
        if left < CAUGHT_UP_ROWS:
            break
    rows.close()
    for number, shard in shards.items():
        saved = shard.save()
        write_seed(folder.shards(rebuild_id), number, Seed(shard.until, saved, shard.groups))
    return Ready(
        rebuild_id,
        {number: shard.until for number, shard in shards.items()},
        [(*group, seq) for group, seq in last_seq.items()],
        manifest.basis.policy,
        STATE_VERSION,
    )


def require_manifest(checkpoints: Path) -> Manifest:
    """Return the manifest of the checkpoints, whose state may be of an older release.

    Raises:
        UserError: there are none, or the state must be left to the release that made it.
    """
    manifest = required_manifest(checkpoints)
    check_rebuild(manifest.basis, checkpoints, STATE_VERSION)
    return manifest


def _common(checkpoints: Path) -> Position:
    """Return the position up to which both the operator and the archive have read."""
    operator, archive = (position_of_query(checkpoints / query) for query in (OPERATOR, ARCHIVE))
    return {number: min(offset, archive[number]) for number, offset in operator.items() if number in archive}


def _folded(
    model: ReadModel, policy: Policy, until: Position, rows: RowFiles, report: Report
) -> dict[int, ArchivedPartition]:
    shards = {number: ArchivedPartition(number, policy) for number in sorted(until)}
    total = sum(shard.count(model, until[number]) for number, shard in shards.items())
    done = 0
    report(0, total)
    for number, shard in shards.items():
        for effects in shard.fold(model, until[number]):
            rows.add(effects)
            done += 1
            if done % _REPORT_ROWS == 0:
                report(done, total)
    report(total, total)
    return shards


def _go_on(shard: ArchivedPartition, model: ReadModel, until: int, rows: RowFiles) -> int:
    folded = 0
    for effects in shard.go_on(model, until):
        rows.add(effects)
        folded += 1
    return folded
