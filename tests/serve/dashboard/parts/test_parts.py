"""Parts that pages share: colours and names of clients, periods, values as text, pages of tables."""

import asyncio
import gc
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from streaming.base.errors import UserError
from streaming.queries import labels
from streaming.queries.present import Heard, HistoryBounds
from streaming.serve.dashboard import routes
from streaming.serve.dashboard.parts.markup import clock, count, duration, rendered
from streaming.serve.dashboard.parts.moment import Window, until, window
from streaming.serve.dashboard.parts.ordering import page_of
from streaming.serve.dashboard.parts.palette import COLOURS, colours, short_names
from tests.serve.dashboard.tables import CLIENTS, HOUR, NOW


def test_a_client_keeps_its_colour_and_few_clients_share_none():
    few = colours(CLIENTS)

    assert len(set(few.values())) == len(CLIENTS)
    assert colours(reversed(CLIENTS)) == few
    assert set(colours(f"client-{n}" for n in range(100)).values()) == set(range(COLOURS))


@pytest.mark.parametrize(
    ("ids", "short"),
    [
        (["10.0.0.5@a-1", "10.0.0.5@a-2"], ["a-1", "a-2"]),
        (["10.0.0.5@1", "10.0.0.6@1"], ["10.0.0.5@1", "10.0.0.6@1"]),
        (["plain"], ["plain"]),
    ],
)
def test_names_are_shortened_only_if_they_stay_unique(ids, short):
    assert [short_names(ids)[client] for client in ids] == short


def test_a_span_ends_now_or_is_centred_on_the_instant():
    available = HistoryBounds(NOW - 100 * HOUR, Heard(NOW, NOW))

    assert window(available, "1h", None) == Window(NOW - HOUR, NOW)
    assert window(available, "1h", NOW - HOUR // 2) == Window(NOW - HOUR, NOW)
    assert window(available, "1h", NOW - 10 * HOUR) == Window(NOW - 10 * HOUR - HOUR // 2, NOW - 10 * HOUR + HOUR // 2)
    assert until(available, "1h", NOW + HOUR).until == NOW
    assert window(available, "7d", None).since == available.first - 1_000


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (0, "0 s"),
        (999, "999 ms"),
        (12_340, "12.3 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_durations_in_words(span, text):
    assert duration(span) == text


def test_an_unknown_value_is_not_shown_as_a_number():
    assert {str(formatted(None)) for formatted in (duration, count, clock)} == {'<span class="unknown">unknown</span>'}


@pytest.mark.parametrize("formatted", [duration, labels.duration])
def test_a_duration_below_zero_is_unknown(formatted):
    assert "unknown" in str(formatted(-1)) or formatted(-1) == labels.NOT_KNOWN


def test_text_from_telemetry_is_escaped():
    page = rendered("error", title="<script>", sentence='<img src=x onerror="alert(1)">')

    assert "<script>" not in page
    assert "<img" not in page


def test_a_page_number_beyond_the_last_shows_the_last():
    assert page_of(range(5), 9, 2) == (range(4, 5), 2, 3, 5)
    assert page_of([], 0, 2) == ([], 0, 1, 0)


@pytest.mark.parametrize("fails", [False, True])
def test_a_page_that_the_browser_left_while_it_was_asked_is_not_built(monkeypatch, fails):
    client, built = SimpleNamespace(is_deleted=False), []

    async def asked():
        client.is_deleted = True
        if fails:
            raise UserError("Unknown consumer group nobody.")

    page = SimpleNamespace(ask=asked, lay_out=lambda: built.append("page"))
    monkeypatch.setattr(routes, "ui", SimpleNamespace(context=SimpleNamespace(client=client)))
    monkeypatch.setattr(routes, "dress", lambda: None)
    monkeypatch.setattr(routes, "error_page", lambda *_: built.append("error"))
    asyncio.run(routes._built("Group", lambda: page))
    assert built == []


def test_an_error_of_a_page_that_no_browser_has_opened_is_not_logged(monkeypatch):
    async def fails():
        await asyncio.sleep(0.01)
        raise UserError("Unknown consumer group nobody.")

    async def never(timeout):
        await asyncio.sleep(0.05)
        raise TimeoutError

    async def built():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
        with pytest.raises(TimeoutError):
            await routes._patiently("Group", fails())
        gc.collect()
        await asyncio.sleep(0)

    logged = []
    client = SimpleNamespace(connected=never)
    monkeypatch.setattr(routes, "_PATIENCE", 0.0)
    monkeypatch.setattr(routes, "ui", SimpleNamespace(context=SimpleNamespace(client=client)))
    monkeypatch.setattr(routes, "outline", lambda _: nullcontext())
    asyncio.run(built())
    assert logged == []
