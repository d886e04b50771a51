"""Takes the pictures of the documents: the demo's cluster in the dashboard, as Chromium shows it.

python -m tests.docs.pictures [ROOT]    those of `.readme` again; ROOT is .rebalance-watch/demo without it
python -m tests.docs.pictures --tour    those of the site's tour, into build/docs

Both after `make demo`.
"""

import re
import subprocess
import sys
from pathlib import PurePosixPath

from tests.docs.source import ROOT
from tests.support.chromium import chromium

AT = "at=2026-11-21T16:00"
PICTURES = {
    "group.png": (f"/group/orders-group?cluster=lab&{AT}&span=1h", "ORDERED_QUEUE_STUCK SUSPEND_LOOP"),
    "incident.png": ("", "SUSPEND_LOOP"),
}
"""By file of `.readme`: an address and a text that the page has when it is complete. Without an address: the page of
the first incident that the page before it links to."""
TOUR = {
    "home": (f"/?{AT}", "orders-group"),
    "queue": (f"/group/orders-group/queue/Orders/broker-a/3?cluster=lab&{AT}", "broker-a"),
    "client": (f"/client/127.0.0.1%40orders-1?{AT}", "orders-1"),
    "incidents": (f"/incidents?{AT}", "is stuck"),
    "what-if": (f"/group/orders-group/what-if?cluster=lab&leave=127.0.0.1%40orders-1&{AT}", "AVG_BY_CIRCLE"),
}
"""An address and a text, by name of a picture of the tour."""
SIZE = {"width": 1280, "height": 900}
BYTES_MAX = 200_000
"""Of a picture that is committed."""


def picture_name(name, folder=""):
    """Return the file of a picture of the tour, from the page that shows it or from the top of the site."""
    return str(PurePosixPath(folder, "tour", f"{name}.png"))


def take(address, pictures):
    """Save pictures: each is of an address and a text, by the file in which it is saved."""
    with chromium() as browser:
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        for file, (path, landmark) in pictures.items():
            if path:
                page.goto(address + path)
            else:
                page.get_by_role("link", name="ORDERED_QUEUE_STUCK").first.click()
            page.get_by_text(landmark).filter(visible=True).first.wait_for(timeout=60_000)
            page.wait_for_timeout(2_000)  # the timeline is drawn after the text
            file.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=file)


def serve(root, pictures):
    """Serve the tables of a runtime root on a free port, and take the pictures."""
    command = [sys.executable, "-m", "streaming.cli", "--root", str(root), "dashboard", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as server:
        try:
            take(next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.:]+", line))), pictures)
        finally:
            server.terminate()


def tour(root, docs):
    """Take the pictures of the tour into a folder of the site's documents."""
    serve(root, {docs / picture_name(name, "streaming"): shot for name, shot in TOUR.items()})


def main(root=".rebalance-watch/demo"):
    """Take the pictures that were asked for."""
    if root == "--tour":
        tour(".rebalance-watch/demo", ROOT / "build/docs")
        return
    serve(root, {ROOT / ".readme" / name: shot for name, shot in PICTURES.items()})
    assert all((ROOT / ".readme" / name).stat().st_size <= BYTES_MAX for name in PICTURES)


if __name__ == "__main__":
    main(*sys.argv[1:])
