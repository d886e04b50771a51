"""The server: its tools and resources, and how errors become one sentence.

Over HTTP it is stateless and answers with JSON: a tool only reads, so there is no session that a replica or a restart
could lose.

Over standard input and output it serves until the input ends or a signal comes.
"""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from threading import Thread
from typing import Any, Final

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, GetPromptResult, InputRequiredResult, ToolAnnotations
from pydantic import ValidationError

from streaming.base.errors import UserError
from streaming.base.invalid import of_parameter, unknown_parameter
from streaming.base.limits import ECHO_CHARACTERS
from streaming.base.terminal import shortened, shortened_whole

NAME = "rebalance-watch"
INSTRUCTIONS = """\
rebalance-watch observes consumer groups of Apache RocketMQ: who owns every queue, who owned it before, why it moved, \
which ordered queue is stuck. All tools are read-only.
- Every answer has its instant (`time`) and the age of the telemetry (`telemetry`); read `note` first: it says what is \
old or unknown.
- Answers are brief: a field that is absent is not known, or there is none, or it is false. Never report it as 0 or as \
healthy. UNKNOWN is not OK. detail="full" has every field.
- `left_out` counts the elements that a list lacks, by its path: ask for a shorter period, one queue or one client, \
or detail="full".
- Times are ISO 8601, UTC. Tools take these, epoch milliseconds, or a time ago such as 2h.
- Fields that end in _ms are durations in milliseconds. A queue is TOPIC@BROKER:ID, such as Orders@broker-a:3.
- Begin with list_groups and list_incidents; show_incident has the evidence and the commands to run next.
"""
READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)


class McpServer(MCPServer[None]):
    """A server whose tools raise a `UserError` for what the caller can correct."""

    def __init__(self) -> None:
        super().__init__(NAME, title=NAME, version=version(NAME), instructions=INSTRUCTIONS, log_level="WARNING")
        self.middleware.append(_refuse_long_names)

    def add_question(self, question: Callable[..., str]) -> None:
        """Add a tool that answers with text; its docstring is its description for a model.

        A list of tools is read before each conversation. So there is no schema of answers, which was six sevenths of
        it, and no title of a parameter, which repeats its name.
        """
        description = " ".join((question.__doc__ or "").split())
        self.add_tool(question, description=description, annotations=READ_ONLY, structured_output=False)
        tool = next(one for one in self._tool_manager.list_tools() if one.name == question.__name__)
        tool.parameters.pop("title", None)
        for parameter in tool.parameters.get("properties", {}).values():
            parameter.pop("title", None)

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: "Context[None, Any] | None" = None
    ) -> CallToolResult | InputRequiredResult:
        """Call a tool.

        Raises:
            ToolError: the arguments are wrong, or the question has no answer; one sentence.
        """
        self._refuse_unknown(name, arguments)
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            cause = error.__cause__
            if isinstance(cause, UserError):
                raise ToolError(shortened_whole(str(cause))) from None
            if isinstance(cause, ValidationError):
                raise ToolError(shortened_whole(_sentence(cause))) from None
            if isinstance(error, UnexpectedToolError):
                raise UnexpectedToolError("Internal error in rebalance-watch: see its log.") from cause
            raise

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: "Context[None, Any] | None" = None
    ) -> GetPromptResult | InputRequiredResult:
        """Refuse any prompt: there is none, and the SDK would log a traceback.

        Raises:
            MCPError: always.
        """
        del arguments, context
        raise MCPError(INVALID_PARAMS, f"Unknown prompt {name}. There are no prompts.")

    def _refuse_unknown(self, name: str, arguments: dict[str, Any]) -> None:
        """Refuse a tool or a parameter that does not exist: the SDK would ignore the latter."""
        tool = self._tool_manager.get_tool(name)
        if tool is None:
            names = ", ".join(sorted(one.name for one in self._tool_manager.list_tools()))
            raise ToolError(f"Unknown tool {name}. The tools are {names}.")
        parameters = tool.parameters.get("properties", {})
        if unknown := sorted(set(arguments) - set(parameters)):
            raise ToolError(unknown_parameter(shortened(unknown[0]), name, parameters))


async def _refuse_long_names(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Refuse a method, tool, resource or prompt with too long a name: the SDK would send it back and log it.

    Raises:
        MCPError: a name is too long.
    """
    params = ctx.params or {}
    for kind, name in (("method", ctx.method), ("name", params.get("name")), ("URI", params.get("uri"))):
        if isinstance(name, str) and len(name) > ECHO_CHARACTERS:
            raise MCPError(INVALID_PARAMS, f"The {kind} has more than {ECHO_CHARACTERS:,} characters.")
    return await call_next(ctx)


def _sentence(error: ValidationError) -> str:
    """Return which parameter is wrong, and why."""
    first = error.errors(include_url=False)[0]
    return of_parameter(str(first["loc"][0]) if first["loc"] else "arguments", first)


_INPUT: Final = 0
_CHUNK_BYTES: Final = 65_536


def serve_stdio(server: McpServer) -> None:
    """Serve until the client closes the input, or SIGTERM.

    Raises:
        KeyboardInterrupt: SIGINT came.
    """
    with _input_that_a_signal_ends():
        server.run("stdio")


@contextmanager
def _input_that_a_signal_ends() -> Iterator[None]:
    """Read the standard input through a socket of this process: nothing can end a read of it that waits for a client.

    At a signal the server sees the end of its input, and ends as if its client had closed it.
    """
    client = os.dup(_INPUT)
    ours, theirs = socket.socketpair()
    os.dup2(theirs.fileno(), _INPUT)
    theirs.close()
    received: list[int] = []

    def end(number: int | None = None, _: object = None) -> None:
        received.extend([] if number is None else [number])
        with suppress(OSError):  # it has ended already
            ours.shutdown(socket.SHUT_WR)

    def copy() -> None:
        with suppress(OSError):  # the server has ended
            while chunk := os.read(client, _CHUNK_BYTES):
                ours.sendall(chunk)
        end()

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    Thread(target=copy, name="input", daemon=True).start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if signal.SIGINT in received:
        raise KeyboardInterrupt
