"""The checksums that kafka-python makes of what it sends."""

from kafka.record import util


def test_checksums_are_not_made_in_python():
    """That takes 188 µs for each KB, and with the library 0.1."""
    assert util._crc32c.__module__ != "kafka.record._crc32c"
    assert util.calc_crc32c(memoryview(b"123456789")) == 0xE3069283  # RFC 3720, B.4
