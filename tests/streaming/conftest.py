"""One Spark session for all tests, and runtime roots that share the jars."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streaming.settings import Settings, load_settings


@pytest.fixture
def settings_in() -> Callable[..., Settings]:
    """Settings of a job whose runtime root is the given folder; it takes the jars that are there already."""
    return _settings_in


def _settings_in(root: Path, **source: object) -> Settings:
    root.mkdir(parents=True, exist_ok=True)
    jars = load_settings().runtime.jars
    jars.mkdir(parents=True, exist_ok=True)
    if not (root / "jars").exists():
        (root / "jars").symlink_to(jars)
    return load_settings(runtime={"root": root}, source=source)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """The session that the job, too, finds and takes."""
    from streaming.session import spark_session  # noqa: PLC0415  Spark takes seconds to import

    session = spark_session(_settings_in(tmp_path_factory.mktemp("spark")), "tests")
    yield session
    session.stop()
