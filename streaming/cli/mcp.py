"""`rebalance-watch mcp`: answer the questions of a model over standard input and output."""

from streaming.base.lines import start_lines
from streaming.base.place import tables_of
from streaming.base.settings import load_settings


def mcp() -> None:
    """Serve the questions as tools of the Model Context Protocol (MCP), over standard input and output.

    A client such as an assistant or an editor starts this command, and ends it by closing the input. All tools are
    read-only. The dashboard serves the same over HTTP, at /mcp.
    """
    from streaming.serve.mcp.questions import question_server
    from streaming.serve.mcp.stdio import serve_stdio
    from streaming.serve.store import Store

    settings = load_settings()
    start_lines(settings.log.format, "mcp")
    with Store(tables_of(settings)) as store:
        serve_stdio(question_server(settings, store, None))
