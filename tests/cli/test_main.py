"""The command line as a whole."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from streaming.cli.main import app
from streaming.cli.tasks import SUMMARIES
from streaming.lab.servers import LOOPBACK, free_port
from tests.docs.parts import summaries


def _imported(*arguments: str, ends: int = 0, **environment: str) -> set[str]:
    """The packages that a command imports until it ends, ours by their whole names."""
    code = (
        "import sys; from streaming.cli.main import run; sys.argv[0] = 'rebalance-watch'\n"
        "print(f'\\n{run()} ' + ' '.join(sys.modules))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    code, *modules = ran.stdout.splitlines()[-1].split()
    assert code == str(ends), ran.stdout + ran.stderr
    return {one if one.startswith("streaming.") else one.partition(".")[0] for one in modules}


ENGINES = {"duckdb", "pyarrow", "numpy", "deltalake", "pyspark", "nicegui", "fastapi", "pandas", "apprise", "structlog"}
COMPLETE = {"_REBALANCE_WATCH_COMPLETE": "complete_bash", "COMP_WORDS": "rebalance-watch group re", "COMP_CWORD": "2"}


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["--version"], {}), (["--help"], {}), (["alert", "--help"], {}), ([], COMPLETE)],
    ids=["version", "help", "help of a group", "completion"],
)
def test_help_waits_for_no_command(arguments, environment):
    """Modules that take long to import are imported by the command that runs, not by a list of commands."""
    imported = _imported(*arguments, **environment)

    assert imported.isdisjoint(ENGINES | {"pydantic_settings", "streaming.base.lines", "streaming.base.settings"})
    assert {one for one in imported if one.startswith("streaming.cli.")} == {
        "streaming.cli.main", "streaming.cli.ours", "streaming.cli.tasks"
    }  # fmt: skip


@pytest.mark.parametrize(
    "question", ["group list", "incident list", "who-owned Orders@broker-a:0", "alert silence list"]
)
def test_a_question_imports_only_what_reads_and_prints(question, asked):
    imported = _imported("--root", str(asked.parent), *question.split())

    assert imported.isdisjoint((ENGINES - {"duckdb", "deltalake"}) | {"pydantic_settings", "httpx"})
    assert "streaming.base.settings" not in imported


@pytest.mark.parametrize(
    ("question", "ends"), [("alert status", 3), ("checkpoint show", 1)], ids=["alerts", "checkpoints"]
)
def test_a_status_imports_no_writer(question, ends, asked):
    """Neither alerts nor a job run on these tables; an error is printed with structlog."""
    imported = _imported("--root", str(asked.parent), *question.split(), ends=ends)

    assert imported.isdisjoint((ENGINES - {"duckdb", "deltalake", "structlog"}) | {"kafka", "httpx"})


def test_a_table_without_incidents_waits_for_no_rule():
    """As the answer of `sql` is one."""
    code = "import sys, streaming.cli.grid; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())
    assert loaded.isdisjoint({"streaming.queries.rule_text", "rebalance_model.observe.rules.registry"})


def test_an_answer_that_can_t_be_written_whole_is_an_error():
    """The end of the process writes the rest of the buffer."""
    late = "import sys; from streaming.cli import main; main.run = lambda: sys.stdout.write('rows') - 4; main.main()"
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [sys.executable, "-c", late], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert (ended.returncode, ended.stderr.count("No space left on device")) == (1, 1)


def test_the_list_of_commands_says_what_their_help_says():
    """The list is in a file, which `tests.docs` writes."""
    assert summaries() == list(map(": ".join, SUMMARIES.items()))


def test_the_version_is_that_of_the_package_with_the_state_s():
    ended = CliRunner().invoke(app, ["--version"])
    assert ended.exit_code == 0
    assert ended.output.startswith(f"rebalance-watch {metadata.version('rebalance-watch')} (state version ")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--root", "/proc/nowhere", "group", "list"], 1),
        (["--config", "/proc/nowhere", "group", "list"], 2),
        (["collect", "poll", "--once", "--to", "round.jsonl"], 4),
    ],
    ids=["a failure", "a wrong setting", "a server that is away"],
)
def test_the_exit_code_tells_why_a_command_ended(arguments, code, tmp_path, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_COLLECTOR__NAME_SERVERS", f'["{LOOPBACK}:{free_port()}"]')
    monkeypatch.chdir(tmp_path)
    command = [sys.executable, "-m", "streaming.cli", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == code, ran.stderr
    assert ran.stderr.startswith("error: ")
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("kept", [0, 1], ids=["nothing", "the header"])
@pytest.mark.parametrize(
    "arguments", [["sql", "--limit", "100000"], ["--help"]], ids=["many rows", "less than a buffer"]
)
def test_a_command_whose_reader_has_read_enough_ends_with_0(arguments, kept, asked):
    if arguments[0] == "sql":
        arguments = [*arguments, "--format", "csv", "FROM range(100000)"]
    command = [sys.executable, "-m", "streaming.cli", "--root", str(asked.parent), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.raw.read(kept)
        ran.stdout.close()
        said = ran.stderr.read()
    assert (ran.returncode, said) == (0, b"")


@pytest.mark.skipif(not Path("/sys/kernel").is_dir(), reason="no folder here that not even root can write to")
def test_a_root_that_is_read_only_is_one_sentence():
    command = [sys.executable, "-m", "streaming.cli", "--root", "/sys/nowhere", "collect", "poll"]
    environment = os.environ | {"REBALANCE_WATCH_SOURCE__KIND": "files"}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr.startswith("error: /sys/nowhere"), ran.stderr
    assert "can't be written" in ran.stderr
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--to", "r.jsonl"], []])
def test_only_a_log_in_kafka_lets_collectors_share(arguments, monkeypatch):
    monkeypatch.setenv("REBALANCE_WATCH_COLLECTOR__SHARE", "true")
    monkeypatch.setenv("REBALANCE_WATCH_SOURCE__KIND", "kafka" if arguments else "files")
    ended = CliRunner().invoke(app, ["collect", "poll", *arguments])
    assert "set source.kind to kafka, and omit --to" in str(ended.exception)


def _commands(command, *path):
    yield path, command
    for name, one in getattr(command, "commands", {}).items():
        yield from _commands(one, *path, name)


def _letters(text):
    return "".join(char for char in text if char.isalnum() or char in "[]*.")


@pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*one, id=" ".join(one[0])) for one in _commands(get_command(app))]
)
def test_help_is_printed_as_it_is_written(path, command, monkeypatch):
    """Brackets that are taken for markup would vanish."""
    monkeypatch.setenv("COLUMNS", "2000")
    help_text = _letters(CliRunner().invoke(app, [*path, "--help"]).output)
    params = [getattr(one, "help", None) for one in command.params if not getattr(one, "hidden", False)]
    for text in [command.help, *params]:
        assert _letters((text or "").replace("\\[", "[")) in help_text


@pytest.mark.parametrize(
    ("typed", "completed"), [("rebalance-watch gr", "group"), ("rebalance-watch group re", "rebalances")]
)
def test_the_shell_completes_commands(typed, completed):
    asked = {"_REBALANCE_WATCH_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    command = [Path(sys.executable).parent / "rebalance-watch"]
    ran = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert ran.stdout.split() == [completed]
