"""While the tables are read a page has its frame, its title and an outline already."""

import asyncio
import threading

import pytest
from fastapi import FastAPI
from nicegui import ui
from playwright.sync_api import expect

from streaming.serve.dashboard import routes
from streaming.serve.dashboard.parts.frame import element, frame
from tests.support.served import answering

READ = threading.Event()
"""Set when the tables have been read."""


class _Slow:
    """A page that takes until `READ` is set."""

    async def ask(self) -> None:
        while not READ.is_set():
            await asyncio.sleep(0.05)

    def lay_out(self) -> None:
        frame("orders-group", [("orders-group", None)])
        element("h1").text = "orders-group, read"


@pytest.fixture(scope="module")
def slow():
    app = FastAPI()

    @ui.page("/slow")
    async def slow() -> None:
        await routes._built("orders-group", _Slow)

    ui.run_with(app, storage_secret="test")
    with answering(app) as address:
        yield f"{address}/slow"


def test_frame_and_title_are_there_at_once_and_the_page_replaces_them(slow, browser):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(slow, wait_until="commit")
        expect(page.locator(".outline h1")).to_have_text("orders-group")
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("Reading the tables…")

        READ.set()
        expect(page.get_by_role("heading", level=1)).to_have_text("orders-group, read")
        expect(page.locator(".outline")).to_have_count(0)
        expect(page.get_by_role("banner")).to_have_count(1)
        expect(page.locator(".nicegui-skip-link")).to_have_count(1)
