"""Makes the pictures of `.readme` again: the demo's cluster in the dashboard, as Chromium shows it.

python -m tests.docs.pictures [ROOT]    after `make demo`; ROOT is .rebalance-watch/demo without it
"""

import re
import subprocess
import sys

from tests.docs.source import ROOT
from tests.support.chromium import chromium

PICTURES = {
    "group.png": ("/group/orders-group?cluster=lab&at=2026-11-21T16:00&span=1h", "ORDERED_QUEUE_STUCK SUSPEND_LOOP"),
    "incident.png": ("", "SUSPEND_LOOP"),
}
SIZE = {"width": 1280, "height": 900}
BYTES_MAX = 200_000


def take(address):
    """Save each picture: the group while its queue is stuck, and then the incident that its page links to."""
    with chromium() as browser:
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        for name, (path, landmark) in PICTURES.items():
            if path:
                page.goto(address + path)
            else:
                page.get_by_role("link", name="ORDERED_QUEUE_STUCK").first.click()
            page.get_by_text(landmark).first.wait_for(timeout=60_000)
            page.wait_for_timeout(2_000)  # the timeline is drawn after the text
            page.screenshot(path=ROOT / ".readme" / name)
            assert (ROOT / ".readme" / name).stat().st_size <= BYTES_MAX


def main(root):
    """Serve the tables of a runtime root on a free port, and take the pictures."""
    command = [sys.executable, "-m", "streaming.cli.main", "--root", root, "dashboard", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT) as server:
        try:
            take(next(found[0] for line in server.stderr if (found := re.search(r"http://[\d.:]+", line))))
        finally:
            server.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:] or [".rebalance-watch/demo"])
