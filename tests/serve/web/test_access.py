"""Access: addresses that need no token, tokens, and sessions."""

import pytest

from streaming.base.errors import UserError
from streaming.base.settings import load_settings
from streaming.serve.web.access import SESSION_SECONDS, access

TOKEN = "0123456789abcdef"
NOW = 1_795_262_400.0


def of(host="127.0.0.1", **web: object):
    return access(host, load_settings(web=web).web)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_needs_no_token(host):
    assert of(host).token is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "dashboard.example"])
def test_any_other_address_needs_a_token(host):
    with pytest.raises(UserError, match=r"set a token of at least 16 characters in REBALANCE_WATCH_WEB__TOKEN"):
        of(host)

    assert of(host, token=TOKEN).knows(TOKEN)


def test_a_token_comes_from_the_settings_or_a_file_but_not_both(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")

    assert of(token_file=str(file)).knows(TOKEN)
    with pytest.raises(UserError, match="keep one"):
        of(token=TOKEN, token_file=str(file))
    with pytest.raises(UserError, match=r"can't be read \(no such file or directory\): correct web.token_file\."):
        of(token_file=str(tmp_path / "nothing"))


def test_a_short_token_is_refused_and_not_shown():
    with pytest.raises(UserError, match="fewer than 16 characters") as refused:
        of(token="swordfish")

    assert "swordfish" not in str(refused.value)


def test_the_token_is_in_no_repr_and_in_no_error_of_the_settings(monkeypatch):
    assert TOKEN not in repr(of(token=TOKEN))
    assert TOKEN not in repr(load_settings(web={"token": TOKEN}))
    monkeypatch.setenv("REBALANCE_WATCH_WEB__TOKEN", TOKEN)
    monkeypatch.setenv("REBALANCE_WATCH_WEB__PORT", "none")
    with pytest.raises(UserError) as refused:
        load_settings()
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("wrong", ["", "0123456789abcde", TOKEN + "0", TOKEN.upper(), "ü" * 16])
def test_any_other_text_is_not_the_token(wrong):
    assert not of(token=TOKEN).knows(wrong)
    assert not of().knows(wrong)


def test_a_session_is_valid_for_its_token_until_it_expires():
    known = of(token=TOKEN)
    session = known.session(NOW)

    assert known.has_session(session, NOW + SESSION_SECONDS - 1)
    assert not known.has_session(session, NOW + SESSION_SECONDS + 1)
    assert not of(token="another token of some length").has_session(session, NOW)
    assert not of().has_session(session, NOW)


@pytest.mark.parametrize("forged", ["", ".", "9999999999", "9999999999.00", "-1.x", "²." + "0" * 64, "9" * 40 + ".0"])
def test_a_forged_session_is_invalid(forged):
    assert not of(token=TOKEN).has_session(forged, NOW)


def test_a_session_with_a_changed_expiry_is_invalid():
    until, signature = of(token=TOKEN).session(NOW).split(".")

    assert not of(token=TOKEN).has_session(f"{int(until) + 1}.{signature}", NOW)
