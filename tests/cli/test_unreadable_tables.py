"""Tables that another user may not read, or that are damaged: one sentence of every command that opens them."""

import json

import pytest

from streaming.base.errors import UserError
from streaming.serve.alerting.follow import Follower
from streaming.tables import ReadModel
from tests.support.asked import everything
from tests.support.tables import append, make_tables
from tests.support.unprivileged import run_unprivileged

COMMANDS = {
    "group list": 1,
    "incident list": 1,
    "sql FROM@anomalies": 1,
    "quality": 1,
    "alert status": 1,
    "alert silence list": 1,
    "maintain --table anomalies": 1,
    "metrics --port 0": 1,
}
"""With their exit codes; @ stands for a blank within an argument."""
RUN = """
import sys
from streaming.cli.main import main
for command in sys.argv[1:]:
    sys.argv = ["rebalance-watch", *(word.replace("@", " ") for word in command.split())]
    try:
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    sys.stderr.flush()
    print(f"== {command} {code}", flush=True)
"""


@pytest.fixture
def root(tmp_path):
    append(make_tables(tmp_path / "tables"), [row for row in everything() if row.group == "h"])
    yield tmp_path
    for path in (tmp_path / "tables", *tmp_path.glob("tables/*/_delta_log"), *tmp_path.glob("tables/*/*.parquet")):
        path.chmod(0o755)


def said(root, *commands):
    """Return what each command prints, and its exit code."""
    ended = run_unprivileged(["-c", RUN, *commands], {"REBALANCE_WATCH_RUNTIME__ROOT": str(root)})
    by_command, lines = {}, []
    for line in ended.stdout.splitlines():
        if line.startswith("== "):
            name, _, code = line.removeprefix("== ").rpartition(" ")
            by_command[name], lines = (int(code), lines), []
        else:
            lines.append(line)
    assert not lines, ended.stdout
    return by_command


@pytest.mark.parametrize("hidden", ["tables", "tables/*/_delta_log"])
def test_tables_that_may_not_be_read_are_one_sentence(root, hidden):
    for path in root.glob(hidden):
        path.chmod(0)
    found = said(root, *COMMANDS)
    assert {name: code for name, (code, _) in found.items()} == COMMANDS
    for name, (_, lines) in found.items():
        assert len(lines) == 1, (name, lines)
        assert lines[0].startswith(f"error: {root}/tables"), (name, lines)
        assert "(permission denied): run this as the user of the job, or let this user read the tables." in lines[0]


def test_files_that_may_not_be_read_are_one_sentence(root):
    for path in root.glob("tables/anomalies/*.parquet"):
        path.chmod(0)
    commands = ("incident list", "sql FROM@anomalies", "group list")
    for name, (code, lines) in said(root, *commands).items():
        assert (code, len(lines)) == (1, 1), (name, lines)
        assert lines[0].startswith(f"error: {root}/tables/anomalies/"), (name, lines)
        assert "let this user read the tables." in lines[0]


def test_a_file_below_a_folder_that_may_not_be_written_is_one_sentence(root):
    (root / "tables").chmod(0o555)
    [(code, lines)] = said(root, "maintain --table anomalies").values()
    assert (code, len(lines)) == (1, 1)
    assert "can't be written or read (Permission denied): run this as the user to whom it belongs" in lines[0]


def test_doctor_says_that_a_root_cannot_be_written(root):
    for folder, fixed in ((root, root), (root / "none" / "yet", root), (root, root / "tables")):
        fixed.chmod(0o555)
        ended = run_unprivileged(
            ["-m", "streaming.cli.main", "doctor", "--format", "json"], {"REBALANCE_WATCH_RUNTIME__ROOT": str(folder)}
        )
        fixed.chmod(0o755)
        [disk] = [check for check in json.loads(ended.stdout) if check["part"] == "disk"]
        assert disk["state"] == "wrong"
        assert disk["found"] == f"{fixed} can't be written by this user"
        assert disk["mend"].startswith("make it writable")
        assert ended.returncode == 3


def cut(content):
    return content[: len(content) // 2]


def emptied(_):
    return b""


def without_footer(content):
    return content[:-500] + b"\xff" * 492 + content[-8:]


def with_another_page(content):
    return content[:8] + b"\xff" * (len(content) // 3) + content[8 + len(content) // 3 :]


@pytest.mark.parametrize("damage", [cut, emptied, without_footer, with_another_page, None])
def test_a_damaged_file_is_named_with_what_to_do(root, damage):
    [file] = root.glob("tables/anomalies/*.parquet")
    content = file.read_bytes()
    with ReadModel(root / "tables") as model:
        file.unlink() if damage is None else file.write_bytes(damage(content))
        for ask in (model.sql, model.ask, lambda query: list(model.scan(query))):
            with pytest.raises(
                UserError, match=r"can't be read .*see checkpoints/README.md: restore tables and"
            ) as raised:
                ask("FROM anomalies")
            what = (
                "A file of the tables anomalies in" if damage is with_another_page else f"The file {file} of the table"
            )
            assert str(raised.value).startswith(what)
            assert "\n" not in str(raised.value)
        assert model.rows("SELECT count(*) AS n FROM group_state")[0]["n"], "other tables are read"
        with pytest.raises(UserError, match=r"^The query failed: .*nonsense"):
            model.ask("SELECT nonsense FROM group_state")
        file.write_bytes(content)
        assert model.rows("SELECT count(*) AS n FROM anomalies")[0]["n"]


def test_a_damaged_file_is_one_sentence_for_who_reads_it_without_sql(root):
    [file] = root.glob("tables/anomalies/*.parquet")
    file.write_bytes(cut(file.read_bytes()))
    follower = Follower(root / "tables" / "anomalies", ["time"], version=0)
    for read in (lambda: list(follower.new()), lambda: follower.whole().read_all()):
        with pytest.raises(UserError, match=r"A file of the table anomalies in .* can't be read .*restore tables and"):
            read()


def test_what_delta_rs_lists_of_its_own_calls_is_left_out(root):
    (root / "tables/anomalies/_delta_log/00000000000000000000.json").write_text("{")
    environment = {"REBALANCE_WATCH_RUNTIME__ROOT": str(root), "RUST_BACKTRACE": "1"}

    ended = run_unprivileged(["-c", RUN, "group list"], environment)

    assert "Truncated record" in ended.stdout
    assert "unknown" not in ended.stdout
    assert "clone" not in ended.stdout
