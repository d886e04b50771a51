from base64 import b64encode

import pytest

from streaming.base.secrets import Redaction

TOKEN = "Bearer s3cr3t-Token/with+signs"
URL = "https://user:p%40ssword@hooks.example/services/T0AB/B1CD/xyzzy123?token=abc%2Fdef"


@pytest.mark.parametrize(
    "echo",
    [
        URL,
        "/services/T0AB/B1CD/xyzzy123?token=abc%2Fdef",
        "no such path: T0AB/B1CD/xyzzy123.",
        r"{\"path\": \"\/services\/T0AB\/B1CD\/xyzzy123\"}",
        "XYZZY123",
        "token abc/def is unknown",
        TOKEN,
        "s3cr3t-Token/with+signs",
        "…-Token/with",
        "s3cr3t-Token%2Fwith%2Bsigns",
        "p@ssword",
        b64encode(TOKEN.encode()).decode(),
    ],
)
def test_what_a_server_repeats_of_a_secret_is_removed(echo):
    text = Redaction([URL, TOKEN]).of(f"answer: {echo} end")
    assert text.startswith("answer:")
    assert text.endswith(" end")
    for part in ("xyzzy", "T0AB/B1", "abc/def", "s3cr3t", "Token/", "Token%2F", "ssword", "cjN0LVRv"):
        assert part.lower() not in text.lower()


def test_the_user_that_basic_credentials_name_is_removed():
    text = Redaction(["Basic " + b64encode(b"someone:hunter22").decode()]).of("no user someone with hunter22")
    assert text == "no user … with …"


def test_other_words_are_kept_and_a_short_secret_is_removed_whole():
    assert Redaction(["abc", ""]).of("invalid_payload:\n  abc is no channel") == "invalid_payload: … is no channel"
