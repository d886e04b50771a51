"""`python -m simulation`: generate telemetry, and the ground truth, from a simulated cluster."""

import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import track

from rebalance_model.observe.events import AnyEvent
from simulation import scenario as scenarios
from simulation import story
from simulation.cluster import SimulatedCluster
from simulation.scenario import Scenario, ScenarioError
from simulation.truth import AnyRecord
from streaming.base.errors import UserError
from streaming.base.lines import print_error
from streaming.base.process import without_collection
from streaming.log.recording import Recorder

SCENARIOS = Path(__file__).parent / "scenarios"
_STEP_SECONDS = 10


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(help="Scenario in simulation/scenarios, or a file; omit to list them.")
    ] = None,
    *,
    seed: Annotated[int, typer.Option(min=0, help="Random seed; the same seed gives the same bytes.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder to write to; default: <scenario>-<seed> here.")] = None,
    hook: Annotated[bool, typer.Option(help="Include the events of a hook in each broker.")] = True,
) -> None:
    """Generate telemetry from a simulated cluster.

    Writes events.jsonl.gz, a recording for `rebalance-watch replay`, and truth.jsonl: the owners, locks and consumers
    of the queues and every fault, each with start and end.
    """
    if scenario is None:
        for file in sorted(SCENARIOS.glob("*.toml")):
            typer.echo(f"{file.stem:22}{read_scenario(file.stem).title}")
        return
    chosen = read_scenario(scenario)
    folder = out or Path(f"{Path(scenario).stem}-{seed}")
    events, truth = run(chosen, seed, folder, hook=hook)
    typer.echo(f"{events} events and {truth} ground-truth records in {folder}")


def read_scenario(name: str) -> Scenario:
    """Read a scenario by its name in simulation/scenarios or from a file.

    Raises:
        UserError: the scenario does not exist or is invalid.
    """
    own = Path(name)
    path = own if own.suffix == ".toml" else SCENARIOS / f"{name}.toml"
    try:
        with path.open("rb") as file:
            scenario = scenarios.read(tomllib.load(file))
        story.check(scenario)
    except OSError:
        raise UserError(
            f"Unknown scenario {name}: `python -m simulation` lists the scenarios; the name of a file must end in "
            ".toml."
        ) from None
    except (ScenarioError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"Invalid scenario {path}: {error}.") from None
    return scenario


def run(scenario: Scenario, seed: int, folder: Path, *, hook: bool) -> tuple[int, int]:
    """Run a scenario and write its events and ground truth to a folder.

    Returns:
        The number of events and the number of ground-truth records.

    Raises:
        UserError: a step cannot be applied to the cluster in its current state.
    """
    count = 0

    def record(event: AnyEvent) -> None:
        nonlocal count
        count += 1
        recorder.publish([event])

    path = folder / "events.jsonl.gz"
    end = round(scenario.minutes * 60)
    steps = [*range(_STEP_SECONDS, end, _STEP_SECONDS), end]
    try:
        with without_collection(), Recorder(path) as recorder:  # it would take a third of the time
            cluster = SimulatedCluster(scenario, seed, record, hook=hook)
            story.schedule(cluster)
            for seconds in track(steps, description=scenario.title, console=Console(stderr=True)):
                cluster.run_until(seconds)
            cluster.end()
    except ScenarioError as error:
        path.unlink(missing_ok=True)  # an incomplete recording is useless
        raise UserError(f"The scenario cannot continue: {error}.") from None
    records = cluster.world.truth.records
    _write_truth(folder / "truth.jsonl", records)
    return count, len(records)


def _write_truth(path: Path, records: Iterable[AnyRecord]) -> None:
    with path.open("wb") as file:
        for record in sorted(records, key=lambda one: one.begin):
            file.write(msgspec.json.encode(record) + b"\n")


if __name__ == "__main__":
    try:
        typer.run(simulate)
    except (UserError, OSError) as error:
        print_error(str(error))
        sys.exit(1)
