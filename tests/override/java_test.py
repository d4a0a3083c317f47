"""java on loam: the compiler, then a program with threads, buffers, compression and much garbage.

javac runs with and without the preload and must write equal class files; the program then runs on
two kinds of heap of the virtual machine, and must print what it prints without the preload. Java's
own objects lie in memory that the machine maps itself; what comes from malloc is the machine:
class data, compilers on their threads, the collector's tables, direct buffers, zlib.
"""

import preload

PROGRAM = r"""
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Work {
    interface Shape { double area(); }
    record Circle(double r) implements Shape { public double area() { return Math.PI * r * r; } }
    record Box(double a, double b) implements Shape { public double area() { return a * b; } }

    static long churn(int seed) {
        Random random = new Random(seed);
        byte[][] live = new byte[2000][];
        long sum = 0;
        for (int i = 0; i < 150_000; i++) {
            int at = random.nextInt(live.length);
            if (live[at] != null) sum += live[at].length + live[at][0];
            live[at] = new byte[1 + random.nextInt(i % 100 == 0 ? 20_000 : 400)];
            live[at][0] = (byte) i;
        }
        return sum;
    }

    static long direct(int seed) {
        Random random = new Random(seed);
        ArrayDeque<ByteBuffer> live = new ArrayDeque<>();
        long sum = 0;
        for (int i = 0; i < 3000; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(8 + random.nextInt(20_000));
            for (int k = 0; k + 8 <= buffer.capacity(); k += 512) sum += buffer.getLong(k); // zero
            buffer.putLong(0, i);
            live.add(buffer);
            if (live.size() > 200) sum += live.remove().getLong(0);
        }
        return sum;
    }

    static long squeeze(byte[] text) throws Exception {
        CRC32 crc = new CRC32();
        for (int level = 1; level <= 9; level += 2) {
            Deflater deflater = new Deflater(level);
            deflater.setInput(text); deflater.finish();
            byte[] packed = new byte[text.length + 100];
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            byte[] back = new byte[text.length];
            inflater.inflate(back);
            inflater.end();
            if (!Arrays.equals(text, back)) throw new Exception("inflate");
            crc.update(back);
        }
        return crc.getValue();
    }

    public static void main(String[] args) throws Exception {
        Files.write(Path.of(System.getenv("MAPS_COPY")),
                    Files.readAllBytes(Path.of("/proc/self/maps")));

        // Daemons: if something is thrown here, the program ends.
        ExecutorService pool = Executors.newFixedThreadPool(4, work -> {
            Thread thread = new Thread(work);
            thread.setDaemon(true);
            return thread;
        });
        List<Future<Long>> results = new ArrayList<>();
        for (int i = 0; i < 8; i++) { int seed = i; results.add(pool.submit(() -> churn(seed))); }
        for (int i = 0; i < 4; i++) { int seed = i; results.add(pool.submit(() -> direct(seed))); }
        byte[] text = IntStream.range(0, 40_000).mapToObj(i -> "line " + i * 7919 % 10007)
            .collect(Collectors.joining("\n")).getBytes(StandardCharsets.UTF_8);
        for (int i = 0; i < 4; i++) results.add(pool.submit(() -> squeeze(text)));
        for (Future<Long> result : results) System.out.println(result.get());
        pool.shutdown();
        if (!pool.awaitTermination(20, TimeUnit.SECONDS)) throw new Exception("pool");

        // Threads come and go; each leaves its C-side memory behind for others.
        ConcurrentHashMap<Integer, String> map = new ConcurrentHashMap<>();
        for (int round = 0; round < 50; round++) {
            Thread[] threads = new Thread[20];
            for (int i = 0; i < threads.length; i++) {
                int key = round * 20 + i;
                threads[i] = new Thread(() -> { map.put(key, "v".repeat(key % 50));
                    ByteBuffer.allocateDirect(100 + key); });
                threads[i].start();
            }
            for (Thread thread : threads) thread.join();
            if (round % 10 == 9) System.gc();
        }
        System.out.println(map.size() + " " + map.values().stream().mapToInt(String::length).sum());

        Map<Boolean, Double> shapes = IntStream.range(0, 200_000).parallel()
            .mapToObj(i -> (Shape) (i % 2 == 0 ? new Circle(i % 10) : new Box(i % 7, i % 3)))
            .collect(Collectors.partitioningBy(s -> s instanceof Circle,
                                               Collectors.summingDouble(s -> Math.rint(s.area()))));
        System.out.println(shapes);

        // Classes made at run time, and reflection.
        for (int i = 0; i < 200; i++) {
            int n = i;
            Comparator<?> proxy = (Comparator<?>)
                java.lang.reflect.Proxy.newProxyInstance(new ClassLoader() {},
                new Class<?>[] { Comparator.class }, (p, m, a) -> n);
            if (((Comparator<Object>) proxy).compare(1, 2) != n) throw new Exception("proxy");
        }
        System.out.println("end");
    }
}
"""

# Direct buffers go when the collector comes to them: by default as many bytes are allowed as of
# heap, and a machine with other work may be late with 120 MiB of them.
DIRECT = "-XX:MaxDirectMemorySize=512m"

HEAPS = (
    ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
    ["-XX:+UseG1GC", "-XX:NativeMemoryTracking=summary"],
)


def test(bench):
    java, javac = bench.need("java", "javac")
    classes = {}
    for preloaded, name in ((False, "plain"), (True, "loam")):
        folder = bench.subfolder(name)
        (folder / "Work.java").write_text(PROGRAM)
        bench.run(
            [javac, "-Xlint:-unchecked", "-nowarn", "-g", "Work.java"],
            preload=preloaded,
            cwd=folder,
        )
        classes[name] = {path.name: path.read_bytes() for path in folder.glob("*.class")}
    preload.expect(len(classes["plain"]) >= 4, f"class files: {sorted(classes['plain'])}")
    preload.expect(
        classes["plain"] == classes["loam"], "javac writes other class files under the preload"
    )
    for options in HEAPS:
        out = bench.twice(
            [java, "-Xmx96m", DIRECT, *options, "Work"], options[0], cwd=bench.path("loam")
        )
        preload.expect(out.endswith(b"end\n"), "the program did not reach its end")
    bench.answers([java, "-Xmx32m", "-version"], ["libjvm.so", "libjli.so"])


preload.main(test)
