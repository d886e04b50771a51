"""The zone in which a command reads and prints times."""

import os
import time

import pytest

from streaming.base.errors import UserError
from streaming.base.times import clock, current, in_zone, zone_at, zone_of

WINTER, SUMMER = 1_768_478_400_000, 1_784_116_800_000
"""2026-01-15 and 2026-07-15, 12:00 UTC."""


@pytest.mark.parametrize(
    ("name", "winter", "summer"),
    [
        ("UTC", "UTC", "UTC"),
        ("utc", "UTC", "UTC"),
        ("Asia/Shanghai", "UTC+8", "UTC+8"),
        ("Europe/Berlin", "UTC+1", "UTC+2"),
        ("America/St_Johns", "UTC-3:30", "UTC-2:30"),
        ("+08:00", "UTC+8", "UTC+8"),
        ("-3", "UTC-3", "UTC-3"),
        ("+0545", "UTC+5:45", "UTC+5:45"),
    ],
)
def test_a_zone_has_the_offset_of_each_instant(name, winter, summer):
    with in_zone(zone_of(name)):
        assert (zone_at(WINTER), zone_at(SUMMER)) == (winter, summer)
    assert zone_at(WINTER) == "UTC"


def test_the_machines_own_zone_has_its_summer_time(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        with in_zone(zone_of("local")):
            assert current() is None
            assert [f"{clock(at):%H:%M}" for at in (WINTER, SUMMER)] == ["13:00", "14:00"]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert "TZ" not in os.environ or os.environ["TZ"] != "Europe/Berlin"


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../etc/passwd", "+99:00", "/etc/localtime", "Europe"])
def test_an_unknown_zone_is_one_sentence(name):
    with pytest.raises(UserError, match=r"Unknown time zone .* Use local, UTC, a name such as Asia/Shanghai"):
        zone_of(name)
