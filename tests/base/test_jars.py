"""The jars: fetched once, checked, never half there. What Ivy would fetch is made by a stand-in program."""

import hashlib
import threading
import time
from pathlib import Path
from typing import get_args

import pytest

from streaming.base import jars
from streaming.base.errors import UserError

CONTENT = {"a-1.jar": b"first", "b-2.jar": b"second"}


class Repository:
    """A stand-in for Ivy and its repository: the files that come, and how often it was asked."""

    def __init__(self) -> None:
        self.files = dict(CONTENT)
        self.asked = 0
        self.seconds = 0.0

    def serve(self, _conf: str, folder: Path, _root: Path) -> None:
        self.asked += 1
        time.sleep(self.seconds)
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """A conf/ of its own, which locks the spark set to CONTENT."""
    folder = tmp_path / "conf"
    folder.mkdir()
    (folder / "ivy.xml").write_text("<ivy-module/>")
    sums = (f"{hashlib.sha256(content).hexdigest()}  spark/{name}\n" for name, content in CONTENT.items())
    (folder / "jars.sha256").write_text("".join(sums))
    monkeypatch.setattr(jars, "conf_file", folder.joinpath)
    return folder


@pytest.fixture
def repository(conf, monkeypatch):
    stand_in = Repository()
    monkeypatch.setattr(jars, "_ivy", stand_in.serve)
    return stand_in


def test_the_second_start_asks_nobody(tmp_path, repository):
    first = jars.ensure("spark", tmp_path)
    assert {jar.name: jar.read_bytes() for jar in first} == CONTENT
    assert jars.ensure("spark", tmp_path) == first
    assert repository.asked == 1


def test_a_jar_that_was_changed_since_ends_the_next_start(tmp_path, repository):
    [first, _] = jars.ensure("spark", tmp_path)
    first.write_bytes(b"other")
    with pytest.raises(UserError, match=r"not those of conf/jars.sha256 \(a-1.jar\): delete"):
        jars.ensure("spark", tmp_path)
    assert repository.asked == 1
    first.write_bytes(CONTENT["a-1.jar"])
    first.with_name("c-3.jar").write_bytes(b"one more")
    with pytest.raises(UserError, match=r"c-3.jar"):
        jars.ensure("spark", tmp_path)


@pytest.mark.parametrize(
    "served",
    [
        pytest.param(CONTENT | {"b-2.jar": b"changed"}, id="changed"),
        pytest.param({"a-1.jar": b"first"}, id="missing"),
        pytest.param(CONTENT | {"c-3.jar": b"unexpected"}, id="unexpected"),
    ],
)
def test_other_jars_than_those_of_the_list_are_refused_and_never_used(tmp_path, repository, served):
    repository.files = served
    with pytest.raises(UserError, match=r"jars\.sha256"):
        jars.ensure("spark", tmp_path)
    assert jars.state("spark", tmp_path) == "missing"
    repository.files = dict(CONTENT)
    assert len(jars.ensure("spark", tmp_path)) == 2


def test_who_asks_for_other_jars_gets_other_jars(tmp_path, conf, repository):
    before = jars.ensure("spark", tmp_path)
    (conf / "ivy.xml").write_text("<ivy-module><!-- another --></ivy-module>")
    assert not set(jars.ensure("spark", tmp_path)) & set(before)
    assert repository.asked == 2


def test_a_deleted_jar_is_fetched_again(tmp_path, repository):
    jars.ensure("spark", tmp_path)[0].unlink()
    assert jars.state("spark", tmp_path) == "missing"
    assert all(jar.is_file() for jar in jars.ensure("spark", tmp_path))


def test_two_at_once_fetch_once(tmp_path, repository):
    repository.seconds = 0.2
    together = threading.Barrier(2)
    fetched: list[list[Path]] = []

    def ask() -> None:
        together.wait()
        fetched.append(jars.ensure("spark", tmp_path))

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fetched[0] == fetched[1]
    assert repository.asked == 1


def test_doctor_says_whether_a_jar_was_changed(tmp_path, repository):
    assert jars.state("spark", tmp_path) == "missing"
    spoilt = jars.ensure("spark", tmp_path)[0]
    assert jars.state("spark", tmp_path) == "present"
    spoilt.write_bytes(b"spoilt")
    assert jars.state("spark", tmp_path) == "wrong"


def test_a_failed_download_is_one_sentence_and_leaves_nothing(tmp_path, conf, monkeypatch):
    monkeypatch.setattr(jars, "java_executable", lambda: Path("/bin/false"))
    with pytest.raises(UserError, match=r"^The spark jars could not be downloaded: .*ivy-spark\.log\)\.$"):
        jars.ensure("spark", tmp_path)
    assert jars.state("spark", tmp_path) == "missing"


def test_the_list_is_remade_from_what_came(tmp_path, conf, repository):
    repository.files = {"a-2.jar": b"newer"}
    written = jars.lock(tmp_path)
    assert written == conf / "jars.sha256"
    assert written.read_text().splitlines() == [
        f"{hashlib.sha256(b'newer').hexdigest()}  {name}/a-2.jar" for name in get_args(jars.JarSet)
    ]
    assert jars.state("rocketmq", tmp_path) == "present"


def test_the_committed_list_has_the_jars_of_every_set():
    for name in get_args(jars.JarSet):
        assert jars._expected(name)
