"""Which Java is chosen. The Javas are small scripts that answer as the real ones do."""

from pathlib import Path

import cjdk
import pytest

from streaming.base import java
from streaming.base.errors import UserError

FULL = ("java.base", "java.sql", "jdk.incubator.vector")
TRIMMED = ("java.base", "java.sql")


def make_java(home: Path, version: str, modules: tuple[str, ...] = FULL) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    answer = "".join(f"{module}@{version}\n" for module in modules)
    program.write_text(f'#!/bin/sh\n[ "$1" = --list-modules ] || exit 1\ncat <<END\n{answer}END\n')
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A machine with no Java but those that a test makes, and no network."""

    def refuse(**_: object) -> Path:
        raise cjdk.InstallError("no network")

    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java.shutil, "which", lambda _: None)
    monkeypatch.setattr(java, "_USUAL_FOLDERS", ((str(tmp_path / "jvm"), "*/bin/java"),))
    monkeypatch.setattr(java.cjdk, "java_home", refuse)
    java.java_home.cache_clear()
    yield
    java.java_home.cache_clear()


@pytest.mark.parametrize("version", ["17.0.15", "21"])
def test_java_home_goes_first(tmp_path, monkeypatch, version):
    make_java(tmp_path / "jvm" / "other", "17.0.1")
    mine = make_java(tmp_path / "mine", version)
    monkeypatch.setenv("JAVA_HOME", str(mine))
    assert java.java_home() == mine
    assert java.java_executable() == mine / "bin" / "java"


@pytest.mark.parametrize(("version", "modules"), [("25.0.3", FULL), ("11.0.2", FULL), ("17.0.15", TRIMMED)])
def test_a_java_that_spark_cant_use_is_passed_over(tmp_path, monkeypatch, version, modules):
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "mine", version, modules)))
    fit = make_java(tmp_path / "jvm" / "fit", "17.0.15")
    assert java.java_home() == fit


def test_a_link_on_the_path_leads_to_its_home(tmp_path, monkeypatch):
    home = make_java(tmp_path / "elsewhere", "21.0.4")
    (tmp_path / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setattr(java.shutil, "which", lambda _: str(tmp_path / "java"))
    assert java.java_home() == home


def test_without_one_and_without_network_a_sentence_says_what_to_install(tmp_path):
    make_java(tmp_path / "jvm" / "too-new", "25")
    with pytest.raises(UserError, match=r"^No Java 17 or 21 .* install OpenJDK 17 .*\.$"):
        java.java_home()
