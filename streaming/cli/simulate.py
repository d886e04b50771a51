"""`rebalance-watch simulate`: a story told to a simulated cluster; what the collectors saw of it, and the truth."""

import gc
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.progress import track

from rebalance_model.observe.events import AnyEvent
from rebalance_model.simulation import scenario as scenarios
from rebalance_model.simulation import story
from rebalance_model.simulation.cluster import Cluster
from rebalance_model.simulation.scenario import Scenario, ScenarioError
from rebalance_model.simulation.truth import AnyRecord
from streaming.errors import UserError
from streaming.settings import conf_file, load_settings

_STEP_SECONDS = 10


def simulate(
    scenario: Annotated[
        str | None, typer.Argument(help="A name of conf/scenarios, or a file of your own; none: list them.")
    ] = None,
    *,
    seed: Annotated[int, typer.Option(min=0, help="Chance; the same seed gives the same bytes.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="The folder; <root>/simulation/<scenario>-<seed> if it isn't given.")
    ] = None,
    hook: Annotated[bool, typer.Option(help="Also what a hook in each broker sees: every call.")] = True,
) -> None:
    """Tell a story to a simulated cluster.

    Leaves events.jsonl.gz, a recording that `rebalance-watch replay` reads, and truth.jsonl: who owned, locked and
    consumed what, and every fault, each with its begin and its end.
    """
    if scenario is None:
        for file in sorted(conf_file("scenarios").glob("*.toml")):
            typer.echo(f"{file.stem:22}{read_scenario(file.stem).title}")
        return
    told = read_scenario(scenario)
    folder = out or load_settings().runtime.root / "simulation" / f"{Path(scenario).stem}-{seed}"
    events, truth = run(told, seed, folder, hook=hook)
    typer.echo(f"{events} events and {truth} records of the truth in {folder}")


def read_scenario(name: str) -> Scenario:
    """The scenario of a name, or of a file.

    Raises:
        UserError: there is none, or it says what can't be.
    """
    own = Path(name)
    path = own if own.suffix == ".toml" else conf_file(f"scenarios/{name}.toml")
    try:
        with path.open("rb") as file:
            told = scenarios.read(tomllib.load(file))
        story.check(told)
    except OSError:
        raise UserError(
            f"There is no scenario {name}: `rebalance-watch simulate` lists those there are; a file's name ends in "
            ".toml."
        ) from None
    except (ScenarioError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"The scenario {path} can't be told: {error}.") from None
    return told


def run(told: Scenario, seed: int, folder: Path, *, hook: bool) -> tuple[int, int]:
    """Tell a story, and leave what came of it in a folder.

    Returns:
        How many events, and how many records of the truth.

    Raises:
        UserError: a step can't be done to the cluster as it is then.
    """
    from streaming.log.recording import Recorder

    count = 0

    def record(event: AnyEvent) -> None:
        nonlocal count
        count += 1
        recorder.publish([event])

    path = folder / "events.jsonl.gz"
    end = round(told.minutes * 60)
    steps = [*range(_STEP_SECONDS, end, _STEP_SECONDS), end]
    gc.disable()  # what a simulation makes lives on or goes at once: looking for garbage costs a third of the time
    try:
        with Recorder(path) as recorder:
            cluster = Cluster(told, seed, record, hook=hook)
            story.tell(cluster)
            for seconds in track(steps, description=told.title, console=Console(stderr=True)):
                cluster.run_until(seconds)
            cluster.end()
    except ScenarioError as error:
        path.unlink(missing_ok=True)  # half a story is none
        raise UserError(f"The story can't go on: {error}.") from None
    finally:
        gc.enable()
    records = cluster.world.truth.records
    _write_truth(folder / "truth.jsonl", records)
    return count, len(records)


def _write_truth(path: Path, records: Iterable[AnyRecord]) -> None:
    with path.open("wb") as file:
        for record in sorted(records, key=lambda one: one.begin):
            file.write(msgspec.json.encode(record) + b"\n")
