"""The settings of the streaming job and of its quality gate."""

import re
from typing import Any

from pydantic import Field, field_validator

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
