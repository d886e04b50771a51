"""An operator's state without any group, for a checkpoint whose own state can't be read.

Only Spark writes the form of its state store. So the operator runs for one batch without a row, under a checkpoint of
its own; what that leaves becomes the version with which the next batch begins. The rows continue from the seeds of a
rebuild (`streaming.pipeline.rebuild.folder`).
"""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention

from checkpoints.manifest import Basis
from checkpoints.spark_files import STATE, checksum_of, remove, version_of_state
from streaming.pipeline.operator import effects_of

_AS_SNAPSHOTS = {"spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "false"}
"""Setting that writes snapshots: only their names have the version; changes would be needed since the first one."""
_BYTES = tuple(f"CAST(CAST(value AS STRING) AS BINARY) AS {name}" for name in ("key", "value"))


def write_empty_state(spark: SparkSession, checkpoint: Path, *, place: Path, basis: Basis) -> None:
    """Replace the state in a copy of the operator's checkpoint by one without a group.

    ``place`` is the folder in which Spark will find it.
    """
    fresh, version = checkpoint.with_name("empty"), version_of_state(checkpoint)
    shutil.rmtree(fresh, ignore_errors=True)
    states = basis.state_partitions
    with _set(spark, _AS_SNAPSHOTS | {"spark.sql.shuffle.partitions": str(states)}):
        rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
        none = rows.where(F.rand() < 0)  # of an empty relation Spark would plan no state
        none = none.selectExpr("CAST(value AS INT) AS partition", "value AS offset", "value AS stamp", *_BYTES)
        effects = effects_of(none, basis.policy, partitions=basis.partitions, state_partitions=states, keyed=False)
        writer = effects.writeStream.option("checkpointLocation", str(fresh)).trigger(availableNow=True)
        writer.foreachBatch(lambda batch, _: batch.toArrow()).start().awaitTermination()
    state = fresh / STATE / "0"
    for snapshot in state.glob("[0-9]*/1.zip"):
        checksum_of(snapshot).unlink()
        snapshot.rename(snapshot.with_name(f"{version}.zip"))
    for description in state.glob("_metadata/v2/[0-9]*"):
        text = description.read_text("utf-8").replace(f"file:{fresh}/", f"file:{place}/")
        remove(description)
        description.write_text(text, "utf-8")
    shutil.rmtree(checkpoint / STATE, ignore_errors=True)
    (fresh / STATE).rename(checkpoint / STATE)
    shutil.rmtree(fresh)


@contextmanager
def _set(spark: SparkSession, properties: Mapping[str, str]) -> Iterator[None]:
    """Set properties of the session for the queries that start within the block."""
    before = {name: str(spark.conf.get(name)) for name in properties}
    for name, value in properties.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, former in before.items():
            spark.conf.set(name, former)
