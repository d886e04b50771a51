"""Send a request when there is room for it; whatever fails ends this request, or this part of a round, alone."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import TypeVarTuple

from rebalance_model.observe.events import DEADLINE, NOT_ASKED, UNREACHABLE, UNREADABLE, RpcError
from streaming.base.limits import REMARK_CHARACTERS
from streaming.collect.client import RequestRefusedError, RpcFailedError
from streaming.collect.emitter import SourceClock
from streaming.collect.gates import Turn
from streaming.collect.known_brokers import Place
from streaming.collect.poll_round import LeftError, PolledAnswer, Request
from streaming.collect.polled_events import PolledEvents, RoundWarnings

_Ts = TypeVarTuple("_Ts")


@dataclass(eq=False)
class Asker:
    """Sends the requests of a poller."""

    clock: SourceClock
    events: PolledEvents
    warnings: RoundWarnings
    heard: Callable[[Place], None]
    """Called with a broker that has answered anything."""

    async def confined(self, subject: str, work: Callable[[*_Ts], Awaitable[None]], *args: *_Ts) -> None:
        """Await a part of the round; an exception ends this part alone, and is printed once."""
        try:
            await work(*args)
        except RpcFailedError as error:
            self.events.tally.errors += 1
            self.warnings.warn("a part of the round failed", subject=subject, error=str(error))
        except Exception as error:  # noqa: BLE001  no answer of anybody may end the collector
            self.events.tally.errors += 1
            self.warnings.warn("a part of the round failed", subject=subject, error=repr(error), exc_info=error)

    async def ask(
        self,
        ask: Request,
        gate: AbstractAsyncContextManager[None],
        *,
        deadline: float | None = None,
        seconds: float,
        place: Place | None = None,
    ) -> PolledAnswer:
        """Send a request when the gate has room, if that is before the deadline (of the loop's clock).

        From then on it has ``seconds`` at most. ``place`` is the broker that answers, if it is one.
        """
        if isinstance(gate, Turn) and gate.enter_at_once():  # a timer for each request would take a tenth of its time
            try:
                return await self._ask_in_time(ask, deadline, seconds, place)
            finally:
                gate.leave()
        try:
            async with asyncio.timeout_at(deadline) as to_wait, gate:
                to_wait.reschedule(None)
                return await self._ask_in_time(ask, deadline, seconds, place)
        except TimeoutError:
            return self.not_asked()

    def not_asked(self) -> PolledAnswer:
        """Return the answer to a request for which no time was left."""
        now = self.clock.steady()
        return PolledAnswer(now, now, None, RpcError(code=DEADLINE, remark=f"{NOT_ASKED}: the round's time was over"))

    async def _ask_in_time(
        self, ask: Request, deadline: float | None, seconds: float, place: Place | None
    ) -> PolledAnswer:
        left = seconds if deadline is None else min(seconds, deadline - asyncio.get_running_loop().time())
        if left <= 0:
            return self.not_asked()
        answer = await self._ask_at_once(ask, left)
        if place is not None and (answer.error is None or not answer.error.is_silence):
            self.heard(place)
        return answer

    async def _ask_at_once(self, ask: Request, seconds: float) -> PolledAnswer:
        asked = self.clock.steady()
        try:
            payload = await ask(seconds)
            return PolledAnswer(asked, self.clock.steady(), payload, None)
        except RpcFailedError as error:
            return PolledAnswer(asked, self.clock.steady(), None, self._error_of(error))
        except LeftError:
            raise
        except Exception as error:  # noqa: BLE001  of any answer, address, client or parser: it ends this request alone
            self.warnings.warn("a request failed", request=_name_of(ask), error=repr(error), exc_info=error)
            unreadable = RpcError(code=UNREADABLE, remark=repr(error)[:REMARK_CHARACTERS])
            return PolledAnswer(asked, self.clock.steady(), None, unreadable)

    def _error_of(self, error: RpcFailedError) -> RpcError:
        """Return a failed request as events have it; more about it is printed once."""
        if error.detail:
            self.warnings.warn("no answer", error=error.remark, detail=error.detail)
        if not isinstance(error, RequestRefusedError):
            return RpcError(code=error.code, remark=error.remark)
        self.events.tally.refusals.add(error.remark)
        # What listens at an address that anybody may have registered is for who runs the collector alone.
        remark = error.remark if error.code != UNREACHABLE else "the connection was refused"
        return RpcError(code=error.code, remark=remark)


def _name_of(ask: Request) -> str:
    if isinstance(ask, partial):
        return " ".join([ask.func.__name__, *map(str, ask.args)])
    return getattr(ask, "__name__", "")
