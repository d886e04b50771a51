"""Mutated files of the user: alerts, thresholds, settings, recordings. One sentence, or they are used."""

import gzip
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.base.errors import UserError
from streaming.base.settings import conf_file, load_policy, load_settings
from streaming.log.recording import replayed_rows
from streaming.serve.alerting.config import load_alerts
from tests.fuzz.forms import fuzzed
from tests.fuzz.mutations import mutants
from tests.fuzz.test_events import LINES

ALERTS = [
    re.sub(rb"(?m)^# ?(?=[\[a-z#])", b"", conf_file("alerts.toml").read_bytes()),
    (
        b'[[routes]]\nchannels = ["ops"]\ncodes = ["LOCK_*"]\ngroups = ["pay-*"]\n'
        b'[channels.ops]\nkind = "webhook"\nurl = "http://127.0.0.1:1/x"\n[limit]\nmessages = 3\nspan = "10m"\n'
    ),
    (
        b'poll = "1s"\n[dead_man]\njob = "1m"\nsources = "0s"\n[retry]\nfirst = "1s"\n[channels.mail]\nkind = '
        b'"apprise"\nurls = {env = "MAIL"}\n[channels.am]\nkind = "alertmanager"\nurl = {file = "u.txt"}\n'
    ),
]
POLICIES = [
    conf_file("policy.toml").read_bytes(),
    b'stuck_after = 30000\npoll_interval = 5000\n[[group]]\npattern = "pay-*"\ncluster = "C"\nstuck_after = 120000\n',
]
SETTINGS = [
    conf_file("default.toml").read_bytes(),
    b'[source]\nkind = "files"\n[web]\nport = 1\nurl = "https://a.b"\n[spark]\n"spark.executor.memory" = "4g"\n',
    b'[[collector.clusters]]\nname_servers = ["a:1"]\nnames = {A = "B"}\n[collector.clusters.rocketmq]\ntls = true\n',
]
RECORDINGS = [b"\n".join(LINES[n : n + 20]) + b"\n" for n in range(2_000, 4_000, 200)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def loaded(load, tally, what):
    """Load a file: the error is one sentence, if it is one."""
    sentences: tuple[str, ...] = ()
    with tally.in_time():
        try:
            load()
        except UserError as error:
            sentences = error.args
    assert all(sentence.endswith((".", "?")) for sentence in sentences)
    tally.add(f"{what} refused" if sentences else f"{what} accepted")


@given(content=mutants(ALERTS))
@fuzzed(short=80, long=8_000)
def test_a_mutated_alerts_file_is_used_or_refused_in_a_sentence(folder, content, tally, form):
    file = folder / "alerts.toml"
    file.write_bytes(content)
    loaded(lambda: load_alerts(str(file)), tally, "alerts files")


@given(content=mutants(POLICIES))
@fuzzed(short=80, long=8_000)
def test_a_mutated_policy_is_used_or_refused_in_a_sentence(folder, content, tally, form):
    file = folder / "policy.toml"
    file.write_bytes(content)
    loaded(lambda: load_policy(file), tally, "policies")


@given(content=mutants(SETTINGS))
@fuzzed(short=60, long=6_000)
def test_a_mutated_settings_file_is_used_or_refused_in_a_sentence(folder, content, tally, form):
    file = folder / "settings.toml"
    file.write_bytes(content)
    os.environ["REBALANCE_WATCH_CONFIG"] = str(file)
    try:
        loaded(load_settings, tally, "settings")
    finally:
        del os.environ["REBALANCE_WATCH_CONFIG"]


@given(content=mutants(RECORDINGS), packed=mutants([gzip.compress(one) for one in RECORDINGS]), is_packed=st.booleans())
@fuzzed(short=80, long=8_000)
def test_a_mutated_recording_is_read_or_refused_in_a_sentence(folder, content, packed, is_packed, tally, form):
    file: Path = folder / ("recording.jsonl.gz" if is_packed else "recording.jsonl")
    file.write_bytes(packed if is_packed else content)
    loaded(lambda: sum(map(len, replayed_rows(file, 3))), tally, "recordings")


@pytest.mark.parametrize("load", [load_alerts, lambda file: load_policy(Path(file))])
@pytest.mark.parametrize("content", ["poll = " + "[" * 5_000, "poll = " + "9" * 5_000, "poll = '\xff'"])
def test_what_pythons_reader_does_not_report_as_toml_is_a_sentence(tmp_path, load, content):
    """It nests deeper than the stack, has a number of 5,000 digits, or is not UTF-8; found by mutation."""
    file = tmp_path / "a.toml"
    file.write_bytes(content.encode("latin-1"))
    with pytest.raises(UserError, match="is not valid TOML"):
        load(str(file))
    with pytest.raises(UserError, match="can't be read"):
        load(str(tmp_path))


def test_a_value_of_another_type_is_a_sentence(tmp_path, monkeypatch):
    """A number in place of a code or a path; found by mutation."""
    file = tmp_path / "a.toml"
    file.write_text('[[routes]]\nchannels = ["ops"]\ncodes = [0]\n')
    with pytest.raises(UserError, match=r"routes\.1\.codes\.1: should be a valid string"):
        load_alerts(str(file))
    file.write_text("[runtime]\njars = 0\n")
    monkeypatch.setenv("REBALANCE_WATCH_CONFIG", str(file))
    with pytest.raises(UserError, match=r"Setting runtime\.jars: "):
        load_settings()


def test_a_deep_line_does_not_end_a_replay(tmp_path):
    """Found by mutation: the reader of a recording's ends has no limit of depth of its own."""
    file = tmp_path / "a.jsonl"
    file.write_bytes(LINES[0].replace(b"{", b'{"later":' + b"[" * 5_000 + b"]" * 5_000 + b",", 1) + b"\n" + LINES[0])
    assert len(list(replayed_rows(file, 1))) >= 2
