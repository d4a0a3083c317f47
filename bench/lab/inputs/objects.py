"""python3's share of the demo: objects, dicts, lists, strings and JSON.

The interpreter runs with PYTHONMALLOC=malloc, so every small object is a call
of malloc. The argument is the number of records. Prints only checksums, which
do not depend on addresses or on the hash seed (set to 0 by the caller).
"""

import json
import sys
import zlib


class Record:
    def __init__(self, number, words):
        self.number = number
        self.name = f"{words[number % len(words)]}-{number:x}"
        self.tags = [words[(number * k) % len(words)] for k in (3, 5, 7)]
        self.price = number * 1.25


def make_words(count):
    return [chr(97 + i % 26) * (1 + i % 7) + str(i * i) for i in range(count)]


def by_tag(records):
    groups = {}
    for record in records:
        for tag in record.tags:
            groups.setdefault(tag, []).append(record)
    return groups


def through_json(records):
    text = json.dumps(
        [{"n": r.number, "name": r.name, "tags": r.tags, "price": r.price} for r in records]
    )
    return text, json.loads(text)


def count_words(text):
    counts = {}
    for word in text.replace('"', " ").replace(",", " ").split():
        counts[word] = counts.get(word, 0) + 1
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def churn(records, turns):
    window = {}
    total = 0
    for turn in range(turns):
        record = records[(turn * 7919) % len(records)]
        window[turn] = (record.name.upper(), [turn] * (turn % 23), {"turn": turn})
        if turn >= 5000:
            name, numbers, _ = window.pop(turn - 5000)
            total += len(name) + len(numbers)
    return total


def main():
    size = int(sys.argv[1])
    words = make_words(997)
    records = [Record(number, words) for number in range(size)]
    groups = by_tag(records)
    print(len(groups), sum(len(group) for group in groups.values()))
    text, back = through_json(records)
    print(len(text), zlib.crc32(text.encode()), back[-1]["name"])
    print(count_words(text)[:5])
    del groups, back
    print(churn(records, 4 * size))
    joined = "\n".join(sorted(r.name[::-1] for r in records))
    print(zlib.crc32(joined.encode()))


main()
