"""The checks of preload.py can fail: each is shown a case that it has to find.

Needs no particular malloc: whatever LOAM_LIB names is preloaded into a shell and into cat.
"""

import os
import subprocess

import preload


def finds(what, action, pattern):
    try:
        action()
    except preload.Failed as why:
        preload.expect(pattern in str(why), f"{what}: found, but told as: {why}")
        return
    raise preload.Failed(f"{what}: not found")


def quiet_pass(bench):
    bench.run(
        ["sh", "-c", 'cat /proc/self/maps > "$MAPS_COPY"'], env={"MAPS_COPY": bench.path("maps")}
    )
    bench.mapped("maps")


def test(bench):
    shell = ["sh", "-c"]

    # what each program says of itself
    finds("a failing program", lambda: bench.run(shell + ["exit 3"]), "status 3")
    finds("a killed program", lambda: bench.run(shell + ["kill -6 $$"]), "status -6")
    for line in ("loam: double free of 0x10", "ERROR: ld.so: object 'x' cannot be preloaded"):
        finds(
            "a complaint", lambda text=line: bench.run(shell + [f'echo "{text}" >&2']), "complained"
        )
    bench.run(shell + ['echo "/x/libloam.so: harmless" >&2'])
    finds("a difference", lambda: bench.same(b"a\nb\n", b"a\nc\n", "text"), "-b")

    # whether the library is there
    copy = shell + ['cat /proc/$$/maps > "$MAPS_COPY"']
    bench.run(copy, env={"MAPS_COPY": bench.path("with")})
    bench.run(copy, env={"MAPS_COPY": bench.path("without")}, preload=False)
    bench.mapped("with", True)
    bench.mapped("without", False)
    finds("a preload that failed", lambda: bench.mapped("without", True), "not mapped")
    finds("a preload not wanted", lambda: bench.mapped("with", False), "is mapped")
    finds("no copy of maps", lambda: bench.mapped("nothing"), "no copy")

    # an ended process is no failed preload
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    try:
        bench.mapped_in(ended.pid)
        raise preload.Failed("the maps of an ended process were not missed")
    except ProcessLookupError:
        ended.wait()

    # who answers malloc
    bench.answers(["cat", "/dev/null"], ["cat"])
    finds(
        "another malloc",
        lambda: bench.answers(["env", "-u", "LD_PRELOAD", "cat", "/dev/null"], ["cat"]),
        "malloc of cat is answered by",
    )

    finds(
        "a program that prints something else",
        lambda: bench.twice(copy[:2] + [copy[2] + "; echo ${LD_PRELOAD-none}"], "output"),
        "-none",
    )

    # servers and what they leave behind
    lasting = bench.serve(["sleep", "100"], name="sleep")
    finds("a server that does not end", lambda: lasting.ended(0.2), "did not end")
    finds("a server that fails", lasting.stop, "status -15")
    finds("a server that is not there", lasting.alive, "status -15")
    library = os.environ["LOAM_LIB"]
    status, text = preload.run_test(
        lambda inner: inner.run(shell + ["setsid sleep 100 > /dev/null 2>&1 &"]) and None, library
    )
    preload.expect(status == 1 and "left running" in text, f"an orphan was not found: {text}")
    preload.expect(not preload.settled(), "the orphan was not ended")

    # what a test ends as
    status, text = preload.run_test(lambda inner: inner.need("no-such-program") and None, library)
    preload.expect((status, text) == (77, "skipped: not installed: no-such-program"), text)
    status, text = preload.run_test(quiet_pass, library)
    preload.expect(status == 0, text)


preload.main(test)
