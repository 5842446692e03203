package airflow_kafka_lake;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.scheduler.AccumulableInfo;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerExecutorMetricsUpdate;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.distributions.UnspecifiedDistribution;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.util.LongAccumulator;

import scala.Function2;
import scala.collection.Iterable;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;
import scala.runtime.AbstractFunction2;
import scala.runtime.BoxedUnit;

/**
 * Appends rows to a table by the calls that Spark's query of an append makes, all of them public, without the query:
 * Spark analyses, plans and compiles nothing, and copies no value into rows of its own. `make jar` compiles it.
 */
public final class TableAppend {
    private static volatile Written written;

    private TableAppend() {
    }

    /** Return how many rows all appends of this Java have written; those of tasks that run are told now and then. */
    public static long rows() {
        return written == null ? 0 : written.rows();
    }

    /**
     * Append the rows of shared consumers by one commit; the lines of `path` name the table. Return false, with nothing
     * written, where only a query does it: the table has other columns or types than the rows, or wants them arranged.
     */
    public static boolean append(
            TableCatalog catalog, String path, Map<String, String> options, RDD<InternalRow> rows) throws Exception {
        String[] parts = path.split("\n");
        String[] namespace = Arrays.copyOf(parts, parts.length - 1);
        SupportsWrite table = (SupportsWrite) catalog.loadTable(Identifier.of(namespace, parts[namespace.length]));
        StructType schema = SharedConsumer.schema(), there = new StructType();
        for (Column column : table.columns()) {
            there = there.add(column.name(), column.dataType(), column.nullable());
        }
        if (!there.equals(schema)) {
            return false;
        }
        Write write = table.newWriteBuilder(new Request(new CaseInsensitiveStringMap(options), schema)).build();
        BatchWrite batch = write.toBatch();
        if (batch.useCommitCoordinator() || isArranged(write)) {
            return false;
        }
        int tasks = rows.getNumPartitions();
        WriterCommitMessage[] done = new WriterCommitMessage[tasks];
        DataWriterFactory factory = batch.createBatchWriterFactory(() -> tasks);
        SparkContext context = rows.sparkContext();
        Written counted = new Written(rows(), context.longAccumulator("rows written"));
        context.addSparkListener(counted);
        written = counted;
        try {
            Function2<Object, WriterCommitMessage, BoxedUnit> ended = (task, message) -> {
                done[(Integer) task] = message;
                batch.onDataWriterCommit(message);
                return BoxedUnit.UNIT;
            };
            ClassTag<WriterCommitMessage> kind = ClassTag$.MODULE$.apply(WriterCommitMessage.class);
            context.runJob(rows, new Task(factory, counted.all), ended, kind);
            batch.commit(done);
        } catch (Throwable error) {
            try {
                batch.abort(done);
            } catch (Throwable another) {
                error.addSuppressed(another);
            }
            throw error;
        } finally {
            context.removeSparkListener(counted);
            counted.isOver = true;
        }
        return true;
    }

    private static boolean isArranged(Write write) {
        if (!(write instanceof RequiresDistributionAndOrdering)) {
            return false;
        }
        RequiresDistributionAndOrdering wanted = (RequiresDistributionAndOrdering) write;
        return wanted.requiredOrdering().length > 0
            || !(wanted.requiredDistribution() instanceof UnspecifiedDistribution);
    }

    /** What Spark tells a table of a write. */
    private static final class Request implements LogicalWriteInfo {
        private final CaseInsensitiveStringMap options;
        private final StructType schema;
        private final String id = UUID.randomUUID().toString();

        Request(CaseInsensitiveStringMap options, StructType schema) {
            this.options = options;
            this.schema = schema;
        }

        @Override
        public CaseInsensitiveStringMap options() {
            return options;
        }

        @Override
        public String queryId() {
            return id;
        }

        @Override
        public StructType schema() {
            return schema;
        }

        @Override
        public Optional<StructType> rowIdSchema() {
            return Optional.empty();
        }

        @Override
        public Optional<StructType> metadataSchema() {
            return Optional.empty();
        }
    }

    /** Writes the rows of a task. */
    private static final class Task extends AbstractFunction2<TaskContext, Iterator<InternalRow>, WriterCommitMessage>
            implements Serializable {
        private static final long serialVersionUID = 1L;
        private final DataWriterFactory factory;
        private final LongAccumulator all;

        Task(DataWriterFactory factory, LongAccumulator all) {
            this.factory = factory;
            this.all = all;
        }

        @Override
        public WriterCommitMessage apply(TaskContext task, Iterator<InternalRow> rows) {
            try (DataWriter<InternalRow> writer = factory.createWriter(task.partitionId(), task.taskAttemptId())) {
                try {
                    while (rows.hasNext()) {
                        writer.write(rows.next());
                        all.add(1L);
                    }
                    task.killTaskIfInterrupted(); // another attempt has ended: no file shall be left of this one
                    return writer.commit();
                } catch (Throwable error) {
                    boolean interrupted = Thread.interrupted(); // to delete files is to wait, which would be cut short
                    try {
                        writer.abort();
                    } catch (Throwable another) {
                        error.addSuppressed(another);
                    }
                    if (interrupted) {
                        Thread.currentThread().interrupt();
                    }
                    throw error;
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }

    /** Counts the rows of an append: those of ended tasks, and of the others what their executors tell now and then. */
    private static final class Written extends SparkListener {
        private final long before;
        private final LongAccumulator all;
        private final ConcurrentHashMap<Object, Long> tasks = new ConcurrentHashMap<>();
        private volatile boolean isOver;

        Written(long before, LongAccumulator all) {
            this.before = before;
            this.all = all;
        }

        long rows() {
            return before + (isOver ? all.sum() : tasks.values().stream().mapToLong(Long::longValue).sum());
        }

        @Override
        public void onExecutorMetricsUpdate(SparkListenerExecutorMetricsUpdate update) {
            CollectionConverters.asJava(update.accumUpdates()).forEach(task -> take(task._1(), task._4()));
        }

        @Override
        public void onTaskEnd(SparkListenerTaskEnd ended) {
            Object task = ended.taskInfo().taskId();
            tasks.remove(task); // a failed one has written nothing
            take(task, ended.taskInfo().accumulables());
        }

        private void take(Object task, Iterable<AccumulableInfo> found) {
            for (AccumulableInfo info : CollectionConverters.asJava(found)) {
                if (info.id() == all.id() && info.update().isDefined()) {
                    tasks.merge(task, (Long) info.update().get(), Math::max);
                }
            }
        }
    }
}
