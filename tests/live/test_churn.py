"""Under churn, the state rebuilt from the hooks' events always agrees with the answers of real brokers and clients.

Two brokers, an ordered and a concurrent group; joins, leaves, kills, freezes, a broker restart and a broker kill, more
queues. Each answer is compared by value with the rebuilt state (`agreement`), and every difference is named.

The short form judges a recording of 2026-11-25 (df47768), the long forms record anew. To replace the recording after a
change of the hook or of the collector: `tar -cJf tests/live/churn.tar.xz -C FOLDER .` of what `churn.play` has written.
"""

from dataclasses import dataclass
from pathlib import Path

import pytest

from rebalance_model.observe import events
from rebalance_model.observe.group.ghost_connections import UNNAMED
from rebalance_model.observe.policy import Policy
from tests.live import churn
from tests.live.agreement import (
    CLOSED,
    DIED,
    IN_FLIGHT,
    LOST,
    RACED,
    SCANNED,
    TAKEN_BACK,
    TWO_HOLD,
    UNCOMMITTED,
    UNUSABLE,
    Judge,
    table,
)
from tests.live.histories import History
from tests.support import hooked
from tests.support.recordings import unpacked

pytestmark = pytest.mark.xdist_group("churn")  # one process folds the recording for all


RECORDING = Path(__file__).with_name("churn.tar.xz")


@dataclass(frozen=True)
class Form:
    """A story, its duration, and the minimum number of rounds of requests."""

    steps: tuple
    seconds: int
    rounds: int


SHORT = Form(churn.SHORT, churn.SHORT_SECONDS, 30)  # of 48: the collector's start and stalls take some
LONG = Form(churn.LONG, churn.LONG_SECONDS, 200)
RECORDED = Form((), 0, SHORT.rounds)


FORMS = [
    pytest.param(RECORDED, id="recorded"),
    pytest.param(SHORT, id="short", marks=[pytest.mark.live, pytest.mark.prove]),
    pytest.param(LONG, id="long", marks=[pytest.mark.live, pytest.mark.prove]),
]


@pytest.fixture(scope="module", params=FORMS)
def form(request):
    return request.param


@pytest.fixture(scope="module")
def run(form, settings_with, running, tmp_path_factory):
    """The recording of a lab under churn."""
    folder = tmp_path_factory.mktemp("churn") / "run"
    if form is RECORDED:
        return churn.read(unpacked(RECORDING, folder))
    with running(settings_with(brokers=2, kafka=False, groups={"orders": {"queues": 4}})) as lab:
        return churn.play(lab, form.steps, form.seconds, folder)


@pytest.fixture(scope="module")
def by_hook(run):
    """The state rebuilt from hooks alone."""
    return History(run.hook)


@pytest.fixture(scope="module")
def of_hooks(run, by_hook):
    """The verdict about that state."""
    return Judge(run, by_hook).verdict


@pytest.fixture(scope="module")
def by_both(run):
    """The state rebuilt from hooks and polls."""
    everything = sorted([*run.hook, *run.poll], key=lambda event: event.time)
    return History(everything, Policy(poll_interval=churn.INTERVAL_MS))


def test_hooks_alone_show_what_brokers_and_clients_answer(form, run, of_hooks, capsys):
    with capsys.disabled():
        print(f"\n{table(run, of_hooks)}")
    assert hooked.missing(run.hook) == 0
    assert len([event for event in run.poll if isinstance(event, events.BrokerStatus)]) >= 2 * form.rounds
    assert of_hooks.unexplained == []
    assert of_hooks.too_long() == []


def test_with_polls_the_owner_shown_is_one_that_says_so_itself(run, by_both):
    verdict = Judge(run, by_both).verdict
    assert verdict.unexplained == []
    assert verdict.too_long() == []
    two_rounds = 2 * churn.INTERVAL_MS + 2 * IN_FLIGHT
    assert [spell for spell in verdict.spells() if spell[0] == CLOSED and spell[1] > two_rounds] == []
    also_held = {TWO_HOLD, TAKEN_BACK, UNUSABLE}
    lasting = {CLOSED, SCANNED, UNCOMMITTED, DIED, LOST, *also_held}
    for name, ms, difference in verdict.spells():
        assert name in lasting or ms < churn.INTERVAL_MS, (
            difference
        )  # beside an answer on its way, a call may tell otherwise
    for difference in verdict.differences:
        if difference.name in also_held:
            assert _says_so(by_both, verdict.knowledge, difference), difference


def _says_so(history, knowledge, difference):
    """Return whether the owner has the queue by its last or next answer, or by a call since."""
    owners = history.series[difference.group][difference.key]
    owner, taken = owners.at(difference.time), owners.since(difference.time)
    claims = knowledge.claims[difference.group, owner]
    *_, (asked, _, last) = [(0, 0, set()), *(claim for claim in claims if claim[1] <= difference.time)]
    following = next((queues for _, answered, queues in claims if answered > difference.time), set())
    return owner is None or taken > asked or difference.key[2] in last | following


def listed(history, group, time):
    """Return the clients that a broker lists, on whichever channel."""
    return {history.series[group][key].at(time) for key in history.keys(group, "member")} - {None}


def _called_at(event):
    """Return when a client sent a call: the pulls of a second are reported together, perhaps after an answer."""
    return getattr(event, "last_time", event.time)


def test_polls_correct_closed_channels_and_lost_races_and_nothing_else(run, by_hook, by_both, of_hooks):
    raced = {(one.group, one.key[2]) for one in of_hooks.differences if one.name == RACED}
    said = {}
    for event in run.hook:
        if isinstance(event, events.GroupEvent):
            said[event.group, event.channel] = event
    for time, group, what in by_both.corrections:
        kind, channel, _ = what.split()
        if kind == "SUBSCRIPTION_MISSED" and (group, channel) in raced:
            continue
        last = said.get((group, channel))
        assert kind == "CHANNEL_CLOSED"
        assert last is None if channel.startswith(UNNAMED) else _called_at(last) < time, (time, what, last)
        assert not isinstance(last, events.UnregisterClient)  # that would have told
    corrected = {(group, what.split()[2]) for _, group, what in by_both.corrections}
    for answer in run.poll:
        if isinstance(answer, events.ConsumerConnection):
            alone, both = (
                set(history.series[answer.group]["members", ""].at(answer.time) or ()) for history in (by_hook, by_both)
            )
            assert both <= alone
            # Others are expected back after a broker's return, and given up by each at its own time.
            gone = (alone - both) & listed(by_hook, answer.group, answer.time)
            assert {(answer.group, client_id) for client_id in gone} <= corrected
    assert {group: state.members for group, state in by_hook.states.items()} == {
        group: state.members for group, state in by_both.states.items()
    }


@pytest.mark.parametrize(
    "overlooked",
    [
        events.GetConsumerListByGroup,
        events.LockBatchMq,
        events.QueryConsumerOffset,
        events.UpdateConsumerOffset,
        events.PullMessage,
    ],
)
def test_a_fold_that_overlooks_a_kind_of_call_is_found_out(run, overlooked):
    verdict = Judge(run, History(event for event in run.hook if not isinstance(event, overlooked))).verdict
    assert verdict.unexplained
