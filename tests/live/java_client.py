"""The Java client of Spark's Kafka source, with the properties and the environment that Spark gives it.

It runs in a process of its own (`python -m tests.live.java_client`), because the secrets are in that one's environment.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import jpype
import pyspark

from streaming.base import jars
from streaming.base.java import java_home
from streaming.base.settings import load_settings
from streaming.pipeline.kafka_options import java_options, kafka_environment, kafka_options


def end_offsets(settings):
    """What a Java consumer with these settings sees as the end of each partition of the topic."""
    properties = {name.removeprefix("kafka."): value for name, value in kafka_options(settings.kafka).items()}
    properties |= {"bootstrap.servers": settings.source.bootstrap_servers, "default.api.timeout.ms": "15000"}
    class_path = [*jars.ensure("spark", load_settings().runtime.jars), Path(pyspark.__file__).parent / "jars" / "*"]
    asked = {
        "properties": properties,
        "topic": settings.source.topic,
        "class_path": list(map(str, class_path)),
        "java_options": java_options(settings.kafka),
    }
    ended = subprocess.run(
        [sys.executable, "-m", "tests.live.java_client"],
        input=json.dumps(asked),
        env=os.environ | kafka_environment(settings.kafka),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def _main():
    asked = json.load(sys.stdin)
    jpype.startJVM(
        *asked["java_options"],
        "-Dlog4j2.level=OFF",
        jvmpath=str(java_home() / "lib" / "server" / "libjvm.so"),
        classpath=asked["class_path"],
        convertStrings=True,
    )
    properties = jpype.java.util.Properties()
    bytes_ = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
    for name, value in (asked["properties"] | {"key.deserializer": bytes_, "value.deserializer": bytes_}).items():
        properties.put(name, value)
    consumer = jpype.JClass("org.apache.kafka.clients.consumer.KafkaConsumer")(properties)
    partition = jpype.JClass("org.apache.kafka.common.TopicPartition")
    places = [partition(one.topic(), one.partition()) for one in consumer.partitionsFor(asked["topic"])]
    ends = consumer.endOffsets(jpype.java.util.Arrays.asList(*places))
    print(json.dumps({str(place.partition()): int(ends.get(place)) for place in places}))
    consumer.close()


if __name__ == "__main__":
    _main()
