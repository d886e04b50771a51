"""Access: addresses that need no token, tokens, sessions, and the settings of a sign-in."""

import pytest

from streaming.base.errors import SettingsError, UserError
from streaming.base.limits import LOGIN_FAILURES, LOGIN_TURNS
from streaming.base.settings import load_settings
from streaming.serve.web.access import SESSION_SECONDS, Failures, Sessions, access

TOKEN = "0123456789abcdef"
NOW = 1_795_262_400.0


def access_of(host="127.0.0.1", **web: object):
    return access(host, load_settings(web=web).web)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "::1", "localhost"])
def test_loopback_needs_no_token(host):
    assert access_of(host).token is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "dashboard.example"])
def test_any_other_address_needs_a_token(host):
    with pytest.raises(UserError, match=r"set a token of at least 16 characters in REBALANCE_WATCH_WEB__TOKEN"):
        access_of(host)

    assert access_of(host, token=TOKEN).knows(TOKEN)


def test_a_token_comes_from_the_settings_or_a_file_but_not_both(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")

    assert access_of(token_file=str(file)).knows(TOKEN)
    with pytest.raises(UserError, match="keep one"):
        access_of(token=TOKEN, token_file=str(file))
    with pytest.raises(UserError, match=r"can't be read \(no such file or directory\): correct web.token_file\."):
        access_of(token_file=str(tmp_path / "nothing"))


def test_a_short_token_is_refused_and_not_shown():
    with pytest.raises(UserError, match="fewer than 16 characters") as refused:
        access_of(token="swordfish")

    assert "swordfish" not in str(refused.value)


def test_the_token_is_in_no_repr_and_in_no_error_of_the_settings(monkeypatch):
    assert TOKEN not in repr(access_of(token=TOKEN))
    assert TOKEN not in repr(load_settings(web={"token": TOKEN}))
    monkeypatch.setenv("REBALANCE_WATCH_WEB__TOKEN", TOKEN)
    monkeypatch.setenv("REBALANCE_WATCH_WEB__PORT", "none")
    with pytest.raises(UserError) as refused:
        load_settings()
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("wrong", ["", "0123456789abcde", TOKEN + "0", TOKEN.upper(), "ü" * 16])
def test_any_other_text_is_not_the_token(wrong):
    assert not access_of(token=TOKEN).knows(wrong)
    assert not access_of().knows(wrong)


def test_a_session_is_valid_until_it_expires_or_ends():
    sessions = Sessions()
    session, other = sessions.begin(NOW), sessions.begin(NOW)

    assert session != other
    assert sessions.holds(session, NOW + SESSION_SECONDS - 1)
    assert not sessions.holds(session, NOW + SESSION_SECONDS + 1)
    assert not Sessions().holds(session, NOW), "nor after a restart"
    sessions.end(session)
    assert not sessions.holds(session, NOW)
    assert sessions.holds(other, NOW)


@pytest.mark.parametrize("forged", ["", ".", "9999999999.00", "\udcff"])
def test_a_forged_session_is_invalid(forged):
    sessions = Sessions()
    sessions.begin()
    assert not sessions.holds(forged)
    sessions.end(forged)


def test_the_sessions_kept_are_limited():
    sessions = Sessions()
    first = sessions.begin(NOW)
    for _ in range(10_000):
        last = sessions.begin(NOW)
    assert not sessions.holds(first, NOW)
    assert sessions.holds(last, NOW)


def test_wrong_tokens_of_an_address_are_limited_to_some_a_minute():
    failures = Failures()
    for second in range(LOGIN_FAILURES):
        assert failures.wait_seconds("a", NOW + second) == 0
        failures.add("a", NOW + second)

    assert failures.wait_seconds("a", NOW + 20) == 40
    assert failures.wait_seconds("b", NOW + 20) == 0
    assert failures.wait_seconds("a", NOW + 60) == 0
    failures.add("a", NOW + 61)
    assert failures.wait_seconds("a", NOW + 61) == 0


@pytest.mark.parametrize(
    ("address", "same", "other"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:1::1"),
        ("192.0.2.1", "::ffff:192.0.2.1", "192.0.2.2"),
        ("fe80::1%eth0", "fe80::2%eth1", "fe80:0:0:1::1"),
        ("x" * 100, "x" * 64 + "y", "y" * 100),
    ],
)
def test_addresses_that_one_sender_may_choose_among_count_as_one(address, same, other):
    failures = Failures()
    for _ in range(LOGIN_FAILURES):
        failures.add(address, NOW)
    assert failures.wait_seconds(same, NOW) == 60
    assert failures.wait_seconds(other, NOW) == 0


def test_tokens_of_a_throttled_address_are_compared_one_a_second():
    failures = Failures()
    assert failures.turn("a", NOW) == 0
    for _ in range(LOGIN_FAILURES):
        failures.add("a", NOW)
    turns = [failures.turn("a", NOW + 0.5) for _ in range(LOGIN_TURNS + 3)]
    assert turns == [*range(LOGIN_TURNS + 1), None, None]
    assert failures.turn("b", NOW) == 0
    assert failures.turn("a", NOW + 20) == 0
    assert failures.turn("a", NOW + 60) == 0


@pytest.mark.parametrize(
    ("proxies", "words"),
    [
        (["*"], "should have addresses or networks of proxies"),
        (["nginx"], "should have addresses or networks of proxies"),
        (["0.0.0.0/0"], "should name the proxies"),
        (["::/0"], "should name the proxies"),
    ],
)
def test_only_named_proxies_can_be_trusted(proxies, words):
    with pytest.raises(SettingsError, match=f"Setting web.trusted_proxies: {words}"):
        load_settings(web={"trusted_proxies": proxies})
    assert load_settings(web={"trusted_proxies": ["10.0.0.5", "10.1.2.3/16"]}).web.trusted_proxies == (
        "10.0.0.5/32", "10.1.0.0/16",
    )  # fmt: skip


def test_the_addresses_kept_are_limited():
    failures = Failures()
    for number in range(10_001):
        for _ in range(LOGIN_FAILURES):
            failures.add(str(number), NOW)
    assert failures.wait_seconds("0", NOW) == 0
    assert failures.wait_seconds("10000", NOW) == 60


OIDC = {"kind": "oidc", "issuer": "https://id.example", "client_id": "x", "operators": ["*"]}


@pytest.mark.parametrize(
    ("web", "says"),
    [
        ({"sign_in": {"kind": "saml"}}, r"Setting web.sign_in.kind: .*'token', 'oidc' or 'proxy'"),
        ({"sign_in": OIDC | {"operators": []}}, r"Setting web.sign_in: nobody could sign in: set operators or viewers"),
        ({"sign_in": OIDC | {"issuer": ""}}, r"Setting web.sign_in: kind oidc needs issuer and client_id"),
        ({"sign_in": OIDC | {"issuer": "http://id.example"}}, r"Setting web.sign_in.issuer: should begin with https"),
        ({"sign_in": OIDC | {"scopes": ["profile"]}}, r"Setting web.sign_in: scopes should have openid"),
        ({"sign_in": OIDC | {"name_header": "a b"}}, r"Setting web.sign_in.name_header: should be the name of a head"),
        ({"sign_in": OIDC | {"session_hours": 0}}, r"Setting web.sign_in.session_hours: should be greater than 0"),
        ({"sign_in": {"isuer": "x"}}, r"Unknown setting web.sign_in.isuer: did you mean issuer\?"),
        ({"sign_in": OIDC | {"client_secret": "a", "client_secret_file": "b"}}, r"Both .*_secret and"),
        ({"sign_in": OIDC | {"client_secret_file": "/none"}}, r"/none can't be read .*: correct web.sign_in"),
        ({"sign_in": {"kind": "proxy", "operators": ["*"]}}, r"set its address in web.trusted_proxies\."),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_one_sentence(web, says):
    with pytest.raises(SettingsError, match=says) as refused:
        access("127.0.0.1", load_settings(web=web).web)
    assert "\n" not in str(refused.value)


def test_where_people_come_from_elsewhere_the_public_address_must_be_known():
    web = load_settings(web={"sign_in": OIDC}).web
    with pytest.raises(SettingsError, match=r"set web\.url\."):
        access("0.0.0.0", web)
    assert access("0.0.0.0", web.model_copy(update={"url": "https://watch.example"})).token is None
