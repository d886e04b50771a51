"""Scenario files: their valid content, and the errors for invalid ones."""

import subprocess
import sys

import pytest

from simulation import scenario, story
from simulation.cluster import SimulatedCluster
from simulation.scenario import ScenarioError
from tests.support.simulated import SMALL, simulate, small


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"do": "explode"}, "explode"),
        ({"do": "kill"}, "who"),
        ({"do": "kill", "who": "c-1", "lasts": 0}, "lasts"),
        ({"do": "kill", "who": "c-1", "when": 3}, "when"),
        ({"do": "join", "who": "c-9", "group": "g", "strategy": "CONFIG"}, "CONFIG"),
        ({"do": "join", "who": "c-9", "group": "h"}, "there is no group 'h': g"),
        ({"do": "join", "who": "c-9", "group": "g", "topics": ["T"]}, "there is no topic 'T': Orders"),
        ({"do": "rollout", "group": "h"}, "there is no group 'h'"),
        ({"do": "add-queues", "topic": "T", "queues": 1}, "there is no topic 'T'"),
        ({"do": "partition", "who": "c-1", "broker": "b"}, "there is no broker 'b': broker-a"),
        ({"do": "stop-broker", "broker": "b"}, "there is no broker 'b'"),
        ({"do": "hook-full", "broker": "b"}, "there is no broker 'b'"),
    ],
)
def test_an_invalid_scenario_is_refused_before_it_begins(step, message):
    with pytest.raises(ScenarioError, match=message):
        small({"at": 1, **step})


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([{"do": "kill", "who": "c-7"}], "no consumer c-7 runs at 9 s"),
        ([{"do": "join", "who": "c-1", "group": "g"}], "c-1 runs already at 9 s"),
        ([{"do": "kill", "who": "c-1"}, {"do": "freeze", "who": "c-1"}], "no consumer c-1 runs"),
        ([{"do": "collector-away"}, {"do": "collector-away"}], "no collector runs at 9 s"),
    ],
)
def test_an_impossible_step_raises_an_error_at_its_time(steps, message):
    with pytest.raises(ScenarioError, match=message):
        simulate(small(*({"at": 9, **step} for step in steps)), until=10)


def test_a_group_of_a_topic_that_is_not_there_is_refused():
    with pytest.raises(ScenarioError, match="there is no topic 'T'"):
        small(groups=[{"name": "g", "topics": ["T"], "consumers": 1}])


def test_the_defaults_are_one_broker_and_no_steps():
    run = scenario.read(dict(SMALL.items()))
    assert [broker.name for broker in run.brokers] == ["broker-a"]
    assert run.story == ()


def test_a_step_can_be_undone_by_hand_and_then_not_again_by_its_time():
    cluster = SimulatedCluster(small(), 1, lambda _: None)
    cluster.run_until(20)
    [step] = small({"at": 0, "do": "freeze", "who": "c-1", "lasts": 30}).story
    thaw = story.do(cluster, step)
    cluster.run_until(30)
    thaw()
    cluster.run_until(60)
    [fault] = [one for one in cluster.world.truth.records if type(one).__name__ == "Fault"]
    assert fault.end - fault.begin == 10_000


def _run(*arguments, **environment):
    command = [sys.executable, "-m", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment or None)


def _simulate(*arguments, **environment):
    return _run("simulation", *arguments, **environment)


def test_a_seed_gives_the_same_bytes_whatever_python_hashes(tmp_path):
    for number in (1, 2):
        ran = _simulate("kill", "--seed", 7, "--out", tmp_path / str(number), PYTHONHASHSEED=str(number))
        assert ran.returncode == 0, ran.stderr
    for name in ("events.jsonl.gz", "truth.jsonl"):
        assert (tmp_path / "1" / name).read_bytes() == (tmp_path / "2" / name).read_bytes()


def test_what_the_command_leaves_can_be_replayed(tmp_path):
    ran = _simulate("join", "--no-hook", "--out", tmp_path / "out")
    assert "588 events" in ran.stdout
    ran = _run(
        "streaming.cli.main", "--root", tmp_path, "replay", tmp_path / "out" / "events.jsonl.gz", "--to", "files"
    )
    assert ran.returncode == 0, ran.stderr
    assert "588 lines" in ran.stderr


def test_the_command_lists_the_scenarios_and_errors_are_one_sentence(tmp_path):
    assert "A killed consumer" in _simulate().stdout
    (tmp_path / "mine.toml").write_text('title = "mine"\nminutes = "five"\n')
    for argument, message in (
        ("nothing", "Unknown scenario nothing"),
        (tmp_path / "no.toml", "Unknown scenario"),
        (tmp_path / "mine.toml", "mine.toml: Expected `float`, got `str` - at `$.minutes`"),
    ):
        ran = _simulate(argument)
        assert (ran.returncode, "Traceback" in ran.stderr) == (1, False)
        assert message in ran.stderr


def test_a_scenario_that_fails_leaves_no_recording(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'title = "mine"\nminutes = 1\ntopics = [{name = "T", queues = 1}]\n'
        'groups = [{name = "g", topics = ["T"], consumers = 1}]\nstory = [{at = 5, do = "kill", who = "x"}]\n'
    )
    ran = _simulate(file, "--out", tmp_path / "out")
    assert (ran.returncode, list((tmp_path / "out").iterdir())) == (1, [])
    assert "The scenario cannot continue: no consumer x runs at 5 s." in ran.stderr
