"""The sqlite3 shell on loam: queries, indexes, triggers, full text, JSON, a vacuum, a dump.

One script is run with and without the preload, each on a database file of its own. What is printed
must be equal, the content's SHA3 too, and each file pass the integrity check of a shell that has
no preload. The database written under loam is read again under the C library's malloc.
"""

import preload

SCRIPT = r"""
.bail on
.shell cat /proc/$PPID/maps > "$MAPS_COPY"
PRAGMA journal_mode = wal;
PRAGMA cache_size = -4000;
PRAGMA temp_store = memory;
CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT NOT NULL, city INTEGER, born INTEGER,
  note BLOB);
CREATE TABLE log(id INTEGER PRIMARY KEY, person INTEGER, what TEXT);
CREATE TRIGGER renamed AFTER UPDATE OF name ON person BEGIN
  INSERT INTO log(person, what) VALUES (new.id, old.name || ' is now ' || new.name);
END;
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120000)
INSERT INTO person
SELECT i, printf('name %06d', i * 48271 % 120011), i * 7919 % 97, 1900 + i % 120,
  zeroblob(i % 700) FROM n;
COMMIT;
CREATE INDEX person_name ON person(name);
CREATE INDEX person_city ON person(city, born DESC) WHERE born > 1950;
SELECT count(*), sum(length(note)), min(name), max(name) FROM person;
SELECT city, count(*), avg(born), group_concat(id % 10, '') FROM person
WHERE id < 5000 GROUP BY city ORDER BY 2 DESC, 1 LIMIT 10;
UPDATE person SET name = upper(name) WHERE id % 11 = 0;
DELETE FROM person WHERE id % 5 = 0;
SELECT count(*), max(length(what)) FROM log;
SELECT count(*) FROM person a JOIN person b ON b.name = a.name AND b.id <> a.id;
SELECT count(*), sum(born) FROM (SELECT born,
  row_number() OVER (PARTITION BY city ORDER BY born, id) AS r,
  lag(name, 3) OVER (PARTITION BY city ORDER BY id) AS l
  FROM person) WHERE r % 17 = 1 AND l IS NOT NULL;
SELECT sum(length(name)) FROM (SELECT DISTINCT name FROM person ORDER BY note, name DESC);
WITH RECURSIVE
  x(v) AS (VALUES(-2.0) UNION ALL SELECT v + 0.06 FROM x WHERE v < 1.0),
  y(v) AS (VALUES(-1.0) UNION ALL SELECT v + 0.12 FROM y WHERE v < 1.0),
  m(n, cx, cy, a, b) AS (SELECT 0, x.v, y.v, 0.0, 0.0 FROM x, y
    UNION ALL SELECT n + 1, cx, cy, a * a - b * b + cx, 2.0 * a * b + cy
    FROM m WHERE a * a + b * b < 4.0 AND n < 28),
  most(n, cx, cy) AS (SELECT max(n), cx, cy FROM m GROUP BY cx, cy)
SELECT group_concat(substr(' .+*#', 1 + min(n / 7, 4), 1), '') FROM most GROUP BY cy;
CREATE VIRTUAL TABLE words USING fts5(body);
INSERT INTO words SELECT 'the ' || name || ' of city ' || city || ' wrote ' || hex(id * 7919)
  FROM person WHERE id % 4 = 1;
INSERT INTO words(words) VALUES('optimize');
SELECT count(*), min(rowid) FROM words WHERE words MATCH 'city NEAR 42 OR name AND wrote';
SELECT sum(json_extract(j, '$.list[3]')), sum(json_array_length(j, '$.list'))
FROM (SELECT json_object('id', id, 'name', name, 'list', json_array(id, born, city, id % 9)) AS j
  FROM person WHERE id < 40000);
SELECT length(group_concat(value)) FROM json_each((SELECT json_group_array(name) FROM person));
BEGIN; DELETE FROM person; DROP TABLE log; ROLLBACK;
SAVEPOINT s; UPDATE person SET note = randomblob(50); ROLLBACK TO s; RELEASE s;
VACUUM;
REINDEX;
ANALYZE;
PRAGMA integrity_check;
PRAGMA wal_checkpoint(truncate);
PRAGMA shrink_memory;
.sha3sum
.output dump.sql
.dump person
.output stdout
.shell cksum < dump.sql
.backup copy.db
.print end
"""


def test(bench):
    sqlite3 = bench.need("sqlite3")
    script = bench.write("script.sql", SCRIPT)
    outputs = []
    for preloaded, name in ((False, "plain"), (True, "loam")):
        folder = bench.subfolder(name)
        outputs.append(
            bench.run(
                [sqlite3, "work.db", f".read {script}"],
                preload=preloaded,
                cwd=folder,
                env={"MAPS_COPY": bench.path(f"maps.{name}")},
            ).out
        )
        bench.mapped(f"maps.{name}", preloaded)
        for database in ("work.db", "copy.db"):
            check = bench.run(
                [sqlite3, database, "PRAGMA integrity_check; SELECT count(*) FROM person;"],
                preload=False,
                cwd=folder,
            ).out
            preload.expect(check == b"ok\n96000\n", f"{name}/{database}: {check.decode()}")
    bench.same(outputs[0], outputs[1], "what the script prints")
    preload.expect(outputs[1].endswith(b"end\n"), "the script did not reach its end")
    bench.answers([sqlite3, ":memory:", "SELECT 1"], ["sqlite3", "libsqlite3.so.0"])


preload.main(test)
