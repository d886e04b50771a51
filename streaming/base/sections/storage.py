"""Where the files of the program are."""

from pathlib import Path

from pydantic import Field, SecretStr, ValidationInfo, field_validator

from streaming.base.sections.section import Section


class Runtime(Section):
    """The folders of all files that are created at run time."""

    root: Path
    jars: Path
    """The folder of the jars."""

    @field_validator("root")
    @classmethod
    def _absolute(cls, root: Path) -> Path:
        return root.expanduser().resolve()

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
    """Where tables and Spark's checkpoints are, if not below the root."""

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
    """How many days of the progress series `maintain` keeps, and how long former versions of all tables."""

    versions_days: int = Field(ge=1)
    progress_days: int = Field(ge=1)
    progress_minute_days: int = Field(ge=1)
    progress_5min_days: int = Field(ge=1)

    def kept_days(self, table: str) -> int | None:
        """Return how many days of a progress table are kept; None for other tables."""
        days: int | None = getattr(self, f"{table.removeprefix('queue_')}_days", None)
        return days
