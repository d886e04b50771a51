"""`rebalance-watch hook`: the part that goes into the brokers."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.settings import load_settings

app = typer.Typer(help="The hook in a RocketMQ broker.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps `build` a word of its own while it is the only one."""


@app.command()
def build(
    *,
    broker_home: Annotated[
        Path | None, typer.Option(help="The broker's home (ROCKETMQ_HOME); the lab's RocketMQ if it isn't given.")
    ] = None,
    to: Annotated[Path | None, typer.Option(help="The jar; <root>/rebalance-watch-hook.jar if it isn't given.")] = None,
) -> None:
    """Make the hook's jar, and print how a broker gets it: two lines, and a restart of the broker."""
    from streaming import jars
    from streaming.broker_hook.build import JAR, broker_jars
    from streaming.broker_hook.build import build as make

    settings = load_settings()
    class_path = broker_jars(broker_home) if broker_home else jars.ensure("rocketmq", settings.runtime.jars)
    jar = make(class_path, (to or settings.runtime.root / JAR).absolute())
    typer.echo(jar)
    typer.echo(f"cp {jar} $ROCKETMQ_HOME/lib/")
    typer.echo('export JAVA_OPT_EXT="$JAVA_OPT_EXT -Drebalance.watch.spool=/var/spool/rebalance-watch"')
