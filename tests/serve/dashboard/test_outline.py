"""While the tables are read a page has its frame, its title and an outline already."""

import subprocess
import sys

import httpx
import pytest
from playwright.sync_api import expect

from streaming.lab.servers import free_port
from tests.support.waiting import until

SLOW = """
import asyncio, sys
import uvicorn
from fastapi import FastAPI
from nicegui import ui
from streaming.serve.dashboard import routes
from streaming.serve.dashboard.parts.frame import element, frame
from streaming.serve.user import User, asked_by

app, read = FastAPI(), asyncio.Event()

class Slow:
    async def ask(self):
        await read.wait()
    def lay_out(self):
        frame("orders-group", [("Groups", "/"), ("orders-group", None)])
        element("h1").text = "orders-group, read"

@app.post("/read")
async def end_reading():
    read.set()

@ui.page("/slow")
async def slow():
    with asked_by(User("u-1", "ann", "operator")):
        await routes._built("orders-group", Slow)

ui.run_with(app, storage_secret="test")
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
"""
"""A server, in a process without other pages, of a page that waits until it is said that the tables have been read."""


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    port, folder = free_port(), tmp_path_factory.mktemp("outline")
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return httpx.get(address).status_code > 0
        except httpx.TransportError:
            return False

    with subprocess.Popen([sys.executable, "-c", SLOW, str(port)], cwd=folder) as server:
        try:
            until(answers, 60)
            yield address
        finally:
            server.terminate()


def test_frame_and_title_are_there_at_once_and_the_bar_stays(slow, browser):
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{slow}/slow", wait_until="commit")
        expect(page.locator(".outline h1")).to_have_text("orders-group")
        expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        expect(page.get_by_role("status")).to_have_text("Reading the tables…")
        page.get_by_label("Signed in: ann, Operator").click()
        expect(page.get_by_role("link", name="Your actions")).to_be_visible()

        httpx.post(f"{slow}/read").raise_for_status()
        expect(page.get_by_role("heading", level=1)).to_have_text("orders-group, read")
        expect(page.locator(".outline")).to_have_count(0)
        expect(page.get_by_role("banner")).to_have_count(1)
        expect(page.locator(".nicegui-skip-link")).to_have_count(1)
        expect(page.get_by_role("navigation", name="Breadcrumbs")).to_have_text("Groupsorders-group")
        expect(page.get_by_role("link", name="Your actions")).to_be_visible()  # who has opened a menu wants to use it
