"""The port of the dashboard with TLS: who is answered, what is refused at the start, and a renewed certificate."""

import base64
import re
import shutil
import ssl
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from queue import Queue

import httpx
import pytest
from typer.testing import CliRunner

from streaming.base.errors import UserError
from streaming.base.limits import LOGIN_FAILURES
from streaming.base.settings import load_settings
from streaming.cli.main import app
from streaming.lab.security import Authority
from streaming.serve.web.http_server import ServerTls, server_tls
from tests.support.served import served
from tests.support.waiting import until
from tests.support.world import example

TOKEN = "a token of some length"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    example().write(folder / "tables")
    return folder


def files(certificate):
    return {"certificate_file": str(certificate.certificate_file), "key_file": str(certificate.key_file)}


def web(**changed):
    return load_settings(web=changed).web


def test_the_port_speaks_https_and_its_cookie_is_for_https_only(root, authority):
    named = {f"WEB__{name.upper()}": file for name, file in files(authority.issue("watch")).items()}
    trusted = ssl.create_default_context(cafile=str(authority.ca_file))
    with served("metrics", root, WEB__TOKEN=TOKEN, **named) as address:
        assert address.startswith("https://127.0.0.1:")
        with httpx.Client(base_url=address, verify=trusted, timeout=30) as client:
            assert client.get("/readyz").status_code in {200, 503}
            assert client.get("/metrics").status_code == 401
            assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
            for number in range(LOGIN_FAILURES + 1):  # the address is the connection's, whatever a request says
                said = {"Authorization": "Bearer wrong", "X-Forwarded-For": f"192.0.2.{number}"}
                status = client.get("/metrics", headers=said).status_code
            assert status == 429
        with pytest.raises(httpx.TransportError):
            httpx.get(address.replace("https", "http"))
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(address)
    assert "Traceback" not in (root / "metrics.log").read_text()


def test_what_cannot_be_used_is_one_sentence_at_the_start(root, authority, monkeypatch, tmp_path):
    valid, other = authority.issue("one"), authority.issue("other")
    old, sealed = authority.issue("old", valid=timedelta(days=-1)), authority.issue("sealed", password="secret")
    for changed, sentence in (
        (
            {"certificate_file": files(valid)["certificate_file"]},
            "web.certificate_file and web.key_file belong together",
        ),
        (files(valid) | {"key_file": str(other.key_file)}, "other.key is not that of the certificate"),
        (files(old), "old.pem expired on"),
        (files(sealed), "REBALANCE_WATCH_WEB__KEY_PASSWORD"),
        (files(valid) | {"key_file": str(tmp_path / "none")}, "no such file or directory): correct web.key_file"),
    ):
        with monkeypatch.context() as setting:
            setting.setenv("REBALANCE_WATCH_RUNTIME__ROOT", str(root))
            for name, file in changed.items():
                setting.setenv(f"REBALANCE_WATCH_WEB__{name.upper()}", file)
            error = CliRunner().invoke(app, ["dashboard", "--port", "0"]).exception
        assert isinstance(error, UserError), error
        assert sentence in str(error)
        assert "\n" not in str(error)


def test_a_renewed_certificate_is_shown_without_a_restart(authority, tmp_path):
    used = {"certificate_file": str(tmp_path / "watch.pem"), "key_file": str(tmp_path / "watch.key")}
    before, after, warned = authority.issue("before"), authority.issue("after"), []
    put(before, used)
    tls = ServerTls(web(**used), warned.append)
    assert common_name(tls, authority) == "before"
    shutil.copy(after.certificate_file, used["certificate_file"])
    tls.renew()
    tls.renew()
    assert len(warned) == 1  # the key is still the former one's
    assert re.fullmatch(r"The renewed certificate is not used: The key .* is not that of .*", warned[0])
    assert common_name(tls, authority) == "before"
    put(after, used)
    tls.renew()
    assert common_name(tls, authority) == "after"
    Path(used["key_file"]).unlink()
    tls.renew()
    assert "no such file or directory" in warned[1]
    assert common_name(tls, authority) == "after"


def test_the_files_are_looked_at_until_the_end(authority, tmp_path, monkeypatch):
    monkeypatch.setattr("streaming.serve.web.http_server._RENEWED_WITHIN_SECONDS", 0.01)
    used = {"certificate_file": str(tmp_path / "watch.pem"), "key_file": str(tmp_path / "watch.key")}
    warned = Queue()
    put(authority.issue("first"), used)
    with server_tls(web(**used), warned.put):
        Path(used["certificate_file"]).write_text("none")
        assert "has no PEM certificate" in warned.get(timeout=60)


@pytest.mark.parametrize("breaks", ["curve", "unexpected"])
def test_a_renewal_that_fails_is_said_once_and_the_next_one_is_used(authority, tmp_path, monkeypatch, breaks):
    monkeypatch.setattr("streaming.serve.web.http_server._RENEWED_WITHIN_SECONDS", 0.01)
    used = {"certificate_file": str(tmp_path / "watch.pem"), "key_file": str(tmp_path / "watch.key")}
    said = Queue()
    put(authority.issue("former"), used)
    with server_tls(web(**used), said.put) as tls:
        if breaks == "curve":
            Path(used["key_file"]).write_text(KEY_OF_ANOTHER_CURVE)
            words = "The renewed certificate is not used: The key .* is of a kind or curve that is not supported: issue"
        else:
            with monkeypatch.context() as broken:
                broken.setattr(tls, "_new_context", lambda: 1 / 0)
                Path(used["key_file"]).touch()
                said.put(said.get(timeout=60))
            words = r"The renewed certificate is not used \(division by zero\): write web.certificate_file and web.key"
        assert re.match(words, said.get(timeout=60))
        assert common_name(tls, authority) == "former"
        put(authority.issue("latter"), used)
        until(lambda: common_name(tls, authority) == "latter", 60)


DER = bytes.fromhex("302c020100301006072a8648ce3d020106052b81040006041530130201" + "01040e" + "01" * 14)
KEY_OF_ANOTHER_CURVE = f"""-----BEGIN PRIVATE KEY-----
{base64.b64encode(DER).decode()}
-----END PRIVATE KEY-----
"""
"""PKCS #8 with the curve secp112r1, which `cryptography` lacks, as other libraries lack other curves."""


def put(certificate, used):
    shutil.copy(certificate.certificate_file, used["certificate_file"])
    shutil.copy(certificate.key_file, used["key_file"])


def common_name(tls, authority):
    """Return the common name of the certificate that the server shows."""
    ours, theirs = ssl.MemoryBIO(), ssl.MemoryBIO()
    trusted = ssl.create_default_context(cafile=str(authority.ca_file))
    client = trusted.wrap_bio(theirs, ours, server_hostname="localhost")
    server = tls.context.wrap_bio(ours, theirs, server_side=True)
    for side in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return dict(part[0] for part in client.getpeercert()["subject"])["commonName"]


def test_without_a_certificate_there_is_no_tls():
    with server_tls(web(), print) as tls:
        assert tls is None
    assert load_settings().web.address == "http://127.0.0.1:8411"
    assert web(certificate_file="x", key_file="y").address == "https://127.0.0.1:8411"
