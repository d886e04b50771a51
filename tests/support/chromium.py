"""Chromium, without a window."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium until the end of the block; until then this process can run no other event loop."""
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        # Started as root, Chromium has no sandbox; what it loads here is ours.
        try:  # if there is none, Playwright looks for one of its own
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        except PlaywrightError as error:
            if program is None:
                error.add_note("chromium is missing: conf/apt.txt")
            raise
        yield browser
        browser.close()


def first_paint_ms(page: Page) -> float:
    """Return when a page first showed content, in milliseconds after its start; it waits until that is recorded."""
    paint: float = page.evaluate(
        """new Promise(resolve => new PerformanceObserver(list => {
            const paint = list.getEntriesByName('first-contentful-paint')
            if (paint.length) resolve(paint[0].startTime)
        }).observe({type: 'paint', buffered: true}))"""
    )
    return paint
