-- sqlite3's share of the demo: an in-memory database with two tables, four
-- indexes, joins, group by, window functions, text and json work, updates and
-- deletes. @SIZE@ is replaced by the number of orders. It prints only sums and
-- small result sets, so that the output is the same in every run.
PRAGMA temp_store = MEMORY;
PRAGMA cache_size = -200000;

CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, note TEXT);
CREATE TABLE orders (
    id INTEGER PRIMARY KEY,
    customer INTEGER,
    day INTEGER,
    item TEXT,
    cents INTEGER,
    remark TEXT
);

BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < @SIZE@ / 10)
INSERT INTO customers
SELECT i,
       printf('customer %06d', (i * 7919) % 1000003),
       'city ' || ((i * 31) % 997),
       substr('the quick brown fox jumps over the lazy dog and runs away', 1, 5 + i % 50)
FROM n;

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < @SIZE@)
INSERT INTO orders
SELECT i,
       1 + (i * 104729) % (@SIZE@ / 10),
       (i * 17) % 365,
       printf('item-%x', (i * 2654435761) % 9973),
       (i * 7907) % 100000,
       CASE i % 4 WHEN 0 THEN NULL ELSE printf('%.*c', i % 40, 'r') END
FROM n;
COMMIT;

CREATE INDEX orders_by_customer ON orders (customer, day);
CREATE INDEX orders_by_item ON orders (item);
CREATE INDEX orders_by_day ON orders (day, cents);
CREATE INDEX customers_by_city ON customers (city, name);
ANALYZE;

SELECT city, count(*), sum(cents)
FROM orders JOIN customers ON customers.id = orders.customer
GROUP BY city ORDER BY 3 DESC, 1 LIMIT 10;

SELECT item, count(DISTINCT customer), max(day), group_concat(cents % 10, '')
FROM orders GROUP BY item HAVING count(*) > 2 ORDER BY 2 DESC, 1 LIMIT 10;

SELECT sum(length(line)) FROM (
    SELECT json_object('id', id, 'item', item, 'cents', cents, 'remark', remark) AS line
    FROM orders
);

SELECT sum(running % 1000) FROM (
    SELECT sum(cents) OVER (PARTITION BY customer ORDER BY day, id) AS running FROM orders
);

SELECT count(*), sum(a.cents - b.cents)
FROM orders a JOIN orders b ON b.customer = a.customer AND b.day BETWEEN a.day + 1 AND a.day + 60;

SELECT count(*) FROM (
    SELECT upper(name) || ' ' || replace(note, 'o', '00') AS x FROM customers
    UNION SELECT item || ' ' || coalesce(remark, '-') FROM orders
);

BEGIN;
UPDATE orders SET remark = coalesce(remark, '') || ' paid ' || cents WHERE day < 60;
DELETE FROM orders WHERE day BETWEEN 200 AND 260;
COMMIT;
DROP INDEX orders_by_item;

SELECT count(*), sum(length(remark)), min(item), max(item) FROM orders;
PRAGMA integrity_check;
