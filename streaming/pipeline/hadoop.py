"""Spark's checkpoints on a Hadoop file system: HDFS, or an object store by S3A (`storage.checkpoints`).

Spark writes a file of a checkpoint under another name and renames it. S3A renames by copying, which is whole or not
there, too; but it does not notice that another run has made the same file. So only one run may work on them at a time.
"""

from streaming.base.place import keys_of, region_of
from streaming.base.settings import Settings
from streaming.pipeline.scratch import scratch_folder

_S3A = "s3a://"
_PROPERTY = "spark.hadoop.fs.s3a."
_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"


def checkpoint_url(settings: Settings, query: str) -> str:
    """Return where Spark keeps the checkpoint of a query."""
    elsewhere = settings.storage.checkpoints.rstrip("/")
    return f"{elsewhere}/{query}" if elsewhere else str(settings.runtime.checkpoints / query)


def uses_s3a(settings: Settings) -> bool:
    """Return whether Spark needs the client of S3."""
    return settings.storage.checkpoints.startswith(_S3A)


def s3a_properties(settings: Settings) -> dict[str, str]:
    """Return the properties of Hadoop's client of S3 that hold no secret."""
    storage = settings.storage
    properties = {
        "endpoint": storage.endpoint,
        "endpoint.region": region_of(storage),
        "path.style.access": str(storage.path_style).lower() if storage.endpoint else "",
        "buffer.dir": str(scratch_folder(settings.runtime.root / "spark")),
        "input.stream.type": "classic",  # one request a file; the default prefetches parts of Parquet files
    }
    return {f"{_PROPERTY}{name}": value for name, value in properties.items() if value}


def s3a_keys(settings: Settings) -> dict[str, str]:
    """Return the keys as properties, which Spark redacts by their names; none: AWS's own are used.

    Raises:
        SettingsError: they do not fit together, or a file can't be read.
    """
    access_key, secret_key, token = keys_of(settings.storage)
    properties = {
        "access.key": access_key,
        "secret.key": secret_key,
        "session.token": token,
        "aws.credentials.provider": _TEMPORARY if token else "",
    }
    return {f"{_PROPERTY}{name}": value for name, value in properties.items() if value}
