package rebalancewatch;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;

import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/** Hadoop's local file system, which sets the rights of a file itself: Hadoop's own starts a process chmod for each. */
public final class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    /** The files without their checksums. */
    public static final class Raw extends RawLocalFileSystem {
        @Override
        public void setPermission(Path path, FsPermission rights) throws IOException {
            String symbols = rights.getUserAction().SYMBOL + rights.getGroupAction().SYMBOL + rights.getOtherAction().SYMBOL;
            Files.setPosixFilePermissions(pathToFile(path).toPath(), PosixFilePermissions.fromString(symbols));
        }
    }
}
