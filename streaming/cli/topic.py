"""`rebalance-watch topic`: manage the Kafka topic of the telemetry log."""

from typing import Annotated

import typer

from streaming.base.settings import load_settings

app = typer.Typer(help="Manage the Kafka topic of the telemetry log.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `create` a subcommand while it is the only one."""


@app.command()
def create(
    replication: Annotated[int, typer.Option(min=1, help="Replication factor.")] = 1,
    retention_hours: Annotated[int, typer.Option(min=1, help="Retention in hours.")] = 168,
) -> None:
    """Create the topic of the settings (source.topic, source.partitions) with broker timestamps (LogAppendTime)."""
    from streaming.log.kafka import create_topic
    from streaming.log.kafka_properties import connection_of

    settings = load_settings()
    source = settings.source
    made = create_topic(
        connection_of(settings),
        source.topic,
        source.partitions,
        replication=replication,
        retention_ms=retention_hours * 3_600_000,
    )
    state = "created" if made else "already exists"
    typer.echo(f"topic {source.topic} {state}: {source.partitions} partitions at {source.bootstrap_servers}")
