"""Give Spark's Kafka source the properties of its client, without a secret in a plan, an event log or a log file.

An option of a source is part of the plan, which Spark prints and logs. So each secret is in an environment variable of
Spark's JVM, and the option only refers to it: the client itself puts the value in (KIP-297, EnvVarConfigProvider).
Executors on other machines get the same variables (`streaming.pipeline.spark_properties`). Their names contain SECRET,
so that Spark redacts the properties that pass them on, ``spark.executorEnv.…`` (spark.redaction.regex).
"""

from streaming.base.sections.collector import Kafka
from streaming.log.kafka_properties import JavaProperties, java_properties

_PROVIDERS = "config.providers"
_ENVIRONMENT_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
_ALLOWED_URLS = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def kafka_options(kafka: Kafka) -> dict[str, str]:
    """Return the options of Spark's Kafka source.

    Raises:
        UserError: the settings do not fit together, or a file can't be read.
    """
    properties = java_properties(kafka)
    plain, secret = _shown(properties), _hidden(properties)
    if secret:
        others = plain.get(_PROVIDERS, "")
        plain |= {
            _PROVIDERS: f"env,{others}" if others else "env",
            f"{_PROVIDERS}.env.class": _ENVIRONMENT_PROVIDER,
        }
    references = {name: f"${{env:{_variable(name)}}}" for name in secret}
    return {f"kafka.{name}": value for name, value in (plain | references).items()}


def kafka_environment(kafka: Kafka) -> dict[str, str]:
    """Return the environment variables to which the options refer.

    Raises:
        UserError: the settings do not fit together, or a file can't be read.
    """
    return {_variable(name): value for name, value in _hidden(java_properties(kafka)).items()}


def java_options(kafka: Kafka) -> list[str]:
    """Return the system properties of Spark's JVM: the only address from which its client may take a token."""
    return [f"-D{_ALLOWED_URLS}={kafka.token_url}"] if kafka.token_url else []


def _hidden(properties: JavaProperties) -> dict[str, str]:
    return {name: value for name, value in properties.secret.items() if not _is_reference(name, value)}


def _shown(properties: JavaProperties) -> dict[str, str]:
    return properties.plain | {name: value for name, value in properties.secret.items() if _is_reference(name, value)}


def _is_reference(name: str, value: str) -> bool:
    """Return whether a property refers to a config provider, or describes one: these the client resolves but once."""
    return name.startswith(_PROVIDERS) or value.startswith("${")


def _variable(name: str) -> str:
    return f"REBALANCE_WATCH_KAFKA_SECRET_{name.upper().replace('.', '_').replace('-', '_')}"
