"""`rebalance-watch topic`: the Kafka topic that is the log."""

from typing import Annotated

import typer

from streaming.settings import load_settings

app = typer.Typer(help="The Kafka topic that the telemetry goes through.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps `create` a word of its own while it is the only one."""


@app.command()
def create(
    replication: Annotated[int, typer.Option(min=1, help="Copies of each partition.")] = 1,
    retention_hours: Annotated[int, typer.Option(min=1, help="How long Kafka keeps a row.")] = 168,
) -> None:
    """Make the topic of the settings (source.topic, source.partitions), stamped by the broker (LogAppendTime)."""
    from streaming.log.kafka import create_topic

    source = load_settings().source
    made = create_topic(
        source.bootstrap_servers,
        source.topic,
        source.partitions,
        replication=replication,
        retention_ms=retention_hours * 3_600_000,
    )
    state = "made" if made else "is already there"
    typer.echo(f"topic {source.topic} {state}: {source.partitions} partitions at {source.bootstrap_servers}")
