"""The Java client of Spark's Kafka source, with the properties and the environment that Spark gives it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from streaming.base import jars
from streaming.base.java import java_home
from streaming.base.settings import load_settings
from streaming.pipeline.sources import java_options, kafka_environment, kafka_options
from tests.live import java_client_process

LIBRARIES = ("jackson-*.jar", "slf4j-api-*.jar", "lz4-*.jar", "snappy-java-*.jar", "zstd-jni-*.jar")


def end_offsets(settings):
    """Return what a Java consumer with these settings sees as the end of each partition of the topic."""
    properties = {name.removeprefix("kafka."): value for name, value in kafka_options(settings.kafka).items()}
    properties |= {"bootstrap.servers": settings.source.bootstrap_servers, "default.api.timeout.ms": "30000"}
    of_spark = Path(pyspark.__file__).parent / "jars"
    class_path = [*jars.ensure("spark", load_settings().runtime.jars)]
    class_path += [jar for pattern in LIBRARIES for jar in of_spark.glob(pattern)]
    asked = {
        "properties": properties,
        "topic": settings.source.topic,
        "class_path": list(map(str, class_path)),
        "java_options": ["-XX:TieredStopAtLevel=1", *java_options(settings.kafka)],
        "jvm": str(java_home() / "lib" / "server" / "libjvm.so"),
    }
    ended = subprocess.run(
        [sys.executable, java_client_process.__file__],
        input=json.dumps(asked),
        env=os.environ | kafka_environment(settings.kafka),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)
