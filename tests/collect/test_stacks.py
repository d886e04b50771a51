"""Clients that are asked for the stacks of their listener, and the part of a thread dump that is kept."""

import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from rebalance_model.entities import MessageQueue
from rebalance_model.observe.events import ProcessQueueInfo, ThreadStack
from streaming.base.limits import STACK_CHARACTERS, STACK_FRAMES, STACK_THREADS
from streaming.collect.client_responses import running_info
from streaming.collect.stacks import Listeners, is_whole_dump, listener_stacks

MEMBER = ("lab", "orders-group", "orders-1")
AFTER = 30_000
SERVICE = "org.apache.rocketmq.client.impl.consumer.ConsumeMessage{}Service$ConsumeRequest.run(ConsumeMessage.java:471)"


def thread(name, state, *frames):
    """A thread as UtilAll.jstack writes it; a name of 40 characters or more has no space behind it."""
    return "".join(f"{line}\n" for line in (f"{name:40}TID: 42 STATE: {state}", *(f"{name:40}{one}" for one in frames)))


@pytest.mark.parametrize("kind", ["Orderly", "Concurrently"])
@pytest.mark.parametrize("name", ["ConsumeMessageThread_1", f"ConsumeMessageThread_{'g' * 40}_12"])
def test_the_threads_that_consume_are_kept_down_to_the_consume_service(kind, name):
    of_listener = (
        "java.lang.Object.wait(Native Method)",
        "com.shop.Orders.consume(Orders.java:7)",
        SERVICE.format(kind),
    )
    idle = thread("ConsumeMessageThread_2", "WAITING", "java.util.concurrent.LinkedBlockingQueue.take(Queue.java:433)")
    hung = thread(name, "WAITING", *of_listener, "java.lang.Thread.run(Thread.java:840)")

    for newline in ("\n", "\r\n"):
        dump = "\n".join([idle, hung, thread("main", "RUNNABLE", "a.Main.main(Main.java:1)")]).replace("\n", newline)
        assert listener_stacks(dump) == [ThreadStack(name=name, state="WAITING", frames=of_listener)]


@pytest.mark.parametrize(("mode", "threads"), [("ordered", 8), ("concurrent", STACK_THREADS)])
def test_the_goroutines_that_consume_are_kept_down_to_the_listener(mode, threads):
    """A real answer of the client in Go: a goroutine for each queue waits for messages, too, and many others."""
    body = (Path(__file__).parent / f"wire/clients/go-2.1.2/307-{mode}-hung-stacks.body").read_bytes()
    stacks = running_info(body, stacks=True)["stacks"]
    assert len(stacks) == threads
    client, place = "github.com/apache/rocketmq-client-go/v2", "consumer/push_consumer.go:1040"
    assert stacks[0] == ThreadStack(
        name=stacks[0].name,
        state="sleep",
        frames=(
            "time.Sleep(GOROOT/src/runtime/time.go:363)",
            "main.main.func1(app/main.go:37)",
            f"{client}/consumer.(*pushConsumer).consumeInner(GOPATH/pkg/mod/{client}@v2.1.2/{place})",
        ),
    )
    assert all(one.name.startswith("goroutine ") for one in stacks)


def test_of_many_threads_and_frames_the_first_are_kept():
    deep = ("a.B.c(B.java:1)",) * 1_000 + (SERVICE.format("Orderly"),)
    stacks = listener_stacks("\n".join(thread(f"t-{n}", "RUNNABLE", *deep) for n in range(100)))
    assert len(stacks) == STACK_THREADS
    assert {len(one.frames) for one in stacks} == {STACK_FRAMES}


@pytest.mark.parametrize(
    "piece", [" ", "\n", " \n", "TID: ", "TID: 1 STATE: ", "x TID: 1 STATE: A\n", "a.ConsumeMessage", "\r\n\r\n", "$"]
)
def test_a_dump_is_read_in_time_that_is_linear_in_it(piece):
    """A regular expression over a line took 1.3 s for 40,000 blanks; a frame may have 16 MB."""

    def seconds(characters):
        dump = "name" + piece * (characters // len(piece))
        began = time.thread_time()
        listener_stacks(dump)
        return time.thread_time() - began

    assert seconds(400_000) < 0.05 + 40 * seconds(40_000)


@given(
    st.text()
    | st.text(alphabet="a\n: TIDSE4").map(lambda text: f"n TID: 1 STATE: A\n{text}")
    | st.text(alphabet="a\n:( []\t").map(lambda text: f"goroutine 1 [{text}")
)
def test_any_text_is_read(text):
    assert listener_stacks(text) == []


def queue(consumed, *, cached=3, dropped=False, commit=7):
    return ProcessQueueInfo(
        mq=MessageQueue("Orders", "broker-a", 0), commit_offset=commit, cached_count=cached, locked=True, lock_time=1,
        dropped=dropped, pull_time=1, consume_time=consumed,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("answers", "due"),
    [
        ([(0, queue(5)), (AFTER, queue(5))], True),
        ([(0, queue(5)), (AFTER - 1, queue(5))], False),
        ([(0, queue(5)), (AFTER, queue(6))], False),
        ([(0, queue(5)), (AFTER, queue(5, cached=0))], False),
        ([(0, queue(5)), (AFTER, queue(5, dropped=True))], False),
        ([(0, queue(5, cached=0)), (AFTER, queue(5))], False),
        ([(0, queue(5, cached=None)), (AFTER, queue(5, cached=None))], False),
        ([(0, queue(None)), (AFTER, queue(None))], True),
        ([(0, queue(None)), (AFTER, queue(None, commit=8))], False),
        ([(0, queue(5, dropped=None)), (AFTER, queue(5, dropped=None))], True),
    ],
    ids=["hung", "not-yet", "consumes", "nothing-to-consume", "released", "only-now", "no-count", "no-stamp",
         "no-stamp-but-commits", "unknown-whether-dropped"],
)  # fmt: skip
def test_a_listener_is_asked_when_it_finished_no_message_for_long(answers, due):
    listeners = Listeners(AFTER)
    start = 1_000_000
    for at, row in answers:
        listeners.note(MEMBER, [row], start + at, asked=False)
    assert listeners.is_due(MEMBER, start + answers[-1][0]) is due
    assert not Listeners(0).is_due(MEMBER, start)


def test_it_is_asked_once_and_again_after_ten_minutes_or_when_it_is_back():
    listeners, start = Listeners(AFTER), 1_000_000
    listeners.note(MEMBER, [queue(5)], start, asked=False)
    listeners.note(MEMBER, [queue(5)], start + AFTER, asked=True)
    due = [listeners.is_due(MEMBER, start + AFTER + later) for later in (1, 599_999, 600_000)]
    listeners.keep(set())
    assert due == [False, False, True]
    assert not listeners.is_due(MEMBER, start + AFTER + 600_000)


def test_a_listener_that_hangs_again_is_asked_again():
    listeners, start = Listeners(AFTER), 1_000_000
    listeners.note(MEMBER, [queue(5)], start, asked=False)
    listeners.note(MEMBER, [queue(5)], start + AFTER, asked=True)
    listeners.note(MEMBER, [queue(6)], start + AFTER + 10_000, asked=False)
    due = [listeners.is_due(MEMBER, start + AFTER + 10_000 + later) for later in (AFTER - 1, AFTER)]
    assert due == [False, True]


@pytest.mark.parametrize(
    ("dump", "whole"),
    [("", False), ("no threads", False), ("main  TID: 1 STATE: RUNNABLE\n", True), ("goroutine 1 [running]:\n", True)],
)
def test_a_dump_without_threads_of_the_listener_shows_that_it_has_none(dump, whole):
    assert (is_whole_dump(dump), listener_stacks(dump)) == (whole, [])
    assert not is_whole_dump("goroutine 1 [running]:\n" + "x" * STACK_CHARACTERS)


def test_a_client_of_any_number_of_queues_has_a_limited_place():
    """Those watched stay the same, so that one that hangs is found, though the answer's order changes."""
    rows = [replace(queue(5), mq=MessageQueue("Orders", "broker-a", number)) for number in range(20_000)]
    listeners, start = Listeners(AFTER), 1_000_000
    tracemalloc.start()
    try:
        for number in range(50):
            listeners.note(("cluster", "group", f"client-{number}"), rows, start, asked=False)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size < 20_000_000
    moved = [replace(row, consume_time=6) if row.mq.queue_id > 5 else row for row in reversed(rows)]
    listeners.note(MEMBER, rows, start, asked=False)
    listeners.note(MEMBER, moved, start + AFTER, asked=False)
    assert listeners.is_due(MEMBER, start + AFTER)
