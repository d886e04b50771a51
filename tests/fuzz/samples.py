"""Answers of RocketMQ, by the code of the request: recorded ones, and three in the form of its own."""

from pathlib import Path

from streaming.collect.requests import ReadCode

_WIRE = Path(__file__).parents[1] / "collect/wire"


def _recorded(name: str) -> bytes:
    return (_WIRE / f"{name}.body").read_bytes()


ANSWERS = {
    ReadCode.GET_BROKER_RUNTIME_INFO: _recorded("broker_runtime_28"),
    ReadCode.GET_ROUTEINFO_BY_TOPIC: _recorded("route_105"),
    ReadCode.GET_BROKER_CLUSTER_INFO: (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911",1:"127.0.0.1:10921"},"brokerName":'
        b'"broker-a","cluster":"DefaultCluster","enableActingMaster":false},"broker-b":{"brokerAddrs":{2:'
        b'"127.0.0.1:10931"},"brokerName":"broker-b","cluster":"DefaultCluster","enableActingMaster":true}},'
        b'"clusterAddrTable":{"DefaultCluster":["broker-a","broker-b"]}}'
    ),
    ReadCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: (
        b'{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1795255650380},"forbiddenTable":{},'
        b'"subscriptionGroupTable":{"orders-group":{"attributes":{},"brokerId":0,"consumeEnable":true,"groupName":'
        b'"orders-group","retryMaxTimes":16},"TOOLS_CONSUMER":{"groupName":"TOOLS_CONSUMER"}}}'
    ),
    ReadCode.GET_TOPIC_STATS_INFO: _recorded("topic_stats_202"),
    ReadCode.GET_CONSUMER_CONNECTION_LIST: _recorded("consumer_connection_203"),
    ReadCode.GET_CONSUME_STATS: _recorded("consume_stats_208"),
    ReadCode.QUERY_CONSUME_TIME_SPAN: (
        b'{"consumeTimeSpanSet":[{"consumeTimeStamp":1795255707205,"delayTime":205,"maxTimeStamp":1795255707410,'
        b'"messageQueue":{"brokerName":"broker-a","queueId":2,"topic":"Orders"},"minTimeStamp":1795255676000},'
        b'{"consumeTimeStamp":0,"delayTime":-1,"maxTimeStamp":-1,"messageQueue":{"brokerName":"broker-a","queueId":0,'
        b'"topic":"%RETRY%orders-group"},"minTimeStamp":-1}]}'
    ),
    ReadCode.GET_CONSUMER_RUNNING_INFO: _recorded("consumer_running_info_307"),
}
