"""What gcc_test.py and gxx_test.py share: compile, link and run, with and without the preload.

Sources are compiled from one place and the objects moved away after, so that the objects of both
runs have no reason to differ in a single byte; nor have the programs linked from them.
"""

import preload


def build(bench, preloaded, compiler, sources, options, libraries):
    """Compiles each source with each set of options, links each set. Returns {name: bytes}."""
    made = {}
    for number, flags in enumerate(options):
        objects = []
        for source in sources:
            result = f"{source.stem}.{number}.o"
            bench.run([compiler, *flags, "-c", source.name, "-o", result], preload=preloaded)
            objects.append(result)
        bench.run(
            [compiler, *flags, *objects, "-o", f"program.{number}", *libraries], preload=preloaded
        )
        for name in (*objects, f"program.{number}"):
            made[name] = bench.path(name).read_bytes()
    return made


def check(bench, compiler, proper, sources, options, libraries=()):
    """The whole test. `proper` is the base name of the compiler proper, cc1 or cc1plus."""
    plain = build(bench, False, compiler, sources, options, libraries)
    for name in plain:
        bench.path(name).unlink()
    loam = build(bench, True, compiler, sources, options, libraries)
    for name, content in plain.items():
        preload.expect(
            content == loam[name],
            f"{name} is not the same, byte for byte, when compiled under the preload",
        )

    truth = None
    for number in range(len(options)):
        program = bench.path(f"program.{number}")
        out = bench.twice([program], f"program {number}")
        preload.expect(out.endswith(b"end\n"), f"{program.name} did not reach its end")
        truth = truth or out
        bench.same(truth, out, f"the output of {program.name}, compiled with {options[number]}")

    small = bench.write(
        "small.c", '#include <stdio.h>\nint main(void) { return puts("small") < 0; }\n'
    )
    bench.answers(
        [compiler, "-pipe", small, "-o", bench.path("small")],
        [compiler.rsplit("/", 1)[-1], proper, "as", "collect2", "ld"],
    )
