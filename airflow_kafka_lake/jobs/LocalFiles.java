package airflow_kafka_lake;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;

import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * The files of a lake in a folder. Hadoop's own file system of a machine writes a file of checksums beside each, which
 * takes a tenth of the processor that writing takes and which only Hadoop reads; and it starts a process, chmod, for each
 * file and folder that it makes, where its native library is not there. `make jar` compiles it.
 */
public final class LocalFiles extends RawLocalFileSystem {
    /** Iceberg asks for it; the class above has none. */
    @Override
    public String getScheme() {
        return "file";
    }

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
        if (permission.getStickyBit()) {
            super.setPermission(path, permission); // which Java cannot set
        } else {
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
        }
    }
}
