"""Files that processes share: locks that one holds at a time, and files that are replaced as a whole."""

import threading

import pytest

from streaming.base.errors import UserError
from streaming.base.files import FileLock, is_locked, replace_atomically


def test_the_second_is_refused_until_the_first_is_done(tmp_path):
    path = tmp_path / ".lock"
    assert not is_locked(path)
    assert not path.exists()
    with FileLock(path, "busy") as first:
        assert is_locked(path)
        with pytest.raises(UserError, match="busy"):
            FileLock(path, "busy", patience_seconds=0.06)
    assert first.closed
    assert not is_locked(path)
    first.close()  # once more does nothing


@pytest.mark.parametrize("arguments", [{}, {"refusal": "busy", "patience_seconds": 60.0}], ids=["waits", "is patient"])
def test_a_lock_that_comes_free_is_taken(tmp_path, arguments):
    first = FileLock(tmp_path / ".lock")
    timer = threading.Timer(0.1, first.close)
    timer.start()
    with FileLock(tmp_path / ".lock", **arguments):
        assert first.closed
    timer.join()


def test_a_folder_is_locked_itself_and_never_made(tmp_path):
    with FileLock(tmp_path, "busy", is_folder=True), pytest.raises(UserError, match="busy"):
        FileLock(tmp_path, "busy", is_folder=True)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(FileNotFoundError):
        FileLock(tmp_path / "gone", "busy", is_folder=True)
    assert not (tmp_path / "gone").exists()


@pytest.mark.parametrize("durable", [True, False])
def test_a_replaced_file_leaves_nothing_beside_it(tmp_path, durable):
    for content in (b"old", b"new"):
        replace_atomically(tmp_path / ".position", content, durable=durable)
        assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {".position": content}
