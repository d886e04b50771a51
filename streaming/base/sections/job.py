"""The settings of the streaming job and of its quality gate."""

import re
from pathlib import Path
from typing import Any

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from streaming.base.sections.section import Section

_MASTER = re.compile(r"local|spark://[^\s,:]+:\d+(,[^\s,:]+:\d+)*|yarn|k8s://\S+")
_SET_OTHERWISE = {
    "spark.master": "job.master",
    "spark.cores.max": "job.cores",
    "spark.driver.memory": "job.driver_memory",
    "spark.sql.shuffle.partitions": "job.state_partitions",
    "spark.submit.deployMode": "the job: the driver is its own process",
    "spark.jars": "the job: use spark.driver.extraClassPath and spark.executor.extraClassPath",
}
"""Properties of Spark that the section [spark] can't set, and what sets them."""


class Job(Section):
    """The streaming job."""

    trigger_seconds: float = Field(ge=0)
    archive_trigger_seconds: float = Field(ge=0)
    state_partitions: int = Field(ge=1, le=256)
    master: str
    cores: int = Field(ge=1)
    driver_memory: str
    environment: str

    @field_validator("master")
    @classmethod
    def _is_known(cls, master: str) -> str:
        if not _MASTER.fullmatch(master):
            raise ValueError("should be local, spark://HOST:PORT, yarn or k8s://https://HOST:PORT")
        return master

    @property
    def is_local(self) -> bool:
        """Return whether Spark runs in this process's JVM alone, without executors elsewhere."""
        return self.master == "local"


def spark_properties(properties: dict[str, Any]) -> dict[str, Any]:
    """Return properties of Spark; refuse those that are not its own, or that other settings set."""
    for name, value in properties.items():
        if isinstance(value, dict) or not name.startswith("spark."):
            raise ValueError('write the full name of a property in quotes: "spark.executor.memory" = "4g"')
        if name in _SET_OTHERWISE:
            raise ValueError(f"{name} is set by {_SET_OTHERWISE[name]}")
    return properties


class Quality(Section):
    """The quality gate of the tables."""

    check_seconds: float = Field(ge=0)
    suites: str
    """A folder; empty: only the suites of the program."""
    optional: tuple[str, ...]
    """The optional suites of the program that are switched on."""


_NOT_IN_PATHS = re.compile(r"[][\\^|{}*?,\x00-\x1f\x7f]|%[0-9A-Fa-f]{2}")
"""Characters that can't be in the path of a root: delta-rs decodes a path twice and parses it as a URL; Spark takes the
folders of its jars for patterns, and commas for the ends of names."""


class Runtime(Section):
    """The folders of all files that are created at run time."""

    root: Path
    jars: Path

    @field_validator("root")
    @classmethod
    def _absolute(cls, root: Path) -> Path:
        absolute = root.expanduser().resolve()
        if found := _NOT_IN_PATHS.search(str(absolute)):
            raise ValueError(f"Spark and Delta can't use a folder with {found[0]!r} in its path: choose another one")
        return absolute

    @field_validator("jars", mode="before")
    @classmethod
    def _under_root(cls, jars: object, info: ValidationInfo) -> object:
        if not isinstance(jars, str | Path):
            return jars  # refused as no path
        return Path(jars).expanduser().resolve() if str(jars) else info.data.get("root", Path()) / "jars"

    @property
    def tables(self) -> Path:
        """The Delta tables."""
        return self.root / "tables"

    @property
    def checkpoints(self) -> Path:
        """The streaming checkpoints."""
        return self.root / "checkpoints"

    @property
    def lab(self) -> Path:
        """The lab's servers, logs and pids."""
        return self.root / "lab"


class Storage(Section):
    """The place of tables and Spark's checkpoints, if not below the root."""

    tables: str = Field(pattern=r"^(s3://[^/\s]+(/\S*)?)?$")
    checkpoints: str = Field(pattern=r"^((s3a|hdfs)://[^/\s]+(/\S*)?)?$")
    endpoint: str = Field(pattern=r"^(https?://[^/\s]+)?$")
    region: str
    path_style: bool
    access_key: str
    secret_key: SecretStr
    secret_key_file: str
    session_token: SecretStr
    session_token_file: str
    cache_gb: float = Field(gt=0)
    options: dict[str, str] = Field(repr=False)
    """Further options of delta-rs's client; any of them may be secret."""


class Tables(Section):
    """The days for which `maintain` keeps the progress series, and for which former versions of all tables stay."""

    versions_days: int = Field(ge=1)
    progress_days: int = Field(ge=1)
    progress_minute_days: int = Field(ge=1)
    progress_5min_days: int = Field(ge=1)

    def kept_days(self, table: str) -> int | None:
        """Return how many days of a progress table are kept; None for other tables."""
        days: int | None = getattr(self, f"{table.removeprefix('queue_')}_days", None)
        return days
