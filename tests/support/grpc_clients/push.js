// One push consumer of rocketmq-client-nodejs behind a proxy.
//
//   node push.js PROXY GROUP TOPIC
//
// SIGTERM leaves the group. It prints "started" and "ended".
const { PushConsumer, ConsumeResult, FilterExpression } = require('rocketmq-client-nodejs');

const [, , endpoints, consumerGroup, topic] = process.argv;
const nothing = () => {};

async function main() {
  const consumer = new PushConsumer({
    consumerGroup,
    endpoints,
    namespace: '',
    subscriptions: new Map([[topic, FilterExpression.SUB_ALL]]),
    logger: { debug: nothing, info: nothing, warn: console.log, error: console.log },
    messageListener: { consume: async () => ConsumeResult.SUCCESS },
  });
  await consumer.startup();
  console.log('started');
  process.on('SIGTERM', async () => {
    await consumer.shutdown();
    console.log('ended');
    process.exit(0);
  });
}

main();
