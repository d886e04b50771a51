"""State rebuilt from hook events is that of the brokers: at each tick of a hook and each member list.

Where it may be otherwise is named (`rebuilt`): each story below says which of these differences it may show, and how
often at most; any other one fails. Times that a difference may last are in `rebuilt`, too.

    scan                  a member that the broker's scan has taken out, 120 to 130 s after its last heartbeat
    closed channel        a closed channel that no member list has told of, 130 s at most
    hand-over             a queue that goes over within this second
    two owners            two clients have the queue; one of them is named
    restart               a client dropped a queue with its route, while the broker was down; 35 s at most
    unknown to the broker the client has the queue, but not the broker's lock, or is no member to the broker
    lost                  what the hook could not write, until every client has spoken again (35 s)
    dropped in silence    concurrent: no call says that a client drops a queue, only that it pulls no more
"""

from pathlib import Path

import msgspec
import pytest

from simulation.__main__ import read_scenario
from simulation.scenario import Scenario
from tests.core.observe.rebuilt import Comparison
from tests.support.simulated import small

STORIES: dict[str, dict[str, int]] = {
    "add-queues": {},
    "broker-restart": {"hand-over": 2, "restart": 140},
    "clock-skew": {},
    "collector-away": {},
    "freeze": {"scan": 10, "two owners": 180, "unknown to the broker": 20, "hand-over": 5},
    "hang": {},
    "healthy": {},
    "hook-full": {"lost": 350, "closed channel": 10, "scan": 10},
    "join": {},
    "kill": {},
    "lab-story": {"scan": 20, "two owners": 180, "unknown to the broker": 20, "hand-over": 5},
    "leave": {},
    "notify-loss": {},
    "partition": {"scan": 10, "two owners": 240, "unknown to the broker": 240, "hand-over": 5},
    "poison": {},
    "rollout": {},
    "slow-pull": {},
    "strategy-mistake": {"two owners": 20, "hand-over": 5},
    "subscription-mistake": {"hand-over": 5},
    "thaw": {},
}
FALLIBLE = {"hook-full"}
"""The hook misses something."""


def scenario_of(name: str) -> Scenario:
    made = read_scenario(name)
    return msgspec.structs.replace(made, minutes=2) if name == "healthy" else made


WITH_POLLS = ("collector-away", "hook-full", "freeze", "partition", "broker-restart")
"""The scenarios in which, in the short form, hook and polls both report something; in the others, the hook alone."""
LONG = [pytest.mark.combination, pytest.mark.prove]
BY_HOOK_TOO = [pytest.param(name, False, marks=LONG) for name in WITH_POLLS if name != "collector-away"]
OF_LISTENERS = ("hang", "poison", "slow-pull")
"""Scenarios in which nobody gains or loses a queue."""
FORMS = [
    *(
        pytest.param(name, name in WITH_POLLS, marks=LONG if name in OF_LISTENERS else ())
        for name in STORIES
        if name != "lab-story"
    ),
    *BY_HOOK_TOO,
]


def check(compared: Comparison, may_show: dict[str, int]) -> None:
    assert compared.unexplained() == []
    allowed = compared.allowed()
    assert {name: n for name, n in allowed.items() if n > may_show.get(name, 0)} == {}
    assert compared.instants > 100


def misses(compared: Comparison) -> list[str]:
    """Corrections by polls although a call shows the change; no call shows that a channel is closed or scanned."""
    return [one for one in compared.corrections() if not one.startswith("CHANNEL_CLOSED")]


@pytest.mark.parametrize(("name", "poll"), FORMS)
def test_the_rebuilt_state_is_the_brokers_own(name, poll):
    compared = Comparison(scenario_of(name), 1, poll=poll).run()
    check(compared, STORIES[name])
    assert misses(compared) == []


CHURN = (
    {"at": 20, "do": "join", "who": "c-4", "group": "g"},
    {"at": 35, "do": "kill", "who": "c-1", "lasts": 30},
    {"at": 80, "do": "freeze", "who": "c-2", "lasts": 25},
    {"at": 115, "do": "leave", "who": "c-3", "lasts": 20},
    {"at": 150, "do": "stop-broker", "broker": "broker-a", "lasts": 12},
    {"at": 200, "do": "freeze", "who": "c-2", "lasts": 150},
)
TWO_BROKERS = [{"name": "broker-a"}, {"name": "broker-b"}]
ALWAYS = {"scan": 20, "two owners": 400, "unknown to the broker": 120, "restart": 140, "hand-over": 100}


def churn(*, ordered: bool, brokers: list[dict[str, object]], minutes: int = 7) -> Scenario:
    group = {"name": "g", "called": "c", "topics": ["Orders"], "ordered": ordered, "consumers": 3}
    return small(*CHURN, minutes=minutes, brokers=brokers, groups=[group])


@pytest.mark.parametrize(
    ("brokers", "poll"),
    [
        pytest.param(TWO_BROKERS[:1], False, id="one broker-hook", marks=LONG),
        pytest.param(TWO_BROKERS[:1], True, id="one broker-both", marks=pytest.mark.prove),
        pytest.param(TWO_BROKERS, False, id="two brokers-hook", marks=pytest.mark.prove),
        pytest.param(TWO_BROKERS, True, id="two brokers-both"),
    ],
)
def test_an_ordered_group_under_churn(brokers, poll):
    compared = Comparison(churn(ordered=True, brokers=brokers), 1, poll=poll).run()
    check(compared, ALWAYS)
    assert misses(compared) == []


@pytest.mark.parametrize("poll", [pytest.param(False, id="hook"), pytest.param(True, id="both", marks=LONG)])
def test_a_concurrent_group_under_churn(poll):
    """Without polls, a dropped queue is still attributed to its last holder: no call shows the drop."""
    compared = Comparison(churn(ordered=False, brokers=TWO_BROKERS), 1, poll=poll).run()
    silence = {"dropped in silence": 80} if poll else {"dropped in silence": 480, "dropped in silence for nobody": 240}
    check(compared, ALWAYS | silence)
    assert misses(compared) == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(1, 21))
@pytest.mark.parametrize("poll", [False, True], ids=["hook", "both"])
@pytest.mark.parametrize("path", sorted(Path("simulation/scenarios").glob("*.toml")), ids=lambda path: path.stem)
def test_every_scenario_with_many_seeds(path, poll, seed):
    if path.stem == "collector-away" and not poll:
        pytest.skip("there is no collector to go away")
    compared = Comparison(scenario_of(path.stem), seed, poll=poll).run()
    assert compared.unexplained() == []
    assert path.stem in FALLIBLE or compared.corrections() == []


@pytest.mark.prove
@pytest.mark.parametrize("seed", range(1, 51))
@pytest.mark.parametrize("poll", [False, True], ids=["hook", "both"])
@pytest.mark.parametrize("ordered", [False, True], ids=["concurrent", "ordered"])
def test_churn_with_many_seeds(ordered, poll, seed):
    compared = Comparison(churn(ordered=ordered, brokers=TWO_BROKERS), seed, poll=poll).run()
    assert compared.unexplained() == []
    assert misses(compared) == []
