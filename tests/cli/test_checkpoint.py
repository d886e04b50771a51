"""`rebalance-watch checkpoint show`."""

import json

from typer.testing import CliRunner

from checkpoints.generation import claimed
from streaming.base.errors import UserError
from streaming.cli.main import app
from tests.support.basis import BASIS

RUNNER = CliRunner()


def show(root, *arguments):
    return RUNNER.invoke(app, ["--root", str(root), "checkpoint", "show", *arguments])


def write(root, query, folder, number, text="v1\n{}"):
    file = root / "checkpoints" / query / folder / str(number)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_it_shows_the_position_and_the_batch_that_is_repeated(tmp_path):
    with claimed(tmp_path / "checkpoints", tmp_path / "tables", BASIS):
        pass
    for batch, end in ((6, 40), (7, 50)):
        write(tmp_path, "operator", "offsets", batch, f"v1\n{{}}\n{json.dumps({'topic': {'0': end, '1': 3}})}\n")
    write(tmp_path, "operator", "commits", 6)

    ended = show(tmp_path)

    assert ended.exit_code == 0, ended.output
    lines = {line[:18].strip(): line[18:].strip() for line in ended.stdout.splitlines()}
    assert lines["operator batch"] == "7, which the next start repeats"
    assert lines["operator has read"] == "until 0: 40, 1: 3"
    assert lines["archive batch"] == "-"
    assert lines["run"] == "no run on this machine"
    found = json.loads(show(tmp_path, "--format", "json").stdout)
    assert found["queries"][0] == {"query": "operator", "batch": 7, "is_finished": False, "position": {"0": 40, "1": 3}}


def test_without_checkpoints_it_is_a_sentence(tmp_path):
    error = show(tmp_path).exception

    assert isinstance(error, UserError)
    assert "There are no checkpoints in" in str(error)
