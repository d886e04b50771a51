"""The lag of consumer groups by the broker's own metrics (OpenTelemetry, exported for Prometheus)."""

import re
import time
import urllib.request
from threading import Event, Thread

import msgspec

from streaming.lab import servers

_EVERY_SECONDS = 5
_ANSWER_SECONDS_MAX = 10
_METRICS = ("lag", "inflight", "ready")
_LINE = re.compile(rf"rocketmq_consumer_({'|'.join(_METRICS)})_messages\{{(.*)\}} (\S+)")
_PROM = 2
"""MetricsExporterType.PROM."""


class Sample(msgspec.Struct, frozen=True):
    """The broker's answer (epoch ms): the messages of each group by metric, over its topics and retry topics."""

    time: int
    groups: dict[str, dict[str, float]]


def otel_properties():
    """Return the properties with which a broker exports its metrics on a free port."""
    return {
        "metricsExporterType": _PROM,
        "metricsPromExporterHost": servers.LOOPBACK,
        "metricsPromExporterPort": servers.free_port(),
    }


class Otel:
    """Samples the metrics of a broker into a file until the end of a with-block."""

    def __init__(self, properties, path):
        self._address = (
            f"http://{properties['metricsPromExporterHost']}:{properties['metricsPromExporterPort']}/metrics"
        )
        self._path = path
        self._stop = Event()
        self._thread = Thread(target=self._sample)

    def _sample(self):
        with self._path.open("wb") as file:
            while not self._stop.wait(_EVERY_SECONDS):
                file.write(msgspec.json.encode(self._read()) + b"\n")

    def _read(self):
        try:
            with urllib.request.urlopen(self._address, timeout=_ANSWER_SECONDS_MAX) as answer:
                text = answer.read().decode()
        except OSError:
            text = ""  # a busy broker: the next sample will do
        return Sample(time.time_ns() // 1_000_000, read(text))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def read(text):
    """Return the metrics of each group from the text that Prometheus gets."""
    groups = {}
    for line in text.splitlines():
        if found := _LINE.fullmatch(line):
            name, labels, value = found.groups()
            group = re.search(r'consumer_group="([^"]*)"', labels)
            of = groups.setdefault(group[1], {})
            of[name] = of.get(name, 0.0) + float(value)
    return groups


def samples(folder):
    """Return the samples of a run."""
    return [msgspec.json.decode(line, type=Sample) for line in (folder / "otel.jsonl").read_bytes().splitlines()]
