"""Mutated arguments of the commands that only read: a result or a sentence, never a traceback."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.main import get_command
from typer.testing import CliRunner

from streaming.base.errors import UserError
from streaming.cli.main import app
from tests.fuzz.forms import fuzzed
from tests.fuzz.mutations import HOSTILE
from tests.support.world import NOON, example

COMMANDS = (
    ("group", "list"), ("group", "show"), ("group", "assignments"), ("group", "rebalances"), ("group", "diff"),
    ("who-owned",), ("incident", "list"), ("incident", "show"), ("allocate",), ("client", "list"), ("client", "show"),
    ("queue", "show"), ("quality",), ("alert", "routes"), ("alert", "status"), ("alert", "silence", "list"),
    ("alert", "silence", "end"), ("config", "check"), ("checkpoint", "show"),
)  # fmt: skip
_ENDLESS = frozenset({"watch", "every", "check_now"})
"""Options with which a command goes on, or writes."""
_VALUES = st.one_of(
    st.sampled_from(("orders", "c", "Orders", "b:0", "0", "A", "over", str(NOON), "1h", "json")),
    st.sampled_from((
        "orders", "quiet", "all", "c", "Orders", "b:0", "0", "1", "A", "over", str(NOON), "1h", "7d", "json", "text",
        "2026-11-21 12:00", "-1h", "2026-13-01", "now", "b:x", "b:", ":", "", " ", "*", "[red]", "[/]", "\x1b[31m",
        "\ud800", "a\nb", "99999999999999999999h", "9999-12-31", "0001-01-01", "--", "-", "@", "=", "AVG", "A=1",
    )),
    st.sampled_from([one.decode("utf-8", "surrogateescape").replace("\0", "") for one in HOSTILE]),
    st.text(max_size=6),
)  # fmt: skip


WHOLE = get_command(app)


def command_at(path):
    """Return the command of this path, or None."""
    command = WHOLE
    for name in path:
        command = getattr(command, "commands", {}).get(name)
    return command


FOUND = {path: command for path in COMMANDS if (command := command_at(path)) is not None}


@st.composite
def lines(draw):
    """Draw a command line: the command's own arguments and some of its options, with any values."""
    path, command = draw(st.sampled_from(list(FOUND.items())))
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name not in _ENDLESS]
    line = [*path, *(draw(_VALUES) for _ in range(draw(st.integers(max(0, len(arguments) - 1), len(arguments) + 1))))]
    for option in draw(st.lists(st.sampled_from(options), max_size=3)) if options else ():
        line.append(draw(st.sampled_from(option.opts)))
        if not option.is_flag or draw(st.integers(0, 9)) == 0:
            line.append(draw(_VALUES))
    return line


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    made = tmp_path_factory.mktemp("arguments")
    example().write(made / "tables")
    return made


@given(line=lines())
@fuzzed(short=40, long=3_000)
def test_mutated_arguments_lead_to_a_result_or_a_sentence(root, monkeypatch, line, tally, form):
    monkeypatch.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(root))
    monkeypatch.chdir(root)
    tally.grown_bytes_max = 2_000_000_000  # a command has a process of its own, and leaves all to its end
    with tally.in_time():
        ran = CliRunner().invoke(app, line)
    with suppress(UserError, SystemExit):  # `main` prints the sentence of the first
        if ran.exception is not None:
            raise ran.exception
    assert "Traceback" not in ran.output
    assert ran.exit_code in {0, 1, 2, 3, 4}
    tally.add("command lines that had a result" if ran.exit_code == 0 else "command lines refused")


def test_every_command_that_is_named_here_exists():
    assert set(FOUND) == set(COMMANDS)
