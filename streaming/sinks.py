"""From a micro-batch to Delta tables, each row once.

Spark runs `foreachBatch` again for a batch that did not finish. So each append carries Delta's ``txnAppId`` (query,
table and checkpoint generation) and ``txnVersion`` (the batch): Delta skips one that it has. A batch is persisted
before it is written, or each append would run the stateful operator again. Only tables that have rows are appended to:
each commit costs 0.4 s.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention

from checkpoints.generation import app_id
from rebalance_model.observe.effects import TABLE_OF
from schemas.spark import spark_schema
from schemas.tables import PARTITIONED_BY

ROWS_PER_FILE = 250_000
"""A batch's rows of one table go into one file up to so many: small files are what slows the readers."""


@dataclass(frozen=True)
class TableSink:
    """Appends one query's batches to its tables."""

    tables: Path
    query: str
    generation: str

    def append(self, rows: DataFrame, table: str, *, batch_id: int, count: int) -> None:
        """Append a batch's rows of one table, unless that was done before.

        Args:
            rows: in the table's schema, from a batch that is persisted and counted: fewer partitions of anything
                else would run what made it in fewer tasks.
            table: the table's name.
            batch_id: the batch's number within the checkpoint.
            count: how many rows there are.
        """
        (
            rows.coalesce(-(-count // ROWS_PER_FILE))
            .write.format("delta")
            .mode("append")
            .partitionBy(*PARTITIONED_BY.get(table, ()))
            .option("txnAppId", app_id(self.query, table, self.generation))
            .option("txnVersion", batch_id)
            .save(str(self.tables / table))
        )


@contextmanager
def persisted(batch: DataFrame) -> Iterator[DataFrame]:
    """Keep a batch while it is written; on disk what does not fit, so that nothing makes it anew."""
    batch.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield batch
    finally:
        batch.unpersist()


def write_effects(batch: DataFrame, sink: TableSink, batch_id: int) -> None:
    """Append a batch of effects, evidence before what rests on it: an anomaly that is visible has its evidence."""
    with persisted(batch):
        counts = {row["kind"]: row["count"] for row in batch.groupBy("kind").count().collect()}
        for table in TABLE_OF.values():
            if table in counts:
                sink.append(_rows_of(batch, table), table, batch_id=batch_id, count=counts[table])


def _rows_of(batch: DataFrame, table: str) -> DataFrame:
    effects = batch.where(F.col("kind") == table)
    row = F.from_json("payload", spark_schema(table), {"mode": "FAILFAST"})
    return effects.select(row.alias("row")).select("row.*")
