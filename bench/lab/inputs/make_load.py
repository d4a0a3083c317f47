"""Writes the commands that fill redis before redis-benchmark runs.

write(path, count) makes `count` commands over strings, lists, hashes, sets and
sorted sets, with values from a few bytes to some hundreds. The text depends on
`count` alone, so the digest of what the server holds at the end does too.
"""


def command(number):
    key = (number * 7919) % 30011
    value = f"{number:x}" * (1 + number % 29)
    kind = number % 8
    if kind < 3:
        return f"SET s:{key} {value}"
    if kind == 3:
        return f"APPEND s:{key} {number}"
    if kind == 4:
        return f"RPUSH l:{key % 997} {value}"
    if kind == 5:
        return f"HSET h:{key % 499} f{number % 211} {value}"
    if kind == 6:
        return f"SADD m:{key % 251} {value[:12]}"
    return f"ZADD z:{key % 127} {number % 4093} {value[:16]}"


def write(path, count):
    with open(path, "w", encoding="ascii", newline="") as file:
        for number in range(count):
            file.write(command(number) + "\r\n")
