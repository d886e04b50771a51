"""The hook in a JVM without a broker, controlled by lines of JSON on stdin; it answers each with one line.

Started by the tests as ``python -m tests.collect.hook_jvm CLASS_PATH``: a JVM can't be left again, and this one has
its hook's thread killed and its files cut short.
"""

import json
import os
import resource
import sys
import threading

import jpype

NAME = "rebalance-watch-hook"
FRUGAL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""The lab's (`streaming.lab.processes`), whose import would take longer than the JVM."""


class Driver:
    """One hook at a time; former ones continue to tick into their own folders."""

    def __init__(self, class_path):
        jpype.startJVM("-Xmx128m", *FRUGAL, "-XX:-UsePerfData", classpath=class_path.split(":"), convertStrings=True)
        self._system = jpype.JClass("java.lang.System")
        self._command = jpype.JClass("org.apache.rocketmq.remoting.protocol.RemotingCommand")
        self._hook = None

    def start(self, command="broker", **properties):
        """Start a hook with these properties, as if the JVM had this command line."""
        for name in [name for name in self._system.getProperties().stringPropertyNames() if "rebalance.watch" in name]:
            self._system.clearProperty(name)
        self._system.setProperty("sun.java.command", command)
        for name, value in properties.items():
            self._system.setProperty(f"rebalance.watch.{name}", str(value))
        self._hook = jpype.JClass("rebalancewatch.RebalanceWatchHook")()

    def call(self, code, fields=None, body=None, answer=None, answer_body=None, channel="192.0.2.1:7", times=1):
        """Pass RPCs to the hook as a broker does; `answer` is the code, None if the broker answers later."""
        request = self._command.createRequestCommand(code, None)
        for name, value in (fields or {}).items():
            request.addExtField(name, str(value))
        request.setBody(_bytes(body))
        response = None if answer is None else self._command.createResponseCommand(answer, "")
        if response is not None:
            response.setBody(_bytes(answer_body))
        for _ in range(times):
            self._hook.doBeforeRequest(channel, request)
            self._hook.doAfterResponse(channel, request, response)

    def overtake(self, code, first, then, channel="192.0.2.1:7"):
        """Pass two RPCs of a client: the answer to the second before the answer to the first."""
        request = self._command.createRequestCommand(code, None)
        for name, value in first.items():
            request.addExtField(name, str(value))
        self._hook.doBeforeRequest(channel, request)
        other = threading.Thread(target=self.call, args=(code, then))
        other.start()
        other.join()
        self._hook.doAfterResponse(channel, request, None)

    def send(self, code, fields, queue_id=0, offset=None, body=None, answer=0):
        """Pass a send whose answer has the message's offset; without an offset the broker answers later."""
        request = self._command.createRequestCommand(code, None)
        for name, value in fields.items():
            request.addExtField(name, str(value))
        if body is not None:
            request.setBody(bytes.fromhex(body))
        response = None
        if offset is not None:
            response = self._command.createResponseCommand(answer, "")
            header = jpype.JClass("org.apache.rocketmq.remoting.protocol.header.SendMessageResponseHeader")()
            header.setQueueId(jpype.JClass("java.lang.Integer")(queue_id))
            header.setQueueOffset(jpype.JClass("java.lang.Long")(offset))
            response.writeCustomHeader(header)
        self._hook.doBeforeRequest("192.0.2.1:7", request)
        self._hook.doAfterResponse("192.0.2.1:7", request, response)

    def ask_lists(self, groups, prefix, answer):
        """Pass a list request for each of so many groups."""
        request = self._command.createRequestCommand(38, None)
        response = self._command.createResponseCommand(answer, "")
        for number in range(groups):
            request.addExtField("consumerGroup", f"{prefix}{number}")
            self._hook.doAfterResponse("192.0.2.1:7", request, response)

    def send_topics(self, topics, prefix):
        """Pass an answered send to each of so many topics."""
        request = self._command.createRequestCommand(10, None)
        response = self._command.createResponseCommand(0, "")
        header = jpype.JClass("org.apache.rocketmq.remoting.protocol.header.SendMessageResponseHeader")()
        header.setQueueId(jpype.JClass("java.lang.Integer")(0))
        header.setQueueOffset(jpype.JClass("java.lang.Long")(1))
        response.writeCustomHeader(header)
        for number in range(topics):
            request.addExtField("topic", f"{prefix}{number}")
            self._hook.doAfterResponse("192.0.2.1:7", request, response)

    def locale(self, tag):
        """Set the JVM's locale, as the user's environment does at its start."""
        locale = jpype.JClass("java.util.Locale")
        locale.setDefault(locale.forLanguageTag(tag))

    def writer_seconds(self):
        """Return the processor time that the hook's thread has taken so far."""
        beans = jpype.JClass("java.lang.management.ManagementFactory").getThreadMXBean()
        return beans.getThreadCpuTime(self._writer().getId()) / 1e9

    def nothing(self):
        """Pass calls with null arguments, which no broker does."""
        self._hook.doBeforeRequest(None, None)
        self._hook.doAfterResponse(None, None, None)
        send = self._command.createRequestCommand(10, None)
        self._hook.doAfterResponse(None, send, self._command.createResponseCommand(0, ""))

    def nonsense(self):
        """Pass unreadable requests, which clients may send."""
        self.call(15)
        self.call(28, {"rebalanceWatchCollector": "c@1", "rebalanceWatchAsked": "noon"}, answer=0)
        self.call(11, {"consumerGroup": "g", "topic": "t", "queueId": "many"})
        self.call(34, body="no JSON", answer=0)
        self.call(34, body='{"clientID":"c","consumerDataSet":[7]}', answer=0)
        self.call(41, body='{"clientId":"c","consumerGroup":"g","mqSet":[{"topic":"t"}]}', answer=0)

    def kill(self, how):
        """End the writer's thread, or interrupt it."""
        thread = self._writer()
        getattr(thread, how)()
        if how == "stop":
            thread.join(2000)
        return bool(thread.isAlive())

    def _writer(self):
        """Return the thread of the newest hook."""
        threads = jpype.JClass("java.lang.Thread").getAllStackTraces().keySet()
        return max((one for one in threads if one.getName() == NAME), key=lambda one: one.getId())

    def exit(self):
        """End the JVM as SIGTERM does."""
        self._system.exit(0)

    def limit(self, size):
        """Limit the size of each file of this process, as a quota does: a write beyond it is partial."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def _bytes(text):
    return None if text is None else jpype.JString(text).getBytes("UTF-8")


def main():
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what RocketMQ's loggers print is no answer
    driver = Driver(sys.argv[1])
    for line in sys.stdin:
        what, arguments = json.loads(line)
        print(json.dumps(getattr(driver, what)(**arguments)), file=answers, flush=True)


if __name__ == "__main__":
    main()
