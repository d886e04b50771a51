package rebalancewatch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import java.util.concurrent.TimeUnit;

/**
 * The files of this incarnation: {@code <spool>/<source>/<20-digit number>.jsonl}. The newest is appended to, by whole
 * lines; a file is complete when there is a newer one. Only the shipper deletes them. When they use up the disk
 * cap, or can't be written, lines are dropped and counted, and writing is retried once a second.
 */
final class Spool {
    private static final int BUFFER_BYTES = 1 << 20;
    private static final long PAUSE = TimeUnit.SECONDS.toNanos(1);

    private final Settings settings;
    private final Losses losses;
    private final Path folder;
    private final ByteArrayOutputStream buffer = new ByteArrayOutputStream();
    private long bufferedFrom;
    private long bufferedTo;
    private int bufferedLines;

    private RandomAccessFile file;
    private Path path;
    /** Of the newest file; never used again, even if that file was removed: the reader may have its position. */
    private long number;
    /** Bytes of whole lines in the file. */
    private long size;
    private long opened;
    /** Bytes of all files of this broker, measured whenever a file is begun. */
    private long used;
    /** Why nothing can be written; null if it can. */
    private String trouble;
    private long triedLast;

    Spool(Settings settings, Losses losses) {
        this.settings = settings;
        this.losses = losses;
        this.folder = settings.spool.resolve(settings.folder);
    }

    /** Keeps a line for the next {@link #flush}. */
    void append(Json line, long time) {
        if (bufferedLines == 0) {
            bufferedFrom = time;
        } else if (buffer.size() + line.size() > BUFFER_BYTES) {
            flush();
            bufferedFrom = time;
        }
        buffer.write(line.bytes(), 0, line.size());
        bufferedTo = time;
        bufferedLines++;
    }

    /** Writes the kept lines, or counts them as lost. */
    boolean flush() {
        if (bufferedLines == 0) {
            return trouble == null;
        }
        String before = trouble;
        if (before == null || System.nanoTime() - triedLast >= PAUSE) {
            trouble = write();
            triedLast = System.nanoTime();
        }
        if (trouble == null) {
            losses.written();
        } else {
            losses.notWritten();
            losses.add(trouble, bufferedFrom, bufferedTo, bufferedLines);
        }
        if (trouble != null && !trouble.equals(before)) {
            Log.say("telemetry is lost: " + trouble + " (" + settings.spool + ")");
        } else if (trouble == null && before != null) {
            Log.say("telemetry goes on: " + settings.spool + " can be written again");
        }
        buffer.reset();
        bufferedLines = 0;
        return trouble == null;
    }

    /** Closes the last file. */
    void close() {
        if (file != null) {
            try {
                file.close();
            } catch (IOException error) {
                Log.say("closing " + path + ": " + error);
            }
            file = null;
        }
    }

    private String write() {
        try {
            boolean spoiled = trouble != null && size > 0; // after any error a new file may succeed
            if (file == null || spoiled || !Files.exists(path)) {
                begin();
            }
            if (used + buffer.size() > settings.diskBytes) {
                makeRoom();
                if (used + buffer.size() > settings.diskBytes) {
                    return Losses.DISK_FULL;
                }
            }
            file.write(buffer.toByteArray());
            size += buffer.size();
            used += buffer.size();
            if (size >= settings.fileBytes || System.nanoTime() - opened >= settings.fileNanos) {
                close();
            }
            return null;
        } catch (IOException | RuntimeException error) {
            undo();
            String why = String.valueOf(error.getMessage());
            boolean full = why.contains("No space left") || why.contains("quota") || why.contains("not enough space");
            if (!full && trouble == null) {
                Log.say(error.toString());
            }
            return full ? Losses.DISK_FULL : Losses.SPOOL_FAILED;
        }
    }

    private void begin() throws IOException {
        close();
        Files.createDirectories(folder);
        do {
            number++;
        } while (Files.exists(folder.resolve(name())));
        path = Files.createFile(folder.resolve(name()));
        file = new RandomAccessFile(path.toFile(), "rw"); // a FileChannel would be closed by an interrupt
        size = 0;
        opened = System.nanoTime();
        measure();
    }

    private String name() {
        return String.format(Locale.ROOT, "%020d.jsonl", number); // other locales have other digits
    }

    /** Checks what the shipper has deleted; ends a non-empty file with an empty successor, so that it can go too. */
    private void makeRoom() throws IOException {
        if (size > 0) {
            begin();
        } else {
            measure();
        }
    }

    private void measure() throws IOException {
        used = 0;
        try (DirectoryStream<Path> incarnations = Files.newDirectoryStream(settings.spool, Files::isDirectory)) {
            for (Path one : incarnations) {
                if (one.getFileName().toString().startsWith(settings.folderPrefix)) {
                    measure(one);
                }
            }
        }
    }

    private void measure(Path incarnation) throws IOException {
        try (DirectoryStream<Path> files = Files.newDirectoryStream(incarnation)) {
            for (Path one : files) {
                used += one.toFile().length(); // 0 if it was deleted meanwhile
            }
        }
    }

    /** Cuts off a line that was written in part. */
    private void undo() {
        if (file != null) {
            try {
                file.setLength(size);
                file.seek(size);
            } catch (IOException error) {
                close();
            }
        }
    }
}
