"""Evidence on a screen: by the units that the rules declare."""

from streaming.queries.evidence import evidence_items, formatted

NOW = 1_795_275_817_168


def test_each_field_of_evidence_is_shown_by_its_unit():
    evidence = {"source": "hook-1", "limit_ms": 15_000, "lost": 7, "lost_from": NOW - 60_000, "lost_to": NOW - 1_000}
    assert evidence_items("TELEMETRY_GAP", evidence, NOW) == [
        ("source", "hook-1"),
        ("limit of the rule", "15 s"),
        ("lost", "7"),
        ("lost from", "15:42:37"),
        ("lost to", "15:43:36"),
    ]
    skew = {"ahead_ms_min": -8_000, "ahead_ms_max": -7_500, "limit_ms": 5_000}
    assert [value for _, value in evidence_items("CLOCK_SKEW", skew, NOW)] == ["-8 s", "-7.5 s", "5 s"]


def test_unknown_values_are_left_out_and_an_absent_time_is_no_date():
    evidence = {"member": False, "answered": 0, "queues": None, "unanswered": 2}
    assert evidence_items("CLIENT_UNRESPONSIVE", evidence, NOW) == [
        ("member", "no"),
        ("answered", "-"),
        ("requests without an answer", "2"),
    ]


def test_a_field_that_no_rule_declares_is_shown_by_its_name():
    evidence = {"held_ms": 2_000, "former": "a"}
    assert evidence_items("A_FORMER_RULE", evidence, NOW) == [("held for", "2 s"), ("former", "a")]


def test_a_page_may_write_numbers_its_own_way_but_no_duration():
    def spaced(number: int) -> str:
        return f"{number:_}"

    assert formatted("QUEUE_STALLED", "lag", 12_000, NOW, number=spaced) == "12_000"
    assert formatted("QUEUE_STALLED", "lag", None, NOW, number=spaced) == "-"
    assert formatted("CLOCK_SKEW", "ahead_ms_min", -90_000, NOW, number=spaced) == "-1 min 30 s"
