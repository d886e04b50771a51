import asyncio
import ssl
from datetime import timedelta

import pytest

from rebalance_model.observe.events import UNREACHABLE
from streaming.base.errors import SettingsError
from streaming.base.settings import load_settings
from streaming.collect.client import RemotingClient, RequestRefusedError
from streaming.collect.remoting import RemotingCommand, decode, encode, frame_length
from streaming.collect.requests import ReadCode, Request, refusal
from streaming.collect.security import Credentials, security_of
from streaming.lab.security import Authority
from tests.support.bodies import body_of

ACL_1 = "org.apache.rocketmq.acl.common.AclException: "
QUESTION = Request(ReadCode.GET_CONSUME_STATS, {"consumerGroup": "g"})


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


def security_with(**rocketmq):
    return security_of(load_settings(rocketmq=rocketmq).rocketmq)


def test_without_settings_there_is_no_tls_and_no_signature():
    security = security_with()
    assert (security.tls, security.credentials) == (None, None)


def test_a_secret_key_comes_from_a_file_and_is_in_no_repr(tmp_path):
    file = tmp_path / "secret"
    file.write_text("hunter2\n")
    security = security_with(access_key="monitor", secret_key_file=str(file), security_token="token-7")
    assert security.credentials == Credentials("monitor", "hunter2", "token-7")
    assert "hunter2" not in repr(security)
    assert "token-7" not in repr(security)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"access_key": "monitor"}, "The access key monitor needs its secret key: set REBALANCE_WATCH_ROCKETMQ__SECR"),
        ({"secret_key": "hunter2"}, "The secret key belongs to an access key or a user: set rocketmq.access_key."),
        (
            {"tls": True, "ca_file": "/not/there"},
            "/not/there can't be read (no such file or directory): correct rocket",
        ),
        ({"tls": True, "key_file": "x"}, "rocketmq.certificate_file and rocketmq.key_file belong together"),
    ],
)
def test_settings_that_do_not_fit_together_are_one_sentence(wrong, sentence):
    with pytest.raises(SettingsError) as refused:
        security_with(**wrong)
    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_key_of_another_certificate_is_named(authority):
    one, other = authority.issue("one"), authority.issue("other")
    with pytest.raises(SettingsError, match=r"other\.key is not that of the certificate .*one\.pem: correct"):
        security_with(tls=True, certificate_file=str(one.certificate_file), key_file=str(other.key_file))


@pytest.mark.parametrize(
    ("code", "remark", "sentence"),
    [
        (16, "User:monitor is not found.", "does not know the access key or user monitor: correct rocketmq.access_key"),
        (1, f"{ACL_1}No acl config for monitor, o.a.r", "does not know the access key or user monitor: correct"),
        (16, "check signature failed.", "refuses the signature of monitor: correct its secret key (REBALANCE_WATCH_"),
        (1, f"{ACL_1}Check signature failed for accessKey=monitor", "refuses the signature of monitor: correct"),
        (16, "username cannot be null.", "accepts only signed requests: set rocketmq.access_key"),
        (1, f"{ACL_1}No accessKey is configured", "accepts only signed requests: set rocketmq.access_key"),
        (16, "User:monitor is disabled.", "has disabled the user monitor: enable it with `mqadmin updateUser"),
        (
            16,
            "User:monitor has no permission to access Group:g from 10.0.0.1, no matched policies.",
            "does not allow the user monitor the request GET_CONSUME_STATS (208) on Group:g: grant it with `mqadmin",
        ),
        (16, "something else", "refuses the request GET_CONSUME_STATS (208) (something else): give monitor the right"),
    ],
)
def test_what_access_control_refuses_is_one_sentence(code, remark, sentence):
    answer = RemotingCommand(code=code, opaque=1, remark=remark)
    said = refusal("broker:1", QUESTION, answer, Credentials("monitor", "hunter2"))
    assert said is not None
    assert said.startswith(f"RocketMQ at broker:1 {sentence}")
    assert said.endswith(".")


def test_other_errors_are_no_refusal():
    assert refusal("broker:1", QUESTION, RemotingCommand(code=1, opaque=1, remark="busy"), None) is None


def refused(server_tls, **rocketmq):
    """Return why a server that answers every request, with this TLS context, and a client of these settings part."""

    async def serve(reader, writer):
        try:
            while True:
                question = decode(await reader.readexactly(frame_length(await reader.readexactly(4))))
                writer.write(encode(RemotingCommand(code=0, opaque=question.opaque, flag=1)))
        except (asyncio.IncompleteReadError, OSError, ValueError):
            writer.close()  # as RocketMQ does with what is not its protocol

    async def talk():
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=server_tls)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, RemotingClient(security_with(**rocketmq)) as client:
            await client.ask(address, QUESTION, body_of, seconds=60)
            return address

    return asyncio.run(talk())


def server_context(certificate, client_authority=None):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate.certificate_file, certificate.key_file)
    if client_authority:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(client_authority.ca_file)
    return context


def test_own_authority_and_client_certificate_are_accepted(authority):
    mine = authority.issue("mine", password="key-password")
    files = {"certificate_file": str(mine.certificate_file), "key_file": str(mine.key_file)}
    server = server_context(authority.issue("server"), authority)
    assert refused(
        server, tls=True, ca_file=str(authority.ca_file), check_hostname=True, key_password="key-password", **files
    )


def test_a_client_certificate_that_is_missing_or_unknown_is_named(authority, tmp_path):
    server = server_context(authority.issue("server"), authority)
    shared = {"tls": True, "ca_file": str(authority.ca_file)}
    with pytest.raises(
        RequestRefusedError,
        match=r"or asks for a client certificate \(set rocketmq\.certificate_file and rocketmq\.key",
    ):
        refused(server, **shared)
    other = Authority(tmp_path).issue("foreign")
    files = {"certificate_file": str(other.certificate_file), "key_file": str(other.key_file)}
    with pytest.raises(RequestRefusedError, match=r"or does not accept the client certificate .*foreign\.pem\."):
        refused(server, **shared, **files)


def test_a_servers_certificate_must_be_valid_and_trusted(authority):
    server = server_context(authority.issue("old", valid=timedelta(days=-1)))
    with pytest.raises(
        RequestRefusedError, match=r"The certificate of RocketMQ at \S+ has expired: renew it there\."
    ) as found:
        refused(server, tls=True, ca_file=str(authority.ca_file))
    assert found.value.code == UNREACHABLE
    with pytest.raises(
        RequestRefusedError, match=r"is not trusted \(.*\): set rocketmq\.ca_file to the certificate of the"
    ):
        refused(server_context(authority.issue("server")), tls=True)


def test_a_host_name_is_checked_only_on_demand(authority):
    server = server_context(authority.issue("elsewhere", hosts=("broker.example",)))
    assert refused(server, tls=True, ca_file=str(authority.ca_file))
    with pytest.raises(
        RequestRefusedError, match=r"is for another host: .* or set rocketmq\.check_hostname to false\."
    ):
        refused(server, tls=True, ca_file=str(authority.ca_file), check_hostname=True)


def test_tls_on_one_side_alone_is_named_from_both(authority):
    with pytest.raises(
        RequestRefusedError, match=r"ended the TLS handshake: .* speaks no TLS \(set rocketmq\.tls to false\)"
    ):
        refused(None, tls=True, ca_file=str(authority.ca_file))
    with pytest.raises(
        RequestRefusedError, match=r"without an answer: .* accepts only TLS \(set rocketmq\.tls to true\)"
    ):
        refused(server_context(authority.issue("server")))
