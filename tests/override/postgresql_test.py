"""PostgreSQL on loam: initdb, pgbench by four clients, parallel queries, dumps, a clean end.

One process a connection, forked from a large parent; contexts of many blocks on malloc; parallel
workers; C++ and LLVM where compiling of expressions is installed. PostgreSQL refuses root, so the
cluster then belongs to an unprivileged user. What is checked: pgbench's own invariant (all balances
agree with the history), queries' results on a server without the preload and on one with, that a
dump made with the preload equals one made without, and the checksums of every page at the end.
"""

import glob
import os
import re
import signal
from subprocess import DEVNULL, PIPE

import preload

# Answers that do not depend on what pgbench did by chance.
QUERIES = r"""
\set ON_ERROR_STOP on
\pset format unaligned
SET work_mem = '1MB';
CREATE TABLE IF NOT EXISTS t AS
  SELECT i, md5(i::text) AS m, i * 7919 % 10007 AS k,
         ('{"a": ' || i || ', "b": [1, 2, ' || i % 10 || ']}')::jsonb AS j,
         repeat('text ' || i % 13, i % 50) AS x, array[i % 5, i % 7] AS a
  FROM generate_series(1, 60000) i;
CREATE INDEX IF NOT EXISTS t_m ON t(m); CREATE INDEX IF NOT EXISTS t_j ON t USING gin(j);
ANALYZE t;
SELECT count(*), sum(length(x)), min(m), max(m) FROM t;
SELECT k % 10 AS d, count(*), string_agg(substr(m, 1, 1), '' ORDER BY i) FILTER (WHERE i < 300)
  FROM t GROUP BY 1 ORDER BY 1;
SELECT sum(r), max(s) FROM (SELECT rank() OVER (PARTITION BY k % 100 ORDER BY m) r,
                                   sum(k) OVER (ORDER BY i ROWS 100 PRECEDING) s FROM t) w;
SELECT count(*) FROM t a JOIN t b ON a.k = b.k JOIN t c ON c.i = b.i WHERE a.i < 20000;
SELECT count(*) FROM t WHERE j @> '{"b": [7]}';
SELECT sum(length(y)) FROM (SELECT DISTINCT x || m AS y FROM t ORDER BY 1 DESC LIMIT 20000) d;
WITH RECURSIVE f(n, a, b) AS (SELECT 1, 0::numeric, 1::numeric
    UNION ALL SELECT n + 1, b, a + b FROM f WHERE n < 2000)
SELECT md5(string_agg(b::text, ',')) FROM f;
SET max_parallel_workers_per_gather = 2; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT count(*), sum(k), avg(length(x))::numeric(10, 4) FROM t WHERE m LIKE '%a%';
SELECT k, count(*) FROM t GROUP BY k HAVING count(*) = 5 ORDER BY k;
SET jit_above_cost = 0; SET jit_inline_above_cost = 0; SET jit_optimize_above_cost = 0;
SELECT sum(k * i % 17 + length(m)), count(*) FROM t WHERE i % 3 = 1 AND k + i > 500;
DO $$ DECLARE n int := 0; s text := ''; r record; BEGIN
  FOR r IN SELECT m FROM t ORDER BY i LIMIT 3000 LOOP
    s := s || substr(r.m, 1, 3); n := n + 1;
    BEGIN IF n % 10 = 0 THEN RAISE EXCEPTION 'expected'; END IF;
    EXCEPTION WHEN OTHERS THEN n := n; END;
  END LOOP;
  PERFORM set_config('work.done', n || ' ' || md5(s), false); END $$;
SELECT current_setting('work.done');
"""

INVARIANT = (
    "SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(tbalance) FROM "
    "pgbench_tellers) AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM "
    "pgbench_branches) AND (SELECT sum(bbalance) FROM pgbench_branches) = (SELECT sum(delta) FROM "
    "pgbench_history), (SELECT count(*) FROM pgbench_history)"
)

CLIENTS, TRANSACTIONS = 4, 200


class Cluster:
    """The programs of one installed version, and the data folder that they work on."""

    def __init__(self, bench, programs):
        self.bench, self.programs, self.user = bench, programs, bench.rootless
        self.home = bench.subfolder("pg", self.user)
        self.data = self.home / "data"
        self.port = preload.free_port()
        self.server = None

    def run(self, program, *words, preloaded=True):
        place = {
            "PGHOST": "127.0.0.1",
            "PGPORT": self.port,
            "PGDATABASE": "postgres",
            "PGUSER": "tester",
        }
        return self.bench.run(
            [self.programs[program], *words],
            preload=preloaded,
            user=self.user,
            cwd=self.home,
            env={**place, "HOME": self.home, "TMPDIR": self.home},
        ).out

    def psql(self):
        return [
            self.programs["psql"],
            "-X",
            "-A",
            "-t",
            "-h",
            "127.0.0.1",
            "-p",
            self.port,
            "-U",
            "tester",
            "postgres",
        ]

    def query(self, text, preloaded=True):
        return (
            self.run("psql", "-X", "-A", "-t", "-q", "-c", text, preloaded=preloaded)
            .decode()
            .strip()
        )

    def start(self, preloaded):
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            "fsync": "off",
            "max_connections": "20",
            "shared_buffers": "32MB",
            "logging_collector": "off",
            "log_checkpoints": "off",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        self.server = self.bench.serve(
            [self.programs["postgres"], "-D", self.data, "-p", self.port, *options],
            name="postgres",
            user=self.user,
            preload=preloaded,
            stop_signal=signal.SIGINT,
        )

        def ready():
            self.server.alive()
            return b"ready to accept connections" in self.server.logged() and preload.answers_on(
                self.port
            )

        preload.wait_until(ready, "PostgreSQL", 30)
        self.bench.mapped_in(self.server.pid, self.user, preloaded)
        looked_at = 0
        for pid in preload.descendants(self.server.pid):
            try:
                self.bench.mapped_in(pid, self.user, preloaded)
                looked_at += 1
            except (FileNotFoundError, ProcessLookupError):
                pass  # one that starts the server up, or vacuums, ends when it is done
        preload.expect(
            looked_at >= 2, f"only {looked_at} of the server's processes could be looked at"
        )

    def backend_mapped(self, preloaded):
        """Looks at a backend from outside while it is busy."""
        argv = [*self.psql(), "-c", "SELECT pg_backend_pid()", "-c", "SELECT pg_sleep(1)"]
        client = self.bench.start(
            argv,
            user=self.user,
            preload=preloaded,
            cwd=self.home,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=PIPE,
        )
        backend = int(client.stdout.readline())
        preload.expect(
            backend in preload.descendants(self.server.pid), f"{backend} is no child of the server"
        )
        self.bench.mapped_in(backend, self.user, preloaded)
        self.bench.finish(client, argv, preload=preloaded)

    def stop(self):
        self.server.stop(seconds=30)
        for line in self.server.logged().decode("utf-8", "replace").splitlines():
            bad = any(
                word in line
                for word in ("terminated by signal", "PANIC:", "FATAL:", "ERROR:", "WARNING:")
            )
            # A vacuum of the server's own, or a client about to leave, may be there at the end.
            preload.expect(not bad or "due to administrator command" in line, line)


def installed(bench):
    """The programs of the newest PostgreSQL. Debian keeps them out of the search path."""
    names = ("initdb", "postgres", "pgbench", "psql", "pg_dump", "pg_checksums")
    version = {
        path: int(path.split("/")[-2]) for path in glob.glob("/usr/lib/postgresql/[0-9]*/bin")
    }
    for folder in sorted(version, key=version.get, reverse=True):
        found = {name: f"{folder}/{name}" for name in names}
        if all(os.access(path, os.X_OK) for path in found.values()):
            return found
    return dict(zip(names, bench.need(*names)))


def without_key(dump):
    """A dump without the word, random each time, that locks psql against commands in the data."""
    return re.sub(rb"(?m)^\\(un)?restrict .*$", b"", dump)


def test(bench):
    cluster = Cluster(bench, installed(bench))
    cluster.run(
        "initdb",
        "-D",
        cluster.data,
        "-U",
        "tester",
        "-A",
        "trust",
        "-k",
        "-E",
        "UTF8",
        "--no-locale",
        "-N",
    )

    # On loam: the benchmark, and queries.
    cluster.start(True)
    cluster.backend_mapped(True)
    cluster.run("pgbench", "-i", "-q", "-s", "3")
    cluster.run("pgbench", "-c", CLIENTS, "-j", 2, "-t", TRANSACTIONS, "-M", "prepared")
    cluster.run(
        "pgbench", "-c", CLIENTS, "-j", 2, "-t", TRANSACTIONS // 4, "-C", "-S", "-n"
    )  # a process a transaction
    preload.expect(
        cluster.query(INVARIANT) == f"t|{CLIENTS * TRANSACTIONS}",
        f"balances: {cluster.query(INVARIANT)}",
    )
    script = bench.write("queries.sql", QUERIES)
    loam = cluster.run("psql", "-X", "-q", "-f", script)
    preload.expect(loam.count(b"\n") > 50, "the queries answer less than intended")
    cluster.query("VACUUM ANALYZE")
    plain, dump = (cluster.run("pg_dump", preloaded=preloaded) for preloaded in (False, True))
    bench.same(without_key(plain), without_key(dump), "the dump")
    bench.answers(
        [*cluster.psql(), "-c", "SELECT 1"],
        ["psql", "libpq.so.5"],
        user=cluster.user,
        cwd=cluster.home,
    )
    cluster.stop()

    # The same data without it.
    cluster.run("pg_checksums", "--check", "-D", cluster.data)
    cluster.start(False)
    bench.same(
        cluster.run("psql", "-X", "-q", "-f", script, preloaded=False),
        loam,
        "what the queries answer",
    )
    preload.expect(
        cluster.query(INVARIANT, False) == f"t|{CLIENTS * TRANSACTIONS}",
        "balances changed by a restart",
    )
    cluster.stop()
    bench.answers(
        [cluster.programs["postgres"], "--describe-config"],
        ["postgres"],
        user=cluster.user,
        cwd=cluster.home,
    )


preload.main(test)
