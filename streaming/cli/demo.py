"""`rebalance-watch demo`: the job over the bundled recording of a real cluster, and what it found."""

import time

from rich.console import Console

from streaming.settings import load_settings


def demo() -> None:
    """Run the streaming job over a recording of a real RocketMQ cluster and print what it found.

    The recording is 26 minutes of a cluster on which every fault of the lab was put. Needs no cluster and no Kafka.
    """
    from streaming.demo.play import CAPTURE, FAULT_LOG, demo_settings, play
    from streaming.demo.report import report, story
    from streaming.read_model.reader import ReadModel

    console, progress = Console(), Console(stderr=True)
    settings = demo_settings(load_settings())
    began = time.monotonic()
    progress.print(f"The capture has {CAPTURE.stat().st_size / 1024:.0f} KB.", highlight=False)
    with progress.status("starting") as status:
        batches = play(settings, status.update)
    rows = sum(batch.rows for batch in batches if batch.effects is not None)
    effects = sum(batch.effects or 0 for batch in batches)
    progress.print(
        f"{rows} rows of telemetry, {effects} conclusions, {time.monotonic() - began:.0f} s.\n", highlight=False
    )
    story(FAULT_LOG, console)
    with ReadModel(settings.runtime.tables) as model:
        report(model, console)
    console.print(f"\nThe Delta tables are in [bold]{settings.runtime.tables}[/].", highlight=False, soft_wrap=True)
    console.print(
        "Next: a cluster of your own to put faults on, [bold]rebalance-watch lab up[/]; or watch yours, "
        "[bold]rebalance-watch collect poll[/] and [bold]rebalance-watch run[/] (README).",
        highlight=False,
        soft_wrap=True,
    )
