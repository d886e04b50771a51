"""Choice of a Java. The Javas are small scripts that answer as the real ones do."""

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


def release(home: Path, *lines: str) -> Path:
    """Give a Java, which fails when it is asked, a file `release`."""
    make_java(home, "17.0.15")
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 1\n")
    (home / "release").write_text("".join(f"{line}\n" for line in lines))
    return home


def test_what_a_file_says_is_not_asked(tmp_path, monkeypatch):
    mine = release(tmp_path / "mine", 'IMPLEMENTOR="any"', 'JAVA_VERSION="21.0.4"', f'MODULES="{" ".join(FULL)}"')
    monkeypatch.setenv("JAVA_HOME", str(mine))
    assert java.java_home() == mine


@pytest.mark.parametrize(("version", "modules"), [("25.0.3", FULL), ("1.8.0_442", FULL), ("17.0.15", TRIMMED)])
def test_a_file_of_a_java_that_spark_cant_use_is_believed(tmp_path, version, modules):
    assert (
        java.java_version(release(tmp_path / "mine", f'JAVA_VERSION="{version}"', f'MODULES="{" ".join(modules)}"'))
        not in java.VERSIONS
    )


@pytest.mark.parametrize("lines", [(), ('JAVA_VERSION="21.0.4"',), ('MODULES="java.base"',), ("torn",)])
def test_a_java_whose_file_lacks_something_is_asked(tmp_path, lines):
    home = make_java(tmp_path / "mine", "17.0.15")
    (home / "release").write_text("\n".join(lines))
    assert java.java_version(home) == 17


def test_a_file_without_its_program_is_no_java(tmp_path):
    home = release(tmp_path / "mine", 'JAVA_VERSION="17.0.15"', f'MODULES="{" ".join(FULL)}"')
    (home / "bin" / "java").unlink()
    assert java.java_version(home) is None


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
