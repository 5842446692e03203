package airflow_kafka_lake;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.kafka010.KafkaConfigUpdater;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.kafka010.KafkaRecordToRowConverter;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Reads the slices of a task with one consumer; shared_consumer.py says why, and has it compiled.
 *
 * A slice is a line of topic, partition, start and end, separated by tabs; those of a partition are in order. There are
 * no generics, because Spark's compiler (Janino) does not infer them.
 */
public final class SharedConsumer implements FlatMapFunction {
    private static final long serialVersionUID = 1L;
    private final HashMap settings;
    private final int width;
    private final long rate;

    /**
     * With the client's settings, which may hold secrets, how many partitions are read at the same time, and how many
     * bytes a task may read in a second; 0: as many as come.
     */
    public SharedConsumer(Map settings, int width, long rate) {
        this.settings = new HashMap(settings);
        this.width = width;
        this.rate = rate;
    }

    public Iterator call(Object texts) {
        LinkedHashMap slices = new LinkedHashMap();
        while (((Iterator) texts).hasNext()) {
            for (String line : ((String) ((Iterator) texts).next()).split("\n")) {
                String[] parts = line.split("\t");
                TopicPartition place = new TopicPartition(parts[0], Integer.parseInt(parts[1]));
                if (!slices.containsKey(place)) {
                    slices.put(place, new ArrayDeque());
                }
                ((ArrayDeque) slices.get(place)).add(new long[] {Long.parseLong(parts[2]), Long.parseLong(parts[3])});
            }
        }
        TaskContext task = TaskContext.get();
        long partition = Long.parseLong((String) settings.get("max.partition.fetch.bytes"));
        Rows rows = new Rows(task, slices, width, rate, 2 * Math.min(width, slices.size()) * partition);
        rows.consumer = consumer();
        task.addTaskCompletionListener((TaskCompletionListener) rows);
        return rows;
    }

    /** Return a consumer that logs in as those of Spark's source do, with delegation tokens where Spark has some. */
    private KafkaConsumer consumer() {
        scala.collection.immutable.Map given = scala.collection.immutable.Map$.MODULE$.from(
            scala.jdk.javaapi.CollectionConverters.asScala((Map) settings));
        Map all = new KafkaConfigUpdater("executor", given).setAuthenticationConfigIfNeeded().build();
        return new KafkaConsumer(all, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    /** The rows of all slices; those of one partition are in the order of their offsets. */
    public static final class Rows implements Iterator, TaskCompletionListener {
        private static final Duration POLL = Duration.ofMillis(500);
        private static final long LOOK_AFTER_MS = 1000;
        private static final long OVERHEAD_BYTES = 16;
        /** What is earlier Spark's class takes for a time of another calendar, and of a zone as it was then. */
        private static final long EXACT_SINCE_MS = -2208902400000L;
        private static final int TIMESTAMP = 5;
        private static final long NANOS_PER_MS = 1000000L;
        private static final long SHORTEST_SLEEP_MS = 20;
        private static final long LONGEST_NANOS = 60000 * NANOS_PER_MS;
        private final TaskContext task;
        private final LinkedHashMap waiting;
        private final int width;
        private final long rate;
        private final long ahead;
        private final LinkedHashMap open = new LinkedHashMap();
        private final ArrayDeque records = new ArrayDeque();
        private final scala.Function1 row = new KafkaRecordToRowConverter().toInternalRowWithHeaders();
        private final long timeoutMs = SparkEnv.get().conf().getTimeAsMs("spark.network.timeout", "120s");
        KafkaConsumer consumer;
        private boolean begun;
        private long reached;
        private long movedAt;
        private long lookedAt;
        private Metric incoming;
        private double paid;
        private long paidUntil = System.nanoTime();

        /** `ahead` is how many bytes the client may hold that it has fetched and not given yet. */
        public Rows(TaskContext task, LinkedHashMap slices, int width, long rate, long ahead) {
            this.task = task;
            this.waiting = slices;
            this.width = width;
            this.rate = rate;
            this.ahead = ahead;
        }

        public boolean hasNext() {
            if (records.isEmpty()) {
                moved(); // What took the rows may have taken its time.
            }
            while (records.isEmpty() && !(waiting.isEmpty() && open.isEmpty())) {
                task.killTaskIfInterrupted();
                if (!begun) {
                    begin();
                }
                if (open.size() < width && !waiting.isEmpty()) {
                    open();
                }
                if (rate > 0) {
                    paceRest();
                }
                try {
                    take(consumer.poll(POLL));
                    leave();
                    look();
                } catch (OffsetOutOfRangeException error) { // Also of a log that was cut below what was read of it.
                    throw new IllegalStateException("Kafka no longer has offsets of " + error.partitions()
                        + " that were asked for: some data may have been lost", error);
                }
            }
            return !records.isEmpty();
        }

        public Object next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            ConsumerRecord record = (ConsumerRecord) records.removeFirst();
            if (rate > 0) {
                pace(record);
            }
            InternalRow found = (InternalRow) row.apply(record);
            if (record.timestamp() < EXACT_SINCE_MS) {
                found.update(TIMESTAMP, Long.valueOf(record.timestamp() * 1000L));
            }
            return found;
        }

        public void remove() {
            throw new UnsupportedOperationException();
        }

        public void onTaskCompletion(TaskContext ended) {
            consumer.close(Duration.ofSeconds(5));
        }

        /**
         * Ask Kafka of all partitions once, so that none waits for an answer about its leader when its turn comes: the
         * client spaces such questions by a tenth of a second.
         */
        private void begin() {
            consumer.assign(waiting.keySet());
            for (Iterator all = waiting.entrySet().iterator(); all.hasNext();) {
                Map.Entry its = (Map.Entry) all.next();
                consumer.seek((TopicPartition) its.getKey(), ((long[]) ((ArrayDeque) its.getValue()).getFirst())[0]);
            }
            consumer.pause(waiting.keySet());
            begun = true;
        }

        /** Read the next partitions too. Few at a time: the client keeps what a fetch brings of each of them. */
        private void open() {
            ArrayList fresh = new ArrayList();
            for (Iterator all = waiting.entrySet().iterator(); all.hasNext() && open.size() < width;) {
                Map.Entry its = (Map.Entry) all.next();
                open.put(its.getKey(), its.getValue());
                fresh.add(its.getKey());
                all.remove();
            }
            consumer.resume(fresh);
            moved();
        }

        private long[] slice(Object place) {
            return (long[]) ((ArrayDeque) open.get(place)).getFirst();
        }

        /** Return how far a partition is read; -1 while its new leader is asked whether the log still goes so far. */
        private long position(TopicPartition place) {
            try {
                return consumer.position(place, Duration.ZERO);
            } catch (TimeoutException unknown) {
                return -1;
            }
        }

        /** Keep what lies within the slices: a poll may reach behind them. */
        private void take(ConsumerRecords polled) {
            for (Object place : polled.partitions()) {
                long end = slice(place)[1];
                for (Object record : polled.records((TopicPartition) place)) {
                    if (((ConsumerRecord) record).offset() < end) {
                        records.add(record);
                    }
                }
            }
        }

        /** Leave the slices whose end is passed. A consumer's position passes offsets without a record too. */
        private void leave() {
            long sum = 0;
            boolean left = false;
            for (Iterator all = open.keySet().iterator(); all.hasNext();) {
                TopicPartition place = (TopicPartition) all.next();
                long position = position(place);
                sum += position;
                if (position >= slice(place)[1]) {
                    ArrayDeque its = (ArrayDeque) open.get(place);
                    its.removeFirst();
                    if (its.isEmpty()) {
                        all.remove();
                        left = true;
                    } else {
                        consumer.seek(place, slice(place)[0]);
                    }
                }
            }
            if (left) {
                HashSet rest = new HashSet(open.keySet());
                rest.addAll(waiting.keySet());
                consumer.assign(rest);
            }
            if (left || sum != reached) {
                moved();
            }
            reached = sum;
        }

        private void moved() {
            movedAt = System.currentTimeMillis();
            lookedAt = movedAt;
        }

        /** Where nothing came for a while, fail if nothing will come. */
        private void look() {
            if (open.isEmpty() || System.currentTimeMillis() - lookedAt < LOOK_AFTER_MS) {
                return;
            }
            HashMap partitions = new HashMap();
            for (Object item : open.keySet()) {
                TopicPartition place = (TopicPartition) item;
                if (!partitions.containsKey(place.topic())) {
                    partitions.put(place.topic(), consumer.partitionsFor(place.topic()));
                }
                List its = (List) partitions.get(place.topic());
                if (its == null || its.size() <= place.partition()) {
                    throw new UnknownTopicOrPartitionException("Kafka has no partition " + place);
                }
            }
            Map ends = consumer.endOffsets(open.keySet());
            for (Object place : open.keySet()) {
                long end = ((Long) ends.get(place)).longValue();
                if (end < slice(place)[1] && position((TopicPartition) place) >= end) {
                    throw new IllegalStateException("Kafka has " + place + " up to offset " + end + ", and "
                        + slice(place)[1] + " was asked for: some data may have been lost");
                }
            }
            lookedAt = System.currentTimeMillis();
            if (lookedAt - movedAt > timeoutMs) {
                Object place = open.keySet().iterator().next();
                throw new TimeoutException("Cannot fetch record for offset " + position((TopicPartition) place)
                    + " of " + place + " in " + timeoutMs + " milliseconds");
            }
        }

        /** Take as long for a record as its bytes may take. */
        private void pace(ConsumerRecord record) {
            long size = OVERHEAD_BYTES;
            size += Math.max(0, record.serializedKeySize()) + Math.max(0, record.serializedValueSize());
            for (Header header : record.headers().toArray()) {
                size += header.key().length() + (header.value() == null ? 0 : header.value().length);
            }
            pay(size);
        }

        /**
         * Take as long for what came and was no record, such as aborted ones, as its bytes may take. They are counted
         * on the network, where records of a codec are smaller than what was paid for them.
         */
        private void paceRest() {
            double came = incoming();
            paid = Math.min(paid, came + ahead);
            if (came - ahead > paid) {
                pay(came - ahead - paid);
                moved();
            }
        }

        /** Return how many bytes Kafka has sent to this consumer. */
        private double incoming() {
            for (Iterator all = consumer.metrics().entrySet().iterator(); incoming == null && all.hasNext();) {
                Map.Entry its = (Map.Entry) all.next();
                MetricName name = (MetricName) its.getKey();
                if (name.group().equals("consumer-metrics") && name.name().equals("incoming-byte-total")) {
                    incoming = (Metric) its.getValue();
                }
            }
            return ((Double) incoming.metricValue()).doubleValue();
        }

        /** Take as long as so many bytes may take, a minute at most. Who sleeps here fetches nothing. */
        private void pay(double size) {
            paid += size;
            paidUntil = Math.max(paidUntil, System.nanoTime())
                + (long) Math.min(LONGEST_NANOS, size * 1000.0 * NANOS_PER_MS / rate);
            long early = (paidUntil - System.nanoTime()) / NANOS_PER_MS;
            if (early >= SHORTEST_SLEEP_MS) {
                try {
                    Thread.sleep(early);
                } catch (InterruptedException error) {
                    Thread.currentThread().interrupt();
                    task.killTaskIfInterrupted();
                    throw new IllegalStateException("interrupted", error);
                }
            }
        }
    }
}
