package airflow_kafka_lake;

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.DriverManager;
import java.util.Map;
import java.util.Properties;

import org.apache.iceberg.inmemory.InMemoryOutputFile;
import org.apache.iceberg.io.FileAppender;
import org.apache.iceberg.parquet.Parquet;
import org.apache.iceberg.spark.SparkSchemaUtil;
import org.apache.iceberg.spark.data.SparkParquetWriters;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.spark.api.python.PythonGatewayServer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.apache.spark.util.Utils$;

/**
 * The Java of a driver on this machine, whose Python runs beside it: Spark's own gateway for Python, without the submit
 * that would start it, and with the code of a job loaded meanwhile. `make jar` compiles it.
 */
public final class DriverGateway {
    private static final int ROWS = 50;

    private DriverGateway() {
    }

    /** Listen for the Python that has started this Java, under the settings of a file, until its end of the pipe ends. */
    public static void main(String[] settings) throws IOException {
        Properties given = new Properties();
        try (Reader text = Files.newBufferedReader(Path.of(settings[0]))) {
            given.load(text);
        }
        System.getProperties().putAll(given);
        Thread beside = new Thread(DriverGateway::warmUp, "warm-up");
        beside.setDaemon(true);
        beside.start();
        Utils$.MODULE$.initializeLogIfNecessary(false);  // as the gateway does for a shell, INFO would never be seen
        PythonGatewayServer.main(new String[0]);
    }

    /** Do once, to no effect, all that a job will do first when Spark runs: it would wait for this code then. */
    private static void warmUp() {
        try {
            writeFile();
            new KafkaConsumer<>(
                Map.of("bootstrap.servers", "127.0.0.1:1"), new ByteArrayDeserializer(), new ByteArrayDeserializer()
            ).close();
            if (System.getProperty("spark.sql.catalog.lake.uri", "").startsWith("jdbc:sqlite:")) {
                DriverManager.getConnection("jdbc:sqlite::memory:").close();
            }
        } catch (Throwable error) {
            // The job does the same anew, and says why it cannot.
        }
    }

    private static void writeFile() throws IOException {
        StructType columns = SharedConsumer.schema();
        try (FileAppender<InternalRow> file = Parquet.write(new InMemoryOutputFile())
                .schema(SparkSchemaUtil.convert(columns))
                .createWriterFunc(type -> SparkParquetWriters.buildWriter(columns, type))
                .set("write.parquet.compression-codec", "zstd")
                .build()) {
            UTF8String text = UTF8String.fromString("text");
            GenericInternalRow header = new GenericInternalRow(new Object[] {text, new byte[1]});
            GenericArrayData headers = new GenericArrayData(new Object[] {header});
            for (long row = 0; row < ROWS; row++) {
                file.add(new GenericInternalRow(new Object[] {
                    new byte[1], new byte[ROWS], headers, text, text, 0, row, 0L, 0, null, text}));
            }
        }
    }
}
