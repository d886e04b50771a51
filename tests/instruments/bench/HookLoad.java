import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The load of bench_hook.py: threads that each send a message and pull it, in rounds, now at one broker, now at the
 * other. Run by the java launcher from its source, with
 * {@code NAME_SERVER TOPIC THREADS ROUNDS ROUND_MS BROKER...}. Prints a line for each round: broker, pairs of calls,
 * nanoseconds, and the p50 and p99 of send and of pull in ns.
 */
public final class HookLoad {
    public static void main(String[] args) throws Exception {
        String topic = args[1];
        int threads = Integer.parseInt(args[2]);
        int rounds = Integer.parseInt(args[3]);
        long roundNanos = Long.parseLong(args[4]) * 1_000_000L;
        List<String> brokers = Arrays.asList(args).subList(5, args.length);
        DefaultMQProducer producer = new DefaultMQProducer("load-producer");
        producer.setNamesrvAddr(args[0]);
        producer.setInstanceName("load-producer");
        producer.setClientIP("127.0.0.1");
        producer.start();
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("load");
        consumer.setNamesrvAddr(args[0]);
        consumer.setInstanceName("load");
        consumer.setClientIP("127.0.0.1");
        consumer.start();
        for (int round = 0; round < rounds; round++) {
            for (int i = 0; i < brokers.size(); i++) {
                // A B, B A, A B …: a drift of the machine hits both alike
                String broker = brokers.get(round % 2 == 0 ? i : brokers.size() - 1 - i);
                round(producer, consumer, topic, broker, threads, roundNanos);
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0); // RocketMQ's clients leave threads behind
    }

    private static void round(DefaultMQProducer producer, DefaultMQPullConsumer consumer, String topic, String broker,
        int threads, long roundNanos) throws Exception {
        List<Worker> workers = new ArrayList<>();
        long begun = System.nanoTime();
        for (int i = 0; i < threads; i++) {
            Worker worker = new Worker(producer, consumer, new MessageQueue(topic, broker, i), begun + roundNanos);
            workers.add(worker);
            worker.start();
        }
        for (Worker worker : workers) {
            worker.join();
        }
        long nanos = System.nanoTime() - begun;
        long[] sends = merged(workers, true);
        long[] pulls = merged(workers, false);
        System.out.printf("%s %d %d %d %d %d %d%n", broker, sends.length, nanos, at(sends, 0.5), at(sends, 0.99),
            at(pulls, 0.5), at(pulls, 0.99));
    }

    private static long[] merged(List<Worker> workers, boolean sends) {
        return workers.stream().flatMapToLong(one -> Arrays.stream(sends ? one.sends : one.pulls, 0, one.count))
            .sorted().toArray();
    }

    private static long at(long[] sorted, double share) {
        return sorted.length == 0 ? 0 : sorted[(int) (share * (sorted.length - 1))];
    }

    private static final class Worker extends Thread {
        private final DefaultMQProducer producer;
        private final DefaultMQPullConsumer consumer;
        private final MessageQueue queue;
        private final long end;
        private final long[] sends = new long[1 << 16];
        private final long[] pulls = new long[1 << 16];
        private int count;

        Worker(DefaultMQProducer producer, DefaultMQPullConsumer consumer, MessageQueue queue, long end) {
            this.producer = producer;
            this.consumer = consumer;
            this.queue = queue;
            this.end = end;
        }

        @Override
        public void run() {
            byte[] body = new byte[200];
            try {
                while (System.nanoTime() < end && count < sends.length) {
                    long begun = System.nanoTime();
                    long offset = producer.send(new Message(queue.getTopic(), body), queue).getQueueOffset();
                    long sent = System.nanoTime();
                    consumer.pull(queue, "*", offset, 1);
                    sends[count] = sent - begun;
                    pulls[count] = System.nanoTime() - sent;
                    count++;
                }
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }
    }
}
