"""The run time of a simulated hour of a large cluster: ``python -m tests.instruments.bench simulation``.

There is one ordered group on one broker; one of its clients is killed and comes back, which moves most of the queues
twice. The events of the poll collector are generated, and counted.
"""

import gc
import time
from collections import Counter

import typer
from rich.console import Console
from rich.table import Table

from rebalance_model.observe.events import AnyEvent
from simulation import scenario, story
from simulation.cluster import SimulatedCluster
from simulation.truth import Consumed


def main(clients: int = 1_000, queues: int = 4_096, minutes: float = 60, messages_per_second: float = 410) -> None:
    """Measure and print the results."""
    kill = {"at": 30 * minutes, "do": "kill", "who": f"c-{clients // 2}", "lasts": 90}
    made = scenario.read(
        {
            "title": "large",
            "minutes": minutes,
            "topics": [{"name": "Orders", "queues": queues, "messages_per_second": messages_per_second}],
            "groups": [{"name": "g", "called": "c", "topics": ["Orders"], "ordered": True, "consumers": clients}],
            "story": [kill],
        }
    )
    emitted: Counter[type] = Counter()

    def count(event: AnyEvent) -> None:
        emitted[type(event)] += 1

    gc.disable()  # as the command does
    began, cpu_began = time.perf_counter(), time.process_time()
    cluster = SimulatedCluster(made, 1, count, hook=False)
    story.schedule(cluster)
    cluster.run_until(60 * minutes)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    owners = cluster.owners("g")
    records = cluster.world.truth.records
    consumed = sum(one.last_offset + 1 - one.first_offset for one in records if isinstance(one, Consumed))
    table = Table(show_header=False, title=f"{minutes:g} minutes of {clients:,} clients and {queues:,} queues")
    table.add_row("it took", f"{seconds:.1f} s")
    table.add_row("of CPU", f"{cpu_seconds:.1f} s")
    table.add_row("simulated seconds a second", f"{60 * minutes / seconds:,.0f}")
    table.add_row("messages consumed", f"{consumed:,}")
    table.add_row("events emitted", f"{sum(emitted.values()):,}")
    table.add_row("queues with one owner at the end", f"{sum(len(names) == 1 for names in owners.values()):,}")
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
