"""The place of tables and Spark's checkpoints: a folder, or an address elsewhere (`[storage]`)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias
from urllib.parse import urlsplit

from streaming.base.errors import SettingsError
from streaming.base.secrets import secret_of

if TYPE_CHECKING:  # a process that is given its place reads no settings, which takes a tenth of a second
    from streaming.base.sections.job import Storage
    from streaming.base.settings import Settings

_REGION = "us-east-1"
"""The region of a request's signature where the store has none, as most that are not Amazon's."""


@dataclass(frozen=True)
class ObjectPlace:
    """An address in an object store; as with a path, ``/`` gives an address below it."""

    url: str
    """``s3://BUCKET/PREFIX``, without a slash at its end."""
    options: Mapping[str, str] = field(repr=False, compare=False)
    """Options of delta-rs's client; they may be secret."""
    root: Path
    cache_bytes: int
    """The limit of the copies of files, see `streaming.tables.folder`."""

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str) -> Self:
        return replace(self, url=f"{self.url}/{name}")

    @property
    def name(self) -> str:
        """The last part."""
        return self.url.rpartition("/")[2]

    @property
    def parent(self) -> Self:
        """The address without its last part."""
        return replace(self, url=self.url.rpartition("/")[0])

    @property
    def cache(self) -> Path:
        """The folder for copies of what is below this address."""
        found = urlsplit(self.url)
        return self.root / "cache" / found.netloc / found.path.removeprefix("/")


Place: TypeAlias = Path | ObjectPlace
"""The folder or address of all tables, or of one."""


def tables_of(settings: "Settings") -> Place:
    """Return where the tables are.

    Raises:
        SettingsError: the settings of the object store do not fit together, or a file can't be read.
    """
    storage = settings.storage
    if not storage.tables:
        return settings.runtime.tables
    return _elsewhere(settings, storage.tables)


def queries_of(settings: "Settings") -> Place:
    """Return where Spark keeps the checkpoints of the queries, each in a folder of its name.

    Raises:
        SettingsError: the settings of the object store do not fit together, or a file can't be read.
    """
    checkpoints = settings.storage.checkpoints
    if not checkpoints:
        return settings.runtime.checkpoints
    return _elsewhere(settings, checkpoints.replace("s3a://", "s3://", 1))  # Hadoop's name for it


def keys_of(storage: "Storage") -> tuple[str, str, str]:
    """Return access key, secret key and session token; empty: AWS's own are used.

    Raises:
        SettingsError: they do not fit together, or a file can't be read.
    """
    secret_key = secret_of("storage.secret_key", storage.secret_key, storage.secret_key_file)
    if bool(storage.access_key) != bool(secret_key):
        raise SettingsError("Set both storage.access_key and storage.secret_key, or none of them.")
    token = secret_of("storage.session_token", storage.session_token, storage.session_token_file)
    return storage.access_key, secret_key, token


def region_of(storage: "Storage") -> str:
    """Return the region of the bucket; empty: AWS's own settings have it."""
    return storage.region or (_REGION if storage.endpoint else "")


def root_of(tables: Place) -> Path:
    """Return the runtime root to which the tables belong."""
    return tables.root if isinstance(tables, ObjectPlace) else tables.parent


def _elsewhere(settings: "Settings", url: str) -> ObjectPlace:
    storage = settings.storage
    options = _options(storage, url) if url.startswith("s3://") else {}
    return ObjectPlace(url.rstrip("/"), options, settings.runtime.root, int(storage.cache_gb * 1e9))


def _options(storage: "Storage", url: str) -> dict[str, str]:
    """Return the options of delta-rs's client; without keys, it finds them as AWS's own tools do."""
    access_key, secret_key, token = keys_of(storage)
    settings = {
        "aws_endpoint": storage.endpoint,
        "aws_region": region_of(storage),
        "aws_access_key_id": access_key,
        "aws_secret_access_key": secret_key,
        "aws_session_token": token,
        "aws_allow_http": "true" if storage.endpoint.startswith("http://") else "",
    }
    if not storage.path_style:
        settings |= {"aws_virtual_hosted_style_request": "true", "aws_endpoint": _of_bucket(storage.endpoint, url)}
    return {name: value for name, value in settings.items() if value} | dict(storage.options)


def _of_bucket(endpoint: str, url: str) -> str:
    """Return the endpoint with the bucket's name before its host."""
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{urlsplit(url).netloc}.{host}" if host else ""
