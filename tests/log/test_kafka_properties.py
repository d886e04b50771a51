"""The `[kafka]` settings as properties of both clients, and the sentences where they do not fit together."""

import os
from datetime import timedelta

import pytest

from streaming.base.errors import UserError
from streaming.base.settings import load_settings
from streaming.lab.security import Authority
from streaming.log.kafka_properties import connection_of, java_properties, python_properties

PASSWORD = 'pass"word\\'
SCRAM = {"security_protocol": "SASL_SSL", "username": "collector", "password": PASSWORD}
TOKEN = {"sasl_mechanism": "OAUTHBEARER", "token_url": "http://127.0.0.1:1/token", "token_scope": "telemetry"}


def kafka(**settings):
    return load_settings(kafka=settings).kafka


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


def test_without_settings_a_connection_is_open():
    assert python_properties(kafka()) == {"security_protocol": "PLAINTEXT"}
    assert java_properties(kafka()).plain == {"security.protocol": "PLAINTEXT"}
    assert java_properties(kafka()).secret == {}


def test_scram_over_tls(authority):
    settings = kafka(**SCRAM, ca_file=str(authority.ca_file))
    assert python_properties(settings) == {
        "security_protocol": "SASL_SSL",
        "ssl_check_hostname": True,
        "ssl_cafile": str(authority.ca_file),
        "ssl_certfile": None,
        "ssl_keyfile": None,
        "ssl_password": None,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "collector",
        "sasl_plain_password": PASSWORD,
    }
    assert java_properties(settings).plain == {
        "security.protocol": "SASL_SSL",
        "ssl.endpoint.identification.algorithm": "https",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.ca_file),
        "sasl.mechanism": "SCRAM-SHA-512",
    }
    module = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    jaas = rf'{module} username="collector" password="pass\"word\\";'
    assert java_properties(settings).secret == {"sasl.jaas.config": jaas}


def test_plain_without_tls_has_its_own_login_module():
    settings = kafka(**SCRAM | {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN"})
    assert "ssl_cafile" not in python_properties(settings)
    assert java_properties(settings).plain == {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    assert ".plain.PlainLoginModule required " in java_properties(settings).secret["sasl.jaas.config"]


def test_a_token_is_asked_for_by_id_and_secret():
    settings = kafka(**SCRAM | TOKEN)
    assert python_properties(settings)["sasl_oauth_token_provider"].extensions() == {}
    java = java_properties(settings)
    assert java.plain["sasl.oauthbearer.token.endpoint.url"] == TOKEN["token_url"]
    assert java.plain["sasl.login.callback.handler.class"].endswith(".OAuthBearerLoginCallbackHandler")
    assert 'clientId="collector"' in java.secret["sasl.jaas.config"]
    assert 'scope="telemetry";' in java.secret["sasl.jaas.config"]


def test_kerberos_takes_the_ticket_that_is_there(monkeypatch):
    monkeypatch.setattr("streaming.log.kafka_properties.find_spec", lambda _: object())
    settings = kafka(security_protocol="SASL_SSL", sasl_mechanism="GSSAPI", kerberos_service="broker")
    assert python_properties(settings)["sasl_kerberos_service_name"] == "broker"
    java = java_properties(settings)
    assert java.plain["sasl.kerberos.service.name"] == "broker"
    assert java.secret["sasl.jaas.config"].endswith('.Krb5LoginModule required useTicketCache="true";')


def test_kerberos_takes_a_key_for_a_process_that_runs_for_months(monkeypatch, tmp_path):
    monkeypatch.setattr("streaming.log.kafka_properties.find_spec", lambda _: object())
    for name in ("KRB5_CLIENT_KTNAME", "KRB5CCNAME"):
        monkeypatch.setenv(name, "another")
    keytab = tmp_path / "collector.keytab"
    settings = kafka(
        security_protocol="SASL_SSL", sasl_mechanism="GSSAPI", username="collector", keytab_file=str(keytab)
    )
    with pytest.raises(UserError, match=r"correct kafka\.keytab_file"):
        python_properties(settings)

    keytab.write_bytes(b"\x05\x02\xff")
    assert python_properties(settings)["sasl_kerberos_service_name"] == "kafka"
    assert os.environ["KRB5_CLIENT_KTNAME"] == str(keytab)
    assert os.environ["KRB5CCNAME"] != "another"
    assert f'keyTab="{keytab}" principal="collector";' in java_properties(settings).secret["sasl.jaas.config"]


@pytest.mark.parametrize("password", ["", "key-password"])
def test_java_gets_the_key_of_a_certificate_decrypted(authority, password):
    issued = authority.issue("agent", password=password)
    files = {"certificate_file": str(issued.certificate_file), "key_file": str(issued.key_file)}
    settings = kafka(security_protocol="SSL", key_password=password, **files)
    assert python_properties(settings)["ssl_password"] == password
    secret = java_properties(settings).secret
    assert secret["ssl.keystore.certificate.chain"] == issued.certificate_file.read_text()
    assert secret["ssl.keystore.key"].startswith("-----BEGIN PRIVATE KEY-----")


def test_a_password_file_is_read_without_its_last_line_break(tmp_path):
    file = tmp_path / "password"
    file.write_text(f"{PASSWORD}\n")
    settings = kafka(**SCRAM | {"password": "", "password_file": str(file)})
    assert python_properties(settings)["sasl_plain_password"] == PASSWORD


def test_further_properties_go_to_their_client():
    settings = kafka(**SCRAM, python={"client_id": "poll-1"}, java={"client.rack": "a", "check.crcs": False})
    assert python_properties(settings)["client_id"] == "poll-1"
    added = {name: value for name, value in java_properties(settings).secret.items() if name != "sasl.jaas.config"}
    assert added == {"client.rack": "a", "check.crcs": "false"}


def test_no_secret_is_in_any_text_of_the_settings(authority):
    settings = load_settings(kafka=SCRAM | {"java": {"ssl.truststore.password": "sesame"}})
    shown = f"{settings!r} {settings.kafka} {connection_of(settings)!r} {java_properties(settings.kafka)!r}"
    assert PASSWORD not in shown
    assert "sesame" not in shown


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (SCRAM | {"username": ""}, r"SCRAM-SHA-512 needs kafka\.username: set it, or"),
        (SCRAM | {"password": ""}, r"SCRAM-SHA-512 needs a password: set REBALANCE_WATCH_KAFKA__PASSWORD or"),
        (SCRAM | {"password_file": "x"}, r"Both kafka\.password and kafka\.password_file are set: keep one"),
        (SCRAM | TOKEN | {"token_url": ""}, r"OAUTHBEARER needs kafka\.token_url: set it, or"),
        (
            SCRAM | {"ca_file": "/not/there"},
            r"/not/there can't be read \(no such file or directory\): correct kafka",
        ),
        (
            SCRAM | {"python": {"lingerms": 5}},
            r"kafka-python has no property lingerms: correct the table kafka\.python",
        ),
        (SCRAM | {"python": {"acks": 0}}, r"acks is rebalance-watch's own: leave it out of kafka\.python"),
        (SCRAM | {"certificate_file": "x"}, r"kafka\.certificate_file and kafka\.key_file belong together"),
    ],
)
def test_settings_that_do_not_fit_together_are_named(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        python_properties(kafka(**settings))


def test_a_certificate_that_cant_be_used_is_named(authority, tmp_path):
    old = authority.issue("old", valid=timedelta(days=-1))
    sealed = authority.issue("sealed", password="right")
    no_pem = tmp_path / "none.pem"
    no_pem.write_text("nothing")
    for certificate, key, password, sentence in (
        (old.certificate_file, old.key_file, "", r"old\.pem expired on 20\d\d-\d\d-\d\d: renew it"),
        (sealed.certificate_file, sealed.key_file, "wrong", r"sealed\.key can't be used, or its password is wrong"),
        (sealed.certificate_file, sealed.key_file, "", r"sealed\.key can't be used, or its password is wrong"),
        (no_pem, sealed.key_file, "", r"none\.pem has no PEM certificate: correct kafka\.certificate_file"),
    ):
        settings = kafka(
            security_protocol="SSL", certificate_file=str(certificate), key_file=str(key), key_password=password
        )
        with pytest.raises(UserError, match=sentence):
            java_properties(settings)
