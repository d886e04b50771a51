"""Inputs that coverage guides: atheris keeps each mutant that reaches code which no earlier one has reached.

    python -m tests.fuzz.guided TARGET FOLDER -runs=20000 -seed=1

Half of the mutants are those of `mutations`, half libFuzzer's own. What a reader neither uses nor refuses as it should,
takes too long, or takes too much memory ends the process with another exit code than 0, and is written to the folder.
"""

import random
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import atheris

with atheris.instrument_imports(include=["rebalance_model", "streaming"]):
    from rebalance_model.observe.engine.shard import Shard
    from rebalance_model.observe.events.decoding import RejectedError, decode
    from rebalance_model.observe.group_store import GroupsInMemory
    from rebalance_model.observe.policy import Policy
    from streaming.base.errors import UserError
    from streaming.base.settings import load_policy
    from streaming.collect import client_responses, cluster_responses
    from streaming.collect.fastjson import FastjsonError
    from streaming.collect.remoting import FrameError, frame_length
    from streaming.collect.remoting import decode as decode_frame
    from streaming.log.recording import replayed_rows
    from streaming.serve.alerting.config import load_alerts

from tests.fuzz.conftest import Tally
from tests.fuzz.mutations import BYTES_MAX, mutated, operations_of
from tests.fuzz.samples import ANSWERS
from tests.fuzz.test_answers import FRAMES
from tests.fuzz.test_events import SAMPLES
from tests.fuzz.test_files import ALERTS, POLICIES, RECORDINGS

HANG_SECONDS = 30
"""After which an input counts as one without end, on a busy machine, too, and is written to the folder."""
MEMORY_MB_MAX = 1_500
"""Of the whole process, with all that coverage needs."""
_READERS = (
    cluster_responses.brokers, cluster_responses.groups, cluster_responses.broker_status,
    partial(cluster_responses.route, topic="T"),
    client_responses.connection, client_responses.proxy_connection, client_responses.backlog,
    client_responses.consume_stats, client_responses.consume_time_span, client_responses.topic_stats,
    client_responses.running_info, partial(client_responses.running_info, stacks=True),
)  # fmt: skip


class Target(NamedTuple):
    """A reader of inputs, the samples that they begin with, and how it refuses."""

    read: Callable[[bytes, Path], object]
    samples: list[bytes]
    refusals: tuple[type[Exception], ...]


def events(lines: bytes, _: Path) -> None:
    """Fold the lines as the job does, from an empty state; each is accepted or rejected."""
    shard = Shard(None, GroupsInMemory(), Policy())
    for line in lines.split(b"\n"):
        try:
            event = decode(line, key=None, stamp=1_795_255_700_000, keyed=False)
        except RejectedError:
            continue
        shard.push(event, event.time, len(line))
    shard.finish()
    shard.flush()


def answers(body: bytes, _: Path) -> None:
    """Read an answer; the first byte says to which request."""
    _READERS[sum(body[:1]) % len(_READERS)](body[1:])


def frames(frame: bytes, _: Path) -> None:
    """Read a frame."""
    if len(frame) >= 4:
        frame_length(frame[:4])
    decode_frame(frame[4:])


def _of_file(name: str, read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    def written(content: bytes, folder: Path) -> object:
        (folder / name).write_bytes(content)
        return read(folder / name)

    return written


TARGETS = {
    "events": Target(events, [b"\n".join(SAMPLES[at : at + 10]) for at in range(0, len(SAMPLES), 10)], ()),
    "answers": Target(answers, [bytes([at]) + body for at in range(9) for body in ANSWERS.values()], (FastjsonError,)),
    "frames": Target(frames, FRAMES, (FrameError,)),
    "alerts": Target(_of_file("alerts.toml", lambda file: load_alerts(str(file))), ALERTS, (UserError,)),
    "policy": Target(_of_file("policy.toml", load_policy), POLICIES, (UserError,)),
    "recording": Target(
        _of_file("recording.jsonl", lambda file: sum(map(len, replayed_rows(file, 3)))), RECORDINGS, (UserError,)
    ),
}


def main(name: str, folder: Path, options: list[str]) -> None:
    """Run a target on its samples and their mutants; it ends the process."""
    target, tally = TARGETS[name], Tally()
    corpus = folder / "corpus"
    corpus.mkdir(parents=True)
    for number, sample in enumerate(target.samples):
        (corpus / f"{number}").write_bytes(sample)

    def run(data: bytes) -> None:
        with tally.in_time(), suppress(*target.refusals):
            target.read(data, folder)

    def mutant(data: bytes, size_max: int, seed: int) -> bytes:
        choice = random.Random(seed)
        if choice.random() < 0.5:
            return atheris.Mutate(data, size_max)
        return mutated(data, operations_of(choice), target.samples)[:size_max]

    limits = [
        f"-timeout={HANG_SECONDS}",
        f"-max_len={BYTES_MAX}",
        f"-rss_limit_mb={MEMORY_MB_MAX}",
        f"-artifact_prefix={folder}/",
    ]
    atheris.Setup([sys.argv[0], *limits, *options, str(corpus)], run, custom_mutator=mutant)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3:])
