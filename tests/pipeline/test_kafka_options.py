"""Options of Spark's Kafka source: references in the plan, secrets in the environment of its JVM."""

import pytest

from streaming.base.settings import load_settings
from streaming.pipeline.sources import java_options, kafka_environment, kafka_options, read_log

JAAS = "REBALANCE_WATCH_KAFKA_SECRET_SASL_JAAS_CONFIG"
ENVIRONMENT = {
    "kafka.config.providers": "env",
    "kafka.config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
}


def kafka(**settings):
    return load_settings(kafka=settings).kafka


def test_an_open_kafka_needs_no_provider():
    assert kafka_options(kafka()) == {"kafka.security.protocol": "PLAINTEXT"}
    assert kafka_environment(kafka()) == {}


def test_secrets_are_in_the_environment_and_options_refer_to_them():
    settings = kafka(
        security_protocol="SASL_PLAINTEXT", username="job", password="hunter2", java={"client.dns-lookup": "x"}
    )
    options = kafka_options(settings)
    assert options == ENVIRONMENT | {
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": f"${{env:{JAAS}}}",
        "kafka.client.dns-lookup": "${env:REBALANCE_WATCH_KAFKA_SECRET_CLIENT_DNS_LOOKUP}",
    }
    environment = kafka_environment(settings)
    assert 'password="hunter2";' in environment[JAAS]
    assert environment["REBALANCE_WATCH_KAFKA_SECRET_CLIENT_DNS_LOOKUP"] == "x"
    assert len(environment) == 2


def test_references_and_providers_of_the_user_are_passed_as_they_are():
    file = {"config.providers": "file", "config.providers.file.class": "a.FileConfigProvider"}
    reference = {"ssl.truststore.password": "${file:/run/secrets/kafka:trust}", "client.rack": "a"}
    options = kafka_options(kafka(java=file | reference))
    assert options["kafka.config.providers"] == "env,file"
    assert options["kafka.config.providers.file.class"] == "a.FileConfigProvider"
    assert options["kafka.ssl.truststore.password"] == "${file:/run/secrets/kafka:trust}"
    assert options["kafka.client.rack"].startswith("${env:")


def test_java_may_ask_the_token_server_alone():
    url = "http://127.0.0.1:1/token"
    assert java_options(kafka()) == []
    assert java_options(kafka(token_url=url)) == [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"]


@pytest.mark.spark
def test_a_plan_refers_to_the_secret(spark):
    settings = load_settings(
        source={"kind": "kafka"}, kafka={"security_protocol": "SASL_SSL", "username": "job", "password": "hunter2"}
    )
    log = read_log(spark, settings)
    plan = log._jdf.queryExecution().toString()
    options = str(log._jdf.queryExecution().logical().toJSON())
    assert "kafka" in plan.lower()
    assert "hunter2" not in plan + options
