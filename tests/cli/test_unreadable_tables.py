"""Tables that another user may not read, or that are damaged: one sentence of every command that opens them."""

import json
import shutil

import pytest

from streaming.base.errors import UserError
from streaming.serve.alerting.follow import Follower
from streaming.tables import ReadModel
from tests.support.asked import everything
from tests.support.tables import append, make_tables
from tests.support.unprivileged import run_unprivileged

COMMANDS = (
    "group list",
    "incident list",
    "sql FROM@anomalies",
    "quality",
    "alert status",
    "alert silence list",
    "maintain --table anomalies",
    "metrics --port 0",
)
"""@ stands for a blank within an argument."""
RUN = """
import sys
from streaming.cli.main import run
for command in sys.argv[1:]:
    sys.argv = ["rebalance-watch", *(word.replace("@", " ") for word in command.split())]
    code = run()
    sys.stderr.flush()
    print(f"== {command} {code}", flush=True)
"""


@pytest.fixture
def root(tmp_path):
    append(make_tables(tmp_path / "tables"), [row for row in everything() if row.group == "h"])
    yield tmp_path
    for path in tmp_path.rglob("*"):
        if not path.is_symlink() and path.stat().st_mode & 0o700 != 0o700:
            path.chmod(0o755)


def copied(root, name):
    """Return a copy of a root, below it."""
    shutil.copytree(root / "tables", root / name / "tables")
    return root / name


def said(*commands):
    """Return what each command prints, and its exit code; each is for a root, all in one process."""
    ended = run_unprivileged(["-c", RUN, *(f"--root {root} {command}" for root, command in commands)], {})
    outcomes, lines = [], []
    for line in ended.stdout.splitlines():
        if line.startswith("== "):
            outcomes.append((int(line.rpartition(" ")[2]), lines))
            lines = []
        else:
            lines.append(line)
    assert not lines, ended.stdout
    assert len(outcomes) == len(commands), ended.stdout
    return outcomes


def test_what_may_not_be_read_or_written_is_one_sentence(root):
    without_tables, without_logs, without_files, fixed = (copied(root, name) for name in ("a", "b", "c", "d"))
    hidden = [*without_logs.glob("tables/*/_delta_log"), *without_files.glob("tables/anomalies/*.parquet")]
    for path in (without_tables / "tables", *hidden):
        path.chmod(0)
    (fixed / "tables").chmod(0o555)
    cases = [(one, command) for one in (without_tables, without_logs) for command in COMMANDS]
    of_files = [(without_files, command) for command in ("incident list", "sql FROM@anomalies", "group list")]

    *outcomes, written = said(*cases, *of_files, (fixed, "maintain --table anomalies"))

    for (one, command), (code, lines) in zip([*cases, *of_files], outcomes, strict=True):
        assert (code, len(lines)) == (1, 1), (one, command, lines)
        assert lines[0].startswith(f"error: {one}/tables"), (command, lines)
        assert "let this user read the tables." in lines[0]
    for _, [line] in outcomes[: len(cases)]:
        assert "(permission denied): run this as the user of the job, or let this user read the tables." in line
    for _, [line] in outcomes[len(cases) :]:
        assert line.startswith(f"error: {without_files}/tables/anomalies/")
    code, [line] = written
    assert code == 1
    assert "can't be written or read (Permission denied): run this as the user to whom it belongs" in line


def test_doctor_says_that_a_root_cannot_be_written(root):
    other = copied(root, "other")
    none_yet = root / "none" / "yet"
    for fixed in (root, other / "tables"):
        fixed.chmod(0o555)

    outcomes = said(*((folder, "doctor --format json") for folder in (root, none_yet, other)))

    for (code, lines), fixed in zip(outcomes, (root, root, other / "tables"), strict=True):
        [disk] = [check for check in json.loads("\n".join(lines)) if check["part"] == "disk"]
        assert disk["state"] == "wrong"
        assert disk["found"] == f"{fixed} can't be written by this user"
        assert disk["mend"].startswith("make it writable")
        assert code == 3


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
