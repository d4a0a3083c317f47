"""Servers and stress tools for apps.py, on loopback or a socket in the test's own folder."""

import socket

import preload

SQL = """
CREATE DATABASE work; USE work;
CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(90), weight DOUBLE, KEY (name));
INSERT INTO item (name, weight) SELECT REPEAT(CHAR(97 + seq % 26), 1 + seq % 80), seq / 7
  FROM seq_1_to_20000;
SELECT name, COUNT(*), ROUND(SUM(weight), 3) FROM item GROUP BY name ORDER BY name LIMIT 40;
UPDATE item SET weight = weight * 2 WHERE id % 3 = 0; DELETE FROM item WHERE id % 5 = 0;
ALTER TABLE item ADD COLUMN twice DOUBLE AS (weight * 2) PERSISTENT;
SELECT ROUND(SUM(twice), 3), COUNT(DISTINCT name) FROM item;
SELECT a.id, b.id FROM item a JOIN item b ON a.name = b.name AND a.id < b.id ORDER BY 1, 2 LIMIT 20;
SELECT JSON_LENGTH(JSON_ARRAYAGG(name)) FROM (SELECT name FROM item LIMIT 200) AS few;
"""


def mariadb(work):
    """a MariaDB server: bootstrap, 20,000 rows, joins, an altered table, eight clients at once"""
    install, server, client = work.need("mariadb-install-db", "mariadbd", "mariadb")
    bench, outputs = work.bench, []
    bench.folder.chmod(0o755)
    for loaded in (False, True):
        data = bench.subfolder(f"data.{loaded}", bench.rootless)
        bench.run(
            [
                install,
                "--no-defaults",
                f"--datadir={data}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
            ],
            preload=loaded,
            user=bench.rootless,
            env={"TMPDIR": data, "HOME": data},
        )
        path = data / "s"
        running = bench.serve(
            [
                server,
                "--no-defaults",
                f"--datadir={data}",
                f"--socket={path}",
                "--skip-networking",
                "--innodb-buffer-pool-size=64M",
                f"--pid-file={data}/pid",
            ],
            name=f"mariadbd.{loaded}",
            preload=loaded,
            user=bench.rootless,
            env={"TMPDIR": data, "HOME": data},
        )
        preload.wait_until(lambda: running.alive() or path.exists(), "MariaDB's socket", 60)
        bench.mapped_in(running.pid, user=bench.rootless, preload=loaded)
        ask = [client, "--no-defaults", f"--socket={path}", "-uroot", "--batch"]
        text = bench.run(ask, preload=loaded, stdin=SQL.encode()).out
        clients = [
            bench.start(
                [
                    *ask,
                    "work",
                    "-e",
                    f"SELECT COUNT(*) FROM item a JOIN item b USING (name) "
                    f"WHERE a.id % 8 = {n}",
                ],
                preload=loaded,
                stdout=-1,
                stderr=-1,
            )
            for n in range(8)
        ]
        for n, one in enumerate(clients):
            text += bench.finish(one, ["client", n], preload=loaded, stdin=None).out
        outputs.append(text)
        running.stop(seconds=60)
    preload.expect(outputs[0], "MariaDB answered nothing")
    bench.same(outputs[0], outputs[1], "answers")
    return work.version([server, "--version"])


def memcached(work):
    """memcached with four threads: 20,000 values set, read, replaced and flushed"""
    server = work.need("memcached")
    bench = work.bench
    for loaded in (False, True):
        port = preload.free_port()
        arguments = ["-u", bench.rootless] if bench.rootless else []
        running = bench.serve(
            [server, "-l", "127.0.0.1", "-p", port, "-t", 4, "-m", 64, *arguments],
            name=f"memcached.{loaded}",
            preload=loaded,
        )
        preload.wait_until(lambda: running.alive() or preload.answers_on(port), "memcached")
        bench.mapped_in(running.pid, preload=loaded)
        links = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        files = [link.makefile("rwb") for link in links]
        for i in range(20_000):
            stream, value = files[i % 4], bytes([97 + i % 26]) * (i % 900)
            stream.write(b"set k%d 0 0 %d\r\n%s\r\n" % (i, len(value), value))
            stream.flush()
            preload.expect(stream.readline() == b"STORED\r\n", f"value {i} is not stored")
        for i in range(0, 20_000, 7):
            stream, value = files[(i + 1) % 4], bytes([97 + i % 26]) * (i % 900)
            stream.write(b"get k%d\r\n" % i)
            stream.flush()
            preload.expect(
                stream.readline() == b"VALUE k%d 0 %d\r\n" % (i, len(value))
                and stream.read(len(value) + 2) == value + b"\r\n"
                and stream.readline() == b"END\r\n",
                f"value {i} comes back changed",
            )
        for link, stream in zip(links, files):
            stream.close()
            link.close()
        running.stop()
    return work.version([server, "--version"])


def stress_ng(work):
    """stress-ng: stressors of malloc, fork, vfork, clone, threads and mremap, verified"""
    tool = work.need("stress-ng")
    words = ["--verify", "--temp-path", ".", "--oomable", "--timeout", "60"]
    for name, ops in (
        ("malloc", 20_000),
        ("fork", 300),
        ("vfork", 300),
        ("clone", 300),
        ("pthread", 300),
        ("bigheap", 2_000),
        ("mremap", 30),
        ("tree", 3),
        ("hsearch", 5),
        ("qsort", 3),
        ("zlib", 3),
        ("str", 200),
        ("malloc-trim", 0),
    ):
        if ops:
            words += [f"--{name}", "1", f"--{name}-ops", str(ops)]
    work.twice(
        [tool, *words],
        inside="stress-ng",
        output=False,
        status=0,
        mistake=("overflow", rb"loam: overflow of .* past 0 requested"),
    )
    return work.version([tool, "--version"])


APPS = {
    "mariadb": (["mariadb-server"], mariadb),
    "memcached": (["memcached"], memcached),
    "stress-ng": (["stress-ng"], stress_ng),
}
