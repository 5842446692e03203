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
import java.util.Optional;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.LogTruncationException;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.UnknownLeaderEpochException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.SparkEnv;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import org.apache.spark.kafka010.KafkaConfigUpdater;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.CollectionAccumulator;
import org.apache.spark.util.TaskCompletionListener;

/**
 * Reads the slices of a task with one consumer, as rows of the table; shared_consumer.py says why. `make jar` compiles
 * it.
 *
 * A slice is a line of topic, partition, start, end, the leader epoch that it was seen under (-1: not known) and the
 * topic's id, separated by tabs; those of a partition are in order, and a topic has one id. There are no generics, so
 * that tests can have a changed text compiled by Spark's own compiler (Janino), which does not infer them.
 *
 * A broker that does not know that epoch was deposed and has not heard of it: nothing is read from it. Of each slice the
 * last record is told to `tips`, with the epoch under which it was written: topic, partition, start, offset, epoch.
 */
public final class SharedConsumer implements FlatMapFunction {
    private static final long serialVersionUID = 1L;
    private final HashMap settings;
    private final int width;
    private final long rate;
    private final String attempt;
    private final CollectionAccumulator tips;

    /**
     * With the client's settings, which may hold secrets, how many partitions are read at the same time, how many bytes
     * a task may read in a second (0: as many as come), and the attempt that the rows are of.
     */
    public SharedConsumer(Map settings, int width, long rate, String attempt, CollectionAccumulator tips) {
        this.settings = new HashMap(settings);
        this.width = width;
        this.rate = rate;
        this.attempt = attempt;
        this.tips = tips;
    }

    /** Return the columns of the rows, as the table has them (`adapters/iceberg/schema.py`). */
    public static StructType schema() {
        StructType header = new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType);
        return new StructType()
            .add("key", DataTypes.BinaryType)
            .add("value", DataTypes.BinaryType)
            .add("headers", DataTypes.createArrayType(header))
            .add("kafka_topic", DataTypes.StringType)
            .add("kafka_topic_id", DataTypes.StringType)
            .add("kafka_partition", DataTypes.IntegerType)
            .add("kafka_offset", DataTypes.LongType)
            .add("kafka_timestamp", DataTypes.TimestampType)
            .add("kafka_timestamp_type", DataTypes.IntegerType)
            .add("kafka_timestamp_raw", DataTypes.LongType)
            .add("ingest_attempt", DataTypes.StringType);
    }

    public Iterator call(Object texts) {
        LinkedHashMap slices = new LinkedHashMap();
        HashMap names = new HashMap();
        while (((Iterator) texts).hasNext()) {
            for (String line : ((String) ((Iterator) texts).next()).split("\n")) {
                String[] parts = line.split("\t");
                TopicPartition place = new TopicPartition(parts[0], Integer.parseInt(parts[1]));
                if (!slices.containsKey(place)) {
                    slices.put(place, new ArrayDeque());
                }
                ((ArrayDeque) slices.get(place)).add(
                    new long[] {Long.parseLong(parts[2]), Long.parseLong(parts[3]), Long.parseLong(parts[4])});
                names.put(parts[0], new UTF8String[] {UTF8String.fromString(parts[0]), UTF8String.fromString(parts[5])});
            }
        }
        TaskContext task = TaskContext.get();
        long partition = Long.parseLong((String) settings.get("max.partition.fetch.bytes"));
        Rows rows = new Rows(task, slices, width, rate, 2 * Math.min(width, slices.size()) * partition);
        rows.names = names;
        rows.attempt = UTF8String.fromString(attempt);
        rows.tips = tips;
        rows.maker = this;
        rows.consumer = consumer();
        task.addTaskCompletionListener((TaskCompletionListener) rows);
        return rows;
    }

    /** Return a consumer that logs in as those of Spark's source do, with delegation tokens where Spark has some. */
    KafkaConsumer consumer() {
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
        /** The times that a table can hold, as `core/kafka/batches.py` has them. */
        private static final long EARLIEST_MS = -62135596800000L;
        private static final long LATEST_MS = 253402300799999L;
        private static final long NANOS_PER_MS = 1000000L;
        private static final long SHORTEST_SLEEP_MS = 20;
        private static final long LONGEST_NANOS = 60000 * NANOS_PER_MS;
        private static final long SIGN_MS = 20000;
        private static final int MOST_BROKERS = 10;
        private final TaskContext task;
        private final LinkedHashMap waiting;
        private final int width;
        private final long rate;
        private final long ahead;
        private final LinkedHashMap open = new LinkedHashMap();
        private final ArrayDeque records = new ArrayDeque();
        private final long timeoutMs = SparkEnv.get().conf().getTimeAsMs("spark.network.timeout", "120s");
        private final HashMap last = new HashMap();
        KafkaConsumer consumer;
        SharedConsumer maker;
        HashMap names;
        UTF8String attempt;
        CollectionAccumulator tips;
        private boolean begun;
        private boolean polled;
        private int deposed;
        private long sleptMs;
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
                    sign();
                } catch (LogTruncationException error) {
                    lookElsewhere(error);
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
            sleptMs = 0;
            if (rate > 0) {
                pace(record);
            }
            return row(record);
        }

        /** A number that is no time in microseconds fails, as in Spark's source. */
        private GenericInternalRow row(ConsumerRecord record) {
            long time = record.timestamp();
            Long micros = Long.valueOf(Math.multiplyExact(time, 1000L));
            boolean holds = time >= EARLIEST_MS && time <= LATEST_MS && time != ConsumerRecord.NO_TIMESTAMP;
            UTF8String[] its = (UTF8String[]) names.get(record.topic());
            return new GenericInternalRow(new Object[] {
                record.key(),
                record.value(),
                headers(record.headers().toArray()),
                its[0],
                its[1],
                Integer.valueOf(record.partition()),
                Long.valueOf(record.offset()),
                holds ? micros : null,
                Integer.valueOf(record.timestampType().id),
                holds ? null : Long.valueOf(time),
                attempt,
            });
        }

        /** As Spark's source has it: no headers are no list. */
        private static GenericArrayData headers(Header[] all) {
            if (all.length == 0) {
                return null;
            }
            Object[] found = new Object[all.length];
            for (int place = 0; place < all.length; place++) {
                UTF8String key = UTF8String.fromString(all[place].key());
                found[place] = new GenericInternalRow(new Object[] {key, all[place].value()});
            }
            return new GenericArrayData(found);
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
                seek((TopicPartition) its.getKey(), (long[]) ((ArrayDeque) its.getValue()).getFirst());
            }
            consumer.pause(waiting.keySet());
            begun = true;
        }

        /** With its epoch, so that what an older leader says of the partition counts for nothing. */
        private void seek(TopicPartition place, long[] slice) {
            if (slice[2] < 0) {
                consumer.seek(place, slice[0]);
            } else {
                consumer.seek(place, new OffsetAndMetadata(slice[0], Optional.of(Integer.valueOf((int) slice[2])), ""));
            }
        }

        /**
         * Begin again with another client when the first broker that answers does not know the epochs: it is cut off from
         * its controller, and a client goes on asking it. Another client may meet another broker first.
         */
        private void lookElsewhere(LogTruncationException error) {
            if (!error.divergentOffsets().isEmpty()) {
                throw new IllegalStateException("Kafka's log was cut below what was read of " + error.partitions()
                    + ": some data may have been lost", error);
            }
            deposed++;
            if (polled || deposed == MOST_BROKERS) {
                throw new UnknownLeaderEpochException("The broker that answers as the leader of " + error.partitions()
                    + " does not know the leader epoch under which they were seen before", error);
            }
            consumer.close(Duration.ofSeconds(5));
            consumer = maker.consumer();
            LinkedHashMap all = new LinkedHashMap(open);
            all.putAll(waiting);
            waiting.clear();
            waiting.putAll(all);
            open.clear();
            begun = false;
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
        private void take(ConsumerRecords came) {
            polled = polled || !came.isEmpty();
            for (Object place : came.partitions()) {
                long end = slice(place)[1];
                for (Object record : came.records((TopicPartition) place)) {
                    if (((ConsumerRecord) record).offset() < end) {
                        records.add(record);
                        last.put(place, record);
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
                    tell(place, (ConsumerRecord) last.remove(place));
                    ArrayDeque its = (ArrayDeque) open.get(place);
                    its.removeFirst();
                    if (its.isEmpty()) {
                        all.remove();
                        left = true;
                    } else {
                        seek(place, slice(place));
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

        /** Tell of the last record of the slice that is left, if it has one. */
        private void tell(TopicPartition place, ConsumerRecord record) {
            if (record != null) {
                Object epoch = record.leaderEpoch().orElse(Integer.valueOf(-1));
                tips.add(place.topic() + "\t" + place.partition() + "\t" + slice(place)[0] + "\t" + record.offset()
                    + "\t" + epoch);
            }
        }

        /**
         * Give a row of no record, which the caller leaves out, when a paced read has slept for long without one: Spark
         * tells its driver of a task that goes on by its rows alone, and one that seems to hang is ended.
         */
        private void sign() {
            if (sleptMs >= SIGN_MS && records.isEmpty() && !open.isEmpty()) {
                TopicPartition place = (TopicPartition) open.keySet().iterator().next();
                records.add(new ConsumerRecord(place.topic(), place.partition(), -1L, null, null));
            }
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
                sleptMs += early;
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
