"""A Java consumer in a process of its own: reads what it is asked as JSON, prints the end of each partition.

It imports nothing of ours, so that it starts soon.
"""

import json
import sys

import jpype

BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


def main():
    asked = json.load(sys.stdin)
    jpype.startJVM(*asked["java_options"], jvmpath=asked["jvm"], classpath=asked["class_path"], convertStrings=True)
    properties = jpype.java.util.Properties()
    for name, value in (asked["properties"] | {"key.deserializer": BYTES, "value.deserializer": BYTES}).items():
        properties.put(name, value)
    consumer = jpype.JClass("org.apache.kafka.clients.consumer.KafkaConsumer")(properties)
    partition = jpype.JClass("org.apache.kafka.common.TopicPartition")
    places = [partition(one.topic(), one.partition()) for one in consumer.partitionsFor(asked["topic"])]
    ends = consumer.endOffsets(jpype.java.util.Arrays.asList(*places))
    print(json.dumps([int(ends.get(place)) for place in places]))
    consumer.close()


if __name__ == "__main__":
    main()
