"""A collector ends after a signal, whatever its main thread does then."""

import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from streaming.cli.interruption import Interruption

SECONDS_MAX = 100
PROGRAM = """
import asyncio, signal, sys, threading, time
from streaming.cli.interruption import Interruption

def say(what):
    print(what, flush=True)

async def handles():
    interrupted = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, interrupted.set)
    say("runs")
    await interrupted.wait()
    say("ends by itself")

async def handles_none():
    say("runs")
    await asyncio.sleep(600)

async def is_busy():
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: say("asked"))
    say("runs")
    while True:
        pass

async def hangs_in_another_thread():
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, asked.set)
    hanging = loop.run_in_executor(None, time.sleep, 600)  # as a write to Kafka, which the end waits for
    say("runs")
    await asked.wait()
    await hanging

async def hangs_at_the_end():
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    threading.Thread(target=time.sleep, args=(600,)).start()  # the interpreter waits for it
    say("runs")
    await asked.wait()

with Interruption(float(sys.argv[2])) as interruption:
    interruption.run(globals()[sys.argv[1]]())
say(interruption.at_most(3.0))
"""
LONG = 10_000.0


@contextmanager
def running(main, grace_seconds):
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, main, str(grace_seconds)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        try:
            assert process.stdout.readline() == "runs\n"
            yield process
        finally:
            process.kill()


def ended(process):
    return process.wait(SECONDS_MAX), process.stdout.read()


def test_a_process_that_handles_the_signal_ends_by_itself_in_time():
    with running("handles", LONG) as process:
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "ends by itself\n3.0\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_who_handles_no_signal_is_cancelled(number):
    with running("handles_none", LONG) as process:
        process.send_signal(number)
        assert ended(process) == (128 + number, "")


@pytest.mark.parametrize("main", ["is_busy", "hangs_in_another_thread", "hangs_at_the_end"])
def test_who_does_not_end_is_ended_after_the_grace_period(main):
    with running(main, 0.3) as process:
        process.send_signal(signal.SIGTERM)
        code, said = ended(process)
    assert code == 128 + signal.SIGTERM
    assert "not ended 0.3 s after a signal" in said


def test_a_second_signal_ends_at_once():
    with running("is_busy", LONG) as process:
        process.send_signal(signal.SIGTERM)
        os.kill(process.pid, signal.SIGTERM)
        while process.poll() is None:  # two signals in one moment may be one
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(0.2)
            except subprocess.TimeoutExpired:
                continue
        code, said = ended(process)
    assert (code, said) == (128 + signal.SIGTERM, "")


def test_without_a_signal_the_handlers_are_as_before():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        assert interruption.at_most(3.0) == float("inf")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before
    assert signal.set_wakeup_fd(-1) == -1
