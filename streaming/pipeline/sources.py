r"""The telemetry log as one stream of rows, from Kafka or from files.

Columns, the same from both: ``partition`` (the shard), ``offset`` (rising within it), ``key`` (Kafka's; files have
none), ``value`` (raw bytes, undecoded: a row that is not an event is rejected later, complete, with a reason) and
``stamp`` (the transport's own time of the row, epoch milliseconds: Kafka's timestamp, or the file's mtime).

Files are read whole and split at ``\n`` in Python: Spark's text source also splits at a bare ``\r``, fails on a torn
.gz and, set to ignore that, silently keeps half of it. A tail without ``\n``, or the readable part of a torn .gz's last
line, is one row. The operator checks that the files came in the order of their numbers.

An option of a source is part of the plan, which Spark prints and logs. So each secret is in an environment variable of
Spark's JVM, and the option only refers to it: the client itself puts the value in (KIP-297, EnvVarConfigProvider).
Executors on other machines get the same variables (`streaming.pipeline.spark_properties`). Their names contain SECRET,
so that Spark redacts the properties that pass them on, ``spark.executorEnv.…`` (spark.redaction.regex).
"""

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  pyspark's own convention

from checkpoints.manifest import QUERY_TABLES
from checkpoints.position import Position, position_of_query
from streaming.base.errors import UserError
from streaming.base.sections.collector import Kafka
from streaming.base.settings import Settings
from streaming.log.files import offset_of, parse_path
from streaming.log.kafka import READER_OPERATIONS, appends_with_its_own_time, offsets_of, partition_count
from streaming.log.kafka_properties import JavaProperties, connection_of, java_properties

_PROVIDERS = "config.providers"
_ENVIRONMENT_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def kafka_options(kafka: Kafka) -> dict[str, str]:
    """Return the options of Spark's Kafka source.

    Raises:
        UserError: the settings do not fit together, or a file can't be read.
    """
    properties = java_properties(kafka)
    secret = _hidden(properties)
    plain = properties.plain | {name: value for name, value in properties.secret.items() if name not in secret}
    if secret:
        others = plain.get(_PROVIDERS, "")
        plain |= {
            _PROVIDERS: f"env,{others}" if others else "env",
            f"{_PROVIDERS}.env.class": _ENVIRONMENT_PROVIDER,
        }
    references = {name: f"${{env:{_variable(name)}}}" for name in secret}
    return {f"kafka.{name}": value for name, value in (plain | references).items()}


def kafka_environment(kafka: Kafka) -> dict[str, str]:
    """Return the environment variables to which the options refer.

    Raises:
        UserError: the settings do not fit together, or a file can't be read.
    """
    return {_variable(name): value for name, value in _hidden(java_properties(kafka)).items()}


def java_options(kafka: Kafka) -> list[str]:
    """Return the system properties of Spark's JVM: the only address from which its client may take a token."""
    return [f"-D{_ALLOWED_URLS}={kafka.token_url}"] if kafka.token_url else []


def _hidden(properties: JavaProperties) -> dict[str, str]:
    return {name: value for name, value in properties.secret.items() if not _is_reference(name, value)}


def _is_reference(name: str, value: str) -> bool:
    """Return whether a property refers to a config provider, or describes one: the client resolves these only once."""
    return name.startswith(_PROVIDERS) or value.startswith("${")


def _variable(name: str) -> str:
    return f"REBALANCE_WATCH_KAFKA_SECRET_{name.upper().replace('.', '_').replace('-', '_')}"


ROWS_READ = "read"

_FILE_SCHEMA = "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY"
_FILE_NAMES = "[0-9]" * 20 + ".jsonl{,.gz}"
_ROW_SCHEMA = "partition INT, offset LONG, key BINARY, value BINARY, stamp LONG"
_ARROW_SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("stamp", pa.int64()),
    ]
)
_LINES_PER_BATCH = 2_000  # one Arrow batch to Spark: limits the memory beyond the file itself
_PIECE_BYTES = 1 << 20
_SPECIAL, _ESCAPED = re.compile(r"[\\{}\[\]*?]"), r"\\\g<0>"
_GZIP_MAGIC = b"\x1f\x8b"


def check_source(settings: Settings) -> None:
    """Check that the log exists, before anything is started.

    Raises:
        UserError: it does not exist, has another partition count than the settings, or lacks the next rows to read.
    """
    source = settings.source
    if source.kind == "files":
        if not settings.log_path.is_dir():
            raise UserError(
                f"There is no telemetry log at {settings.log_path}: fill it with `rebalance-watch replay FILE --to "
                "files` or `rebalance-watch collect poll`, or set source.path."
            )
        return
    kafka = connection_of(settings)
    count = partition_count(kafka, source.topic, *READER_OPERATIONS)
    if count != source.partitions:
        raise UserError(
            f"Kafka at {source.bootstrap_servers} has {count or 'no'} partitions of the topic {source.topic}, not "
            f"{source.partitions}: create it with `rebalance-watch topic create`, or set source.partitions."
        )
    if not appends_with_its_own_time(kafka, source.topic):
        raise UserError(
            f"The topic {source.topic} stamps rows by the producer's clock, so wrong clocks would not be detected: set "
            "its message.timestamp.type to LogAppendTime, or create a new one with `rebalance-watch topic create`."
        )
    if not settings.storage.checkpoints:
        for query in QUERY_TABLES:
            _check_position(settings, position_of_query(settings.runtime.checkpoints / query))


def _check_position(settings: Settings, position: Position) -> None:
    """Check that Kafka has the rows that a query reads next."""
    topic = settings.source.topic
    offsets = offsets_of(connection_of(settings), topic) if position else {}
    for partition, (begin, end) in offsets.items():
        at = position.get(partition, 0)
        if begin > at:
            raise UserError(
                f"Kafka has deleted rows of the topic {topic} that the job had not read (partition {partition}, "
                f"{at} to {begin - 1}): they are lost. Raise its retention.ms, and start under a new runtime.root."
            )
        if end < at:
            raise UserError(
                f"The topic {topic} ends before what the job has read of it (partition {partition}: {end}, not {at}): "
                "it was created again, or this is another Kafka. Correct source.bootstrap_servers, or start under a "
                "new runtime.root."
            )


def read_log(spark: SparkSession, settings: Settings) -> DataFrame:
    """Return the log of the settings as a stream; the metric `ROWS_READ` counts the rows of each batch."""
    log = _read_kafka(spark, settings) if settings.source.kind == "kafka" else _read_files(spark, settings)
    return log.observe(ROWS_READ, F.count(F.lit(1)).alias("rows"))


def source_identity(settings: Settings) -> str:
    """Return the identity of the log: a checkpoint's offsets are valid only for the log that it was made with."""
    source = settings.source
    return f"kafka topic {source.topic}" if source.kind == "kafka" else f"files {settings.log_path}"


def _read_kafka(spark: SparkSession, settings: Settings) -> DataFrame:
    source = settings.source
    rows = (
        spark.readStream.format("kafka")
        .options(**kafka_options(settings.kafka))
        .option("kafka.bootstrap.servers", source.bootstrap_servers)
        # Not `assign`: rows of a partition that was added later must stop the job, not stay unread.
        .option("subscribe", source.topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", source.rows_per_batch)
        .option("failOnDataLoss", "true")
        .load()
    )
    return rows.select("partition", "offset", "key", "value", F.unix_millis("timestamp").alias("stamp"))


def _read_files(spark: SparkSession, settings: Settings) -> DataFrame:
    files = (
        spark.readStream.format("binaryFile")
        .schema(_FILE_SCHEMA)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", _FILE_NAMES)
        .option("maxFilesPerTrigger", settings.source.files_per_batch)
        # Read files of any age: by default Spark ignores those that are a week older than the newest.
        .option("maxFileAge", "36500d")
        .load(_pattern_of(settings.log_path))
    )
    files = files.select("path", F.unix_millis("modificationTime").alias("stamp"), "content")
    return files.mapInArrow(_rows_of_files, _ROW_SCHEMA)


def _pattern_of(folder: Path) -> str:
    """Return the pattern that matches a folder only: Hadoop decodes no ``%20`` of a URI, and reads ``[`` as a class."""
    return f"file://{_SPECIAL.sub(_ESCAPED, str(folder))}"


def _rows_of_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path, stamp, content in zip(*(batch.column(name) for name in ("path", "stamp", "content")), strict=True):
            partition, number = parse_path(path.as_py())
            yield from _batches(partition, number, stamp.as_py(), lines_of(content.as_py()))


def _batches(partition: int, number: int, stamp: int, lines: Iterator[bytes]) -> Iterator[pa.RecordBatch]:
    first = 0
    while values := list(islice(lines, _LINES_PER_BATCH)):
        count = len(values)
        columns = (
            pa.array([partition] * count, pa.int32()),
            pa.array([offset_of(number, line) for line in range(first, first + count)], pa.int64()),
            pa.nulls(count, pa.binary()),
            pa.array(values, pa.binary()),
            pa.array([stamp] * count, pa.int64()),
        )
        yield pa.RecordBatch.from_arrays(list(columns), schema=_ARROW_SCHEMA)
        first += count


def lines_of(content: bytes) -> Iterator[bytes]:
    r"""Yield the lines of a plain or gzipped file, without their ``\n``.

    A tail without ``\n`` is a line. A .gz that is torn or damaged ends with one more line, its readable rest, which may
    be empty; so the damage is visible among the rejected rows.
    """
    tail = b""
    for piece, torn in _inflated(content) if content.startswith(_GZIP_MAGIC) else ((content, False),):
        *lines, tail = (tail + piece).split(b"\n")
        yield from lines
        if torn:
            yield tail
            return
    if tail:
        yield tail


def _inflated(content: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the pieces of a gzip file of one or more members, and whether it breaks off after the piece."""
    while content:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            before = member.copy()
            try:
                piece = member.decompress(content, _PIECE_BYTES)
            except zlib.error:
                yield _inflated_until_error(before, content), True
                return
            content = member.unconsumed_tail
            broken = not piece and not content and not member.eof
            yield piece, broken
            if broken:
                return
        content = member.unused_data


def _inflated_until_error(member: "zlib._Decompress", content: bytes) -> bytes:
    """Return the bytes before the damage, read one by one: an error loses the whole piece."""
    readable = bytearray()
    with suppress(zlib.error):
        while byte := member.decompress(content, 1):
            readable += byte
            content = member.unconsumed_tail
    return bytes(readable)
