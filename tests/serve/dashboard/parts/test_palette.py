"""The colours of owners are none that a problem has."""

import colorsys
import re

from streaming.serve.dashboard.static import STATIC


def test_no_owner_has_a_colour_near_the_red_of_problems():
    style = (STATIC / "style.css").read_text("utf-8")
    owners = re.findall(r"--client-\d: #(\w{6})", style)
    assert len(owners) == 16  # of both themes
    for colour in owners:
        hue, _, saturation = colorsys.rgb_to_hls(*(int(colour[n : n + 2], 16) / 255 for n in (0, 2, 4)))
        assert saturation < 0.2 or 30 <= hue * 360 <= 330, colour
