"""Places for concurrent requests: subjects take turns, and clients that answer badly have few of them."""

import asyncio

import pytest

from streaming.collect import gates
from streaming.collect.gates import FairGate
from streaming.collect.member_requests import Manner, MemberRoom


async def entered(gate, subject, order, leave):
    async with gate.place(subject):
        order.append(subject)
        await leave.wait()


def order_of(gate, subjects):
    """Return the order in which requests of these subjects get the places of a gate."""

    async def run():
        order, leave = [], asyncio.Event()
        tasks = [asyncio.create_task(entered(gate, subject, order, leave)) for subject in subjects]
        await asyncio.sleep(0)
        at_once = list(order)
        leave.set()
        await asyncio.gather(*tasks)
        assert gate.in_use == 0
        return at_once, order

    return asyncio.run(run())


def test_a_subject_with_many_requests_has_one_turn_like_the_others():
    at_once, order = order_of(FairGate(1), ["a", *["many"] * 5, "b", "c"])
    assert at_once == ["a"]
    assert order == ["a", "many", "b", "c", "many", "many", "many", "many"]


def test_one_subject_takes_only_its_part_of_the_places():
    at_once, _ = order_of(FairGate(4, 2), [*["many"] * 5, "b"])
    assert at_once == ["many", "many", "b"]


def test_a_request_that_is_cancelled_leaves_its_place_to_the_next():
    async def run():
        gate, order, leave = FairGate(1), [], asyncio.Event()
        first, second, third = (asyncio.create_task(entered(gate, name, order, leave)) for name in "abc")
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.wait([second])
        first.cancel()
        await asyncio.wait([first])
        leave.set()
        await third
        return order, gate.in_use

    assert asyncio.run(run()) == (["a", "c"], 0)


@pytest.mark.parametrize(("late_max", "expected"), [(0, ["a", "b"]), (1, ["a", "b", "c"]), (9, list("abcdef"))])
def test_requests_that_are_late_give_their_places_to_others(monkeypatch, late_max, expected):
    """But no more of them than may be open, and none that is not waited for."""
    monkeypatch.setattr(gates, "PLACE_SECONDS", 0.05)

    async def run():
        gate, order, leave = FairGate(2, late_max=late_max), [], asyncio.Event()
        tasks = [asyncio.create_task(entered(gate, name, order, leave)) for name in "abcdef"]
        await asyncio.wait(tasks, timeout=1.0)
        in_use, before = gate.in_use, list(order)
        leave.set()
        await asyncio.gather(*tasks)
        return before, in_use, gate.in_use

    assert asyncio.run(run()) == (expected, 2, 0)


class Broker:
    """A broker whose clients never answer; it answers at once while fewer than ``threads`` of them are asked."""

    def __init__(self, threads, monkeypatch):
        monkeypatch.setattr("streaming.collect.member_requests._LOOK_SECONDS", 0.01)
        self.threads = threads
        self.asked = []
        self.most = 0

    async def is_prompt(self):
        return len(self.asked) < self.threads

    async def ask(self, room, group, manner, seconds):
        async with room.place(group, manner):
            self.asked.append(group)
            self.most = max(self.most, len(self.asked))
            await asyncio.sleep(seconds)
            self.asked.remove(group)

    async def ask_all(self, room, groups, seconds=60.0, until=lambda: True):
        """Ask a client of each group until something holds."""
        tasks = [asyncio.create_task(self.ask(room, group, Manner.NEW, seconds)) for group in groups]
        while not until():
            await asyncio.sleep(0.01)
        room.cancel()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_more_clients_are_asked_while_their_broker_answers_at_once(monkeypatch):
    async def run():
        broker = Broker(1_000, monkeypatch)
        room = MemberRoom(16, broker.is_prompt, lambda: 0.0)
        groups = [f"frozen-{n}" for n in range(60)] + ["good"]
        await broker.ask_all(room, groups, until=lambda: "good" in broker.asked)
        return broker.most

    assert asyncio.run(run()) >= 60


def test_a_broker_keeps_threads_for_its_own_answers(monkeypatch):
    async def run():
        broker, looks = Broker(16, monkeypatch), []

        async def is_prompt():
            looks.append(len(broker.asked))
            return await broker.is_prompt()

        room = MemberRoom(16, is_prompt, lambda: 0.0)
        await broker.ask_all(room, [f"frozen-{n}" for n in range(60)], until=lambda: looks and looks[-1] >= 16)
        return looks

    looks = asyncio.run(run())
    assert looks[0] == 8  # half of them, before it is known whether it answers
    assert looks[-1] <= 18


def test_clients_with_large_answers_are_asked_one_at_a_time():
    async def run():
        pauses, most, order = [0.02, 0.0, 0.02, 0.0], [], []
        room = MemberRoom(16, lambda: asyncio.sleep(0, result=True), lambda: pauses.pop(0))

        async def ask(name, manner):
            async with room.place(name, manner):
                order.append(name)
                most.append(name)
                await asyncio.sleep(0)
                assert manner is not Manner.LARGE or most == [name]
                most.remove(name)

        large = [asyncio.create_task(ask(name, Manner.LARGE)) for name in ("large", "huge")]
        await asyncio.sleep(0)
        await ask("good", Manner.PROMPT)
        await asyncio.gather(*large)
        return order, pauses

    assert asyncio.run(run()) == (["good", "large", "huge"], [])
