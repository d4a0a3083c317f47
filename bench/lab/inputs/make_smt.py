"""Writes the problems that z3 solves in the lab.

write(path, count) makes one SMT-LIB file of `count` problems, each with numbers of its own:
integers in an array and under an uninterpreted function, with orders and sums between them (arrays,
congruence and linear arithmetic: terms and clauses come and go by the hundred thousand). z3 cuts
small objects from chunks of its own, so bit-vectors or quantifiers would hardly call malloc: under
2% of the time, measured; with these it is about 10%. The text depends on `count` alone, and z3's
seeds are set in it.
"""

INTEGERS, CONDITIONS = 100, 330


class Numbers:
    def __init__(self, seed):
        self.state = seed

    def below(self, bound):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % bound


def condition(kind, numbers):
    a, b, c = (f"v{numbers.below(INTEGERS)}" for _ in range(3))
    number = numbers.below(60)
    return (
        f"(= (f {a} {b}) (f {c} (+ {a} {number % 5})))",
        f"(or (= (select m {a}) {b}) (< {b} {c}) (> {c} {number}))",
        f"(=> (< {a} {b}) (= (select (store m {a} {c}) {b}) (f {b} {c})))",
        f"(or (<= (+ {a} {b}) {number}) (>= {c} (- {a} 3)))",
    )[kind]


def write(path, count):
    numbers = Numbers(8)
    with open(path, "w", encoding="ascii") as file:
        file.write("(set-option :smt.random_seed 1)\n(set-option :sat.random_seed 1)\n")
        for _ in range(count):
            file.write("(push)\n(declare-fun f (Int Int) Int)\n(declare-const m (Array Int Int))\n")
            for number in range(INTEGERS):
                file.write(f"(declare-const v{number} Int)\n")
            for number in range(CONDITIONS):
                file.write(f"(assert {condition(number % 4, numbers)})\n")
            file.write("(check-sat)\n(pop)\n")
