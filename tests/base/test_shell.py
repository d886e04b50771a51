"""Commands that a user copies: a shell reads each word as it is, whatever name it has."""

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import streaming
from streaming.base.terminal import command_line, group_argument

PLAIN = ("orders", "a b", "a;reboot", "$(reboot)", "`reboot`", "it's", "\\", "|%g", "é中", "")
NAMES = (*PLAIN, "\x1b]0;x\a", "a\nb'\\", "\u202ex")
SOURCE = Path(streaming.__file__).parent
COMMAND = re.compile(r"(rebalance-watch|mqadmin) [a-z]")
OTHERS = {"collect"}
"""What a broker refuses names resources of its own ACL."""


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_reads_the_words_as_they_are():
    command = command_line("printf", "%s\\0", *NAMES)
    assert command.isprintable()
    done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, check=True, env={"LC_ALL": "C"})
    assert done.stdout.decode().split("\0")[:-1] == list(NAMES)


def test_a_group_that_looks_like_an_option_is_given_to_one():
    assert group_argument("--help") == ("-g", "--help")
    assert group_argument("orders") == ("orders",)


def test_no_name_is_put_into_a_command_by_hand():
    offenders = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        if path.relative_to(SOURCE).parts[0] not in OTHERS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.JoinedStr) and _fills_a_command(node)
    ]
    assert offenders == []


def _fills_a_command(text):
    """Return whether an f-string has a value between the name of a program and the end of its command."""
    is_open = False
    for part in text.values:
        if isinstance(part, ast.FormattedValue):
            if is_open:
                return True
            continue
        begun = [match.end() for match in COMMAND.finditer(part.value)]
        is_open = "`" not in part.value[begun[-1] :] if begun else is_open and "`" not in part.value
    return False
