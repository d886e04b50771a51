"""The language of a request: the reader's choice, the setting, the browser's; and what the answer says about it."""

import httpx
import pytest
from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from pydantic import SecretStr

from streaming.base.language import current
from streaming.base.limits import LOGIN_FAILURES
from streaming.base.settings import load_settings
from streaming.serve.web.access import access
from streaming.serve.web.login import login_routes
from streaming.serve.web.middleware import LANGUAGE_COOKIE, Languages, language_of
from tests.support.served import answering

TOKEN = "a token of some length"


@pytest.mark.parametrize(
    ("accepted", "language"),
    [
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("ZH-hans-cn", "zh"),
        ("en-US,en;q=0.9,zh-CN;q=0.8", "en"),
        ("en;q=0.5, zh;q=0.7", "zh"),
        ("fr-FR, de;q=0.9, zh;q=0.1", "zh"),
        ("fr-FR", "en"),
        ("zh;q=0", "en"),
        ("zh;q=many, en", "en"),
        ("*", "en"),
        ("", "en"),
        (";;,=q", "en"),
    ],
)
def test_the_browser_chooses_among_the_languages_there_are(accepted, language):
    assert language_of({"accept-language": accepted}, {}, "auto") == language


def test_the_setting_outranks_the_browser_and_the_reader_both():
    accepted = {"accept-language": "zh-CN"}
    assert language_of(accepted, {}, "en") == "en"
    assert language_of({}, {}, "zh") == "zh"
    assert language_of(accepted, {LANGUAGE_COOKIE: "en"}, "zh") == "en"
    assert language_of(accepted, {LANGUAGE_COOKIE: "xx"}, "auto") == "zh"


@pytest.fixture(scope="module")
def address():
    allowed = access("127.0.0.1", load_settings().web.model_copy(update={"token": SecretStr(TOKEN)}))
    app = FastAPI()
    app.add_middleware(Languages, setting="auto")
    app.include_router(login_routes(allowed))

    @app.get("/page")
    async def page() -> HTMLResponse:
        return HTMLResponse(current().code)

    @app.get("/api/v1/language")
    def language() -> str:
        return current().code

    with answering(app) as served:
        yield served


@pytest.mark.parametrize(("accepted", "code", "tag"), [("zh-CN", "zh", "zh-CN"), ("en", "en", "en-US")])
def test_a_page_says_its_language_and_what_it_depends_on(address, accepted, code, tag):
    answer = httpx.get(f"{address}/page", headers={"Accept-Language": accepted})
    assert answer.text == code
    assert answer.headers["Content-Language"] == tag
    assert answer.headers["Vary"] == "Accept-Language, Cookie"


def test_rest_is_english_for_every_reader(address):
    answer = httpx.get(f"{address}/api/v1/language", headers={"Accept-Language": "zh-CN"})
    assert answer.json() == "en"
    assert "Content-Language" not in answer.headers


def test_the_login_form_is_in_the_readers_language(address):
    chinese = {"Accept-Language": "zh-CN"}
    form = httpx.get(f"{address}/login", headers=chinese).text
    assert '<html lang="zh-CN">' in form
    assert "<button>登录</button>" in form
    assert "令牌无效" in httpx.post(f"{address}/login", headers=chinese, data={"token": "wrong"}).text
    for _ in range(LOGIN_FAILURES):
        refused = httpx.post(f"{address}/login", headers=chinese, data={"token": "wrong"})
    assert "秒后重试" in refused.text
    assert '<html lang="en-US">' in httpx.get(f"{address}/login").text
