"""`rebalance-watch hook`: build the plug-in for the brokers."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.base.settings import load_settings

app = typer.Typer(help="The RocketMQ broker hook.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `build` a subcommand while it is the only one."""


@app.command()
def build(
    *,
    broker_home: Annotated[
        Path | None, typer.Option(help="Home of the broker (ROCKETMQ_HOME); default: the lab's RocketMQ.")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="Jar to write; default: <root>/rebalance-watch-hook.jar.")] = None,
) -> None:
    """Build the hook's jar and print the two commands that install it; the broker must be restarted."""
    from streaming.base import jars
    from streaming.collect.broker_hook import JAR, broker_jars
    from streaming.collect.broker_hook import build as make

    settings = load_settings()
    class_path = broker_jars(broker_home) if broker_home else jars.ensure("rocketmq", settings.runtime.jars)
    jar = make(class_path, (to or settings.runtime.root / JAR).absolute())
    typer.echo(jar)
    typer.echo(f"cp {jar} $ROCKETMQ_HOME/lib/")
    typer.echo('export JAVA_OPT_EXT="$JAVA_OPT_EXT -Drebalance.watch.spool=/var/spool/rebalance-watch"')
