"""The program `rebalance-watch`, or `python -m streaming.cli`."""

import signal


def main() -> None:
    """Run the command line; until its command is imported Ctrl-C ends the process at once, as SIGTERM does.

    A KeyboardInterrupt is of no use then: there is nothing to tidy up, pydantic's core eats it, and DuckDB's aborts.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored, as behind a shell's `&`
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from streaming.cli import main as command_line

    command_line.main()


if __name__ == "__main__":
    main()
