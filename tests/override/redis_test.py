"""redis-server on loam: redis-benchmark, saves by fork during writes, a reload of the dump.

The server measures its data with malloc_usable_size and uses what it says; it frees large values on
threads; BGSAVE and BGREWRITEAOF fork while other clients write, so parent and child both go on
allocating. What is checked: every command of the benchmark is answered, a dump made under load is
sound, a dump of the settled data gives the same digest when loaded under loam and without it, and
memory that redis believes it uses returns to nothing after FLUSHALL.

Active defragmentation is left off: it calls jemalloc by its own names, and so is not for a server
whose malloc was replaced.
"""

import re
import signal
from subprocess import PIPE

import preload

DATA = r"""
local n = tonumber(ARGV[1])
for i = 1, n do
  redis.call('HSET', 'hash:' .. i % 500, 'f' .. i, string.rep('v', i % 300))
  redis.call('RPUSH', 'list:' .. i % 50, string.rep('e', i % 1000))
  redis.call('ZADD', 'zset:' .. i % 20, i * 7919 % 10007, 'member' .. i)
  redis.call('SADD', 'set:' .. i % 30, i)
  redis.call('XADD', 'stream:' .. i % 5, i .. '-1', 'field', i)
  redis.call('APPEND', 'string:' .. i % 100, string.rep('a', i % 200))
  redis.call('PFADD', 'hll:' .. i % 3, i)
  redis.call('SETRANGE', 'big:' .. i % 4, i * 50, 'x')
end
return n
"""


class Redis:
    """One server, in a folder of its own, and a client for it."""

    def __init__(self, bench, tools, name, preloaded=True, folder=None):
        self.bench, self.preloaded = bench, preloaded
        server, self.cli = tools
        self.folder = folder or bench.subfolder(name)
        self.port = preload.free_port()
        self.server = bench.serve(
            [
                server,
                "--port",
                self.port,
                "--bind",
                "127.0.0.1",
                "--dir",
                self.folder,
                "--daemonize",
                "no",
                "--save",
                "",
                "--appendonly",
                "no",
                "--enable-debug-command",
                "yes",
                "--lazyfree-lazy-user-del",
                "yes",
                "--lazyfree-lazy-expire",
                "yes",
            ],
            name="redis",
            preload=preloaded,
        )

        def ready():
            self.server.alive()
            return self("PING", expected=None) == "PONG"  # not: refused, or still loading the dump

        preload.wait_until(ready, "redis-server")
        bench.mapped_in(self.server.pid, preload=preloaded)

    def __call__(self, *words, expected=0):
        """A command's answer. redis-cli -e ends with another status than 0 on an error."""
        argv = [self.cli, "-e", "-p", self.port, *words]
        return self.bench.run(argv, preload=self.preloaded, status=expected).out.decode().strip()

    def info(self, *fields):
        """Fields of one INFO, as it prints them."""
        text = self("INFO", "everything")
        found = [re.search(rf"^{field}:(.*?)\r?$", text, re.MULTILINE) for field in fields]
        preload.expect(all(found), f"INFO lacks some of {fields}")
        return [match[1] for match in found]

    def save(self, command):
        """Saves by a forked child; returns how many writes the parent did meanwhile, at least."""
        in_progress, status = {
            "BGSAVE": ("rdb_bgsave_in_progress", "rdb_last_bgsave_status"),
            "BGREWRITEAOF": ("aof_rewrite_in_progress", "aof_last_bgrewrite_status"),
        }[command]
        self(command)
        changes = []

        def saved():
            running, changed = self.info(in_progress, "rdb_changes_since_last_save")
            if running != "0":
                changes.append(int(changed))
            return running == "0"

        preload.wait_until(saved, f"the end of {command}", 30)
        preload.expect(
            self.info(status) == ["ok"], f"{command} failed:\n{preload.tail(self.server.logged())}"
        )
        return changes[-1] - changes[0] if changes else 0

    def stop(self):
        self.server.stop(signal.SIGTERM)
        log = self.server.logged()
        preload.expect(
            b"REDIS BUG REPORT" not in log and b"crashed" not in log, preload.tail(log, 60)
        )


def test(bench):
    server, cli, benchmark, check = bench.need(
        "redis-server", "redis-cli", "redis-benchmark", "redis-check-rdb"
    )
    redis = Redis(bench, (server, cli), "loam")

    # Every kind of value, and the benchmark's own, by 20 clients.
    preload.expect(redis("--raw", "EVAL", DATA, "0", "30000") == "30000", "the script did not end")
    load = [benchmark, "-p", redis.port, "-c", 20, "-r", 5000, "-d", 700, "-P", 4, "--csv"]
    bench.run(
        [*load, "-n", 20000, "-t", "set,get,incr,lpush,rpush,lpop,sadd,hset,spop,zadd,zpopmin,mset"]
    )

    # Saves by fork while the same keys are being written.
    redis("CONFIG", "SET", "rdb-key-save-delay", "50")  # us: the child takes its time
    for command in ("BGSAVE", "BGREWRITEAOF", "BGSAVE"):
        argv = [*load, "-n", 40000, "-t", "set,hset,lpush,set,hset"]
        writer = bench.start(argv, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        written = redis.save(command)
        bench.finish(writer, argv)
        preload.expect(written > 1000, f"only {written} writes during {command}")
        if command == "BGSAVE":
            bench.run([check, redis.folder / "dump.rdb"])
    redis("CONFIG", "SET", "rdb-key-save-delay", "0")
    redis("UNLINK", *(f"big:{i}" for i in range(4)))

    # The settled data, reloaded in place, by a new server on loam, and by one without.
    size, digest = redis("DBSIZE"), redis("DEBUG", "DIGEST")
    preload.expect(int(size) > 5000 and int(digest, 16), f"{size} keys, digest {digest}")
    redis("DEBUG", "RELOAD")
    preload.expect(
        (redis("DBSIZE"), redis("DEBUG", "DIGEST")) == (size, digest), "a reload changed the data"
    )
    redis.save("BGSAVE")
    for preloaded in (True, False):
        again = Redis(bench, (server, cli), f"again.{preloaded}", preloaded, redis.folder)
        found = again("DBSIZE"), again("DEBUG", "DIGEST")
        again.stop()
        preload.expect(
            found == (size, digest), f"dumped {(size, digest)}, loaded {found}, preload {preloaded}"
        )

    # redis counts what malloc_usable_size says, block by block.
    redis("FLUSHALL", "SYNC")
    used = int(redis.info("used_memory")[0])
    preload.expect(0 < used < 20 << 20, f"{used} bytes used by an empty server")
    redis.stop()

    bench.answers([server, "--version"], ["redis-server"])


preload.main(test)
