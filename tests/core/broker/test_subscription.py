"""Expressions of subscriptions."""

import pytest

from rebalance_model.broker.consumer_group_info import (
    SubscriptionData,
    SubscriptionError,
    build_subscription_data,
    java_hash_code,
)


@pytest.mark.parametrize("everything", ["", "*", None])
def test_no_expression_is_every_message(everything):
    built = build_subscription_data("T", everything, 5)
    assert built == SubscriptionData("T", "*", "TAG", 5)
    assert (built.tags_set, built.code_set) == ((), ())


def test_tags_are_trimmed_and_each_counts_once():
    built = build_subscription_data("T", " TagA || TagB||\u0000TagA\u0001||  ", 5, None)
    assert built.sub_string == " TagA || TagB||\u0000TagA\u0001||  "
    assert built.expression_type == "TAG"
    assert built.tags_set == ("TagA", "TagB")
    assert built.code_set == (2598919, 2598920)


def test_java_trims_no_other_white_space():
    assert build_subscription_data("T", "\u00a0a\u3000", 5).tags_set == ("\u00a0a\u3000",)


def test_tags_that_share_a_hash_code_have_one():
    assert build_subscription_data("T", "Aa||BB", 5).code_set == (2112,)


@pytest.mark.parametrize("separators", ["||", "||||"])
def test_separators_alone_are_refused(separators):
    with pytest.raises(SubscriptionError, match=r"^subString split error$"):
        build_subscription_data("T", separators, 5)


def test_an_expression_of_another_type_is_the_brokers_to_read():
    built = build_subscription_data("T", "a > 1 || b", 5, "SQL92")
    assert built == SubscriptionData("T", "a > 1 || b", "SQL92", 5)
    assert built.tags_set == ()
    assert build_subscription_data("T", "||", 5, "SQL92").sub_string == "||"


@pytest.mark.parametrize("nothing", ["", None])
def test_an_empty_one_of_another_type_is_refused(nothing):
    with pytest.raises(SubscriptionError, match=r"^Expression can't be null! SQL92$"):
        build_subscription_data("T", nothing, 5, "SQL92")


@pytest.mark.parametrize(
    ("text", "code"),
    [("", 0), ("a", 97), ("TagA", 2598919), ("😀", 1772899), ("polygenelubricants", -(2**31)), ("\ud800", 0xD800)],
)
def test_hash_codes_are_javas(text, code):
    assert java_hash_code(text) == code
