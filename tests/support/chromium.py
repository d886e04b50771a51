"""Chromium, without a window.

Debian has its engine also as a program of its own, without the browser around it (its profiles, extensions, windows):
the pages are laid out, painted and used in the same way, for two thirds of the processor time.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import Error as PlaywrightError

_ONE_PROCESS = "ProactivelySwapBrowsingInstance,IsolateOrigins,site-per-process,SpareRendererForSitePerProcess"
_PROGRAMS = ("chromium-headless-shell", "chromium")
_ARGUMENTS = [
    "--no-sandbox",  # started as root, Chromium has none; what it loads here is ours
    "--disable-gpu",
    "--in-process-gpu",  # what paints without a GPU needs no process of its own
    # One process shows all pages of a site, one after the other: a new one for each page takes a quarter more in all.
    "--process-per-site",
    "--disable-site-isolation-trials",
    f"--disable-features={_ONE_PROCESS}",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run Chromium until the end of the block; until then this process can run no other event loop."""
    with sync_playwright() as playwright:
        program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
        try:  # if there is none, Playwright looks for one of its own
            browser = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        except PlaywrightError as error:
            if program is None:
                error.add_note(f"{_PROGRAMS[0]} is missing: conf/apt.txt")
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


def inaccessible(page: Page, **options: object) -> list[str]:
    """Return what axe finds serious on a page; without what passes, whose description takes most of the time.

    Args:
        page: as it is shown.
        options: of axe, as ``runOnly``.
    """
    found = Axe().run(page, options={"resultTypes": ["violations"], **options}).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    return [f"{page.url} {one['id']}: {node['html'][:200]}" for one in serious for node in one["nodes"]]
