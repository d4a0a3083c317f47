"""What the runs of other allocators' tests share: fetch a source package, run and judge programs.

A suite is a script that fetches the source package of a distribution at test time, builds the
package's test programs once for all of loam's builds, and runs each with libloam.so preloaded:

    fetch(package, wanted) -> folder of sources -> compile_all(...) -> run_suite(name, programs)

Nothing of a package is committed: everything lies in build/suites of the checkout. A machine that
cannot fetch the package skips the test with the reason (exit status 77).

A program passes iff it ends with status 0, or with 77, which the suites use for "cannot run here".
A program that fails runs on the C library's own malloc, three times unless a signal ended it: if it
fails there as well, it needs more than its package has, or loses a race, and it is named but not
counted. Every other
failure fails the test, unless exceptions.txt names the program and the build. An entry with an
option of loam's means that the program passes with that option: it runs with the option when it has
failed without. An exception that passes, or that needs no option, fails the test too, so that the
list stays true.

A time limit says little on a loaded machine, so a program that exceeds its own runs again when no
other one runs, with four times as long. So does a program that ends with a status of its own,
because a loaded machine loses some of glibc's races (tst-cancel7). It has to pass twice then, and
is named. A crash is never repeated. Speed and memory are not judged.

Environment: LOAM_LIB is the library; LOAM_BUILD is the name of its build (release, secure, debug);
LOAM_SUITE_JOBS is the number of programs that run at once (default: the number of processors).
LOAM_SUITE_TIMES=1 prints what each program took. Arguments are names of programs: these alone. Exit
status: 0 passed, 1 failed, 77 skipped, 2 called wrongly.
"""

import collections
import concurrent.futures
import fcntl
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parent.parent / "build" / "suites"
JOBS = int(os.environ.get("LOAM_SUITE_JOBS", os.cpu_count() or 1))
EXCEPTIONS_MOST = 5

# argv: the command. env: additions to the environment, where {factor} stands for how many times as
# long as on a fast machine the program may take. seconds: the time limit. accepts: a function of
# (exit status, output) that says whether the run is a success.
Program = collections.namedtuple("Program", "name argv env seconds accepts")
# kind: passed, unsupported, failed, late. status: as subprocess has it.
Outcome = collections.namedtuple("Outcome", "kind detail output status")


class Skipped(Exception):
    """The suite cannot run here."""


class Failed(Exception):
    """The suite has found something wrong."""


# ---- fetching ------------------------------------------------------------------------------------


def codename():
    """The release that this machine's packages are of: bookworm, noble."""
    for line in pathlib.Path("/etc/os-release").read_text().splitlines():
        if line.startswith("VERSION_CODENAME="):
            return line.split("=", 1)[1].strip('"')
    raise Skipped("skipped: /etc/os-release names no release of Debian or Ubuntu")


def source_entries():
    """Returns the machine's package sources, for source packages, in both of apt's formats."""
    release = re.compile(rf"^{re.escape(codename())}(-updates|-security)?(/|$)")
    lines, stanzas = [], []
    etc = pathlib.Path("/etc/apt")
    for file in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*.list"))]:
        for line in file.read_text().splitlines() if file.is_file() else []:
            entry = re.match(r"deb\s+((?:\[[^\]]*\]\s+)?\S+\s+(\S+)\s.*)", line)
            if entry and release.match(entry[2]):
                lines.append(f"deb-src {entry[1]}")
    for file in sorted((etc / "sources.list.d").glob("*.sources")):
        for stanza in re.split(r"\n\s*\n", file.read_text()):
            suites = re.search(r"^Suites:(.*)$", stanza, re.MULTILINE)
            if suites and any(release.match(suite) for suite in suites[1].split()):
                stanza = re.sub(r"^Types:.*$", "Types: deb-src", stanza, flags=re.MULTILINE)
                stanzas.append(stanza.strip())
    if not lines and not stanzas:
        raise Skipped(f"skipped: /etc/apt has no package source of {codename()}")
    return lines, stanzas


def apt_get(folder, *words):
    """Runs apt-get on package lists of the folder's own, and leaves the machine's as they are."""
    options = {"Dir::Etc::SourceList": folder / "sources.list",
               "Dir::Etc::SourceParts": folder / "sources.list.d",
               "Dir::State::Lists": folder / "lists", "Dir::Cache": folder / "cache",
               "Acquire::Retries": 3,
               "Acquire::http::Timeout": 20, "Acquire::https::Timeout": 20}
    if os.getuid() == 0:
        options["APT::Sandbox::User"] = "root"  # another user may not write below a checkout
    given = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    done = subprocess.run(["apt-get", "-q", *given, *words], cwd=folder, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
                          timeout=300, errors="replace")
    return done.returncode, done.stdout


def download(package, folder):
    """Puts the files of the source package into the folder."""
    if shutil.which("apt-get") is None:
        raise Skipped(f"skipped: no apt-get, by which the source package {package} comes")
    for name in ("lists/partial", "cache/archives/partial", "sources.list.d"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    lines, stanzas = source_entries()
    (folder / "sources.list").write_text("".join(f"{line}\n" for line in lines))
    (folder / "sources.list.d" / "source.sources").write_text("\n\n".join(stanzas) + "\n")
    try:
        _, said = apt_get(folder, "update")
        status, more = apt_get(folder, "source", "--download-only", package)
    except subprocess.TimeoutExpired:
        raise Skipped(f"skipped: fetching the source package {package} took too long") from None
    if status != 0:
        errors = [line for line in (said + more).splitlines() if line.startswith("E:")]
        reason = errors[-1] if errors else f"apt-get source ended with status {status}"
        raise Skipped(f"skipped: the source package {package} cannot be fetched: {reason}")


def fetch(package, wanted):
    """Returns the folder with the package's upstream source: what wanted(path) chooses of it."""
    folder = CACHE / package
    tree = folder / "source"
    if tree.exists():
        return tree
    folder.mkdir(parents=True, exist_ok=True)
    download(package, folder)
    archives = sorted(folder.glob("*.orig.tar.*[!c]"))  # not the signature
    archives = [file for file in archives if not file.name.endswith(".asc")]
    if len(archives) != 1:
        raise Failed(f"the source package {package} has {len(archives)} upstream archives, not 1")
    partial = folder / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(archives[0]) as archive:
        for member in archive:
            path = member.name.split("/", 1)
            if len(path) == 2 and ".." not in path[1].split("/") and wanted(path[1]):
                member.name = path[1]
                archive.extract(member, partial, set_attrs=False)
    os.rename(partial, tree)
    return tree


class Lock:
    """Keeps others out while this process fetches and builds: loam's builds share the result."""

    def __init__(self, name):
        CACHE.mkdir(parents=True, exist_ok=True)
        self.file = open(CACHE / f"{name}.lock", "w")

    def __enter__(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        self.file.close()


# ---- building ------------------------------------------------------------------------------------


def is_built(output):
    """Whether it is there, made since these scripts changed: they say what the tests call."""
    scripts = max(path.stat().st_mtime for path in pathlib.Path(__file__).parent.glob("*.py"))
    return output.exists() and output.stat().st_mtime > scripts


def compile_all(commands):
    """Runs (output, argv) pairs, several at once. Returns {output: what was said} of failures."""

    def compile_one(job):
        output, argv = job
        if is_built(output):
            return None
        part = output.with_name(output.name + ".part")
        done = subprocess.run([*map(str, argv), "-o", str(part)], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            return output, done.stdout
        os.rename(part, output)
        return None

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        return dict(failure for failure in pool.map(compile_one, commands) if failure)


def archive(output, objects):
    """Makes a library of the objects."""
    if not is_built(output):
        part = output.with_name(output.name + ".part")
        part.unlink(missing_ok=True)
        subprocess.run(["ar", "qc", part, *objects], check=True)
        os.rename(part, output)


# ---- running -------------------------------------------------------------------------------------


def status_text(status):
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def environment():
    """This process's environment without what is meant for loam or for this script."""
    items = os.environ.items()
    return {name: value for name, value in items if not re.match("LOAM_|LD_PRELOAD", name)}


def kill_session(session):
    """Ends what is left of a program, whose children have its session, if not its group."""
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.getsid(int(entry)) == session:
                os.kill(int(entry), signal.SIGKILL)
        except OSError:
            pass  # it has ended meanwhile


def run_program(program, library, factor=1):
    """Runs a program in a folder and a session of its own. library None: on the C library."""
    env = environment()
    seconds = program.seconds * factor
    env.update({"LC_ALL": "C"})
    env.update({name: value.format(factor=2 * factor) for name, value in program.env.items()})
    if library is not None:
        env["LD_PRELOAD"] = library
    with tempfile.TemporaryDirectory(prefix="loam-suite-") as folder, \
            tempfile.TemporaryFile() as log:
        env["TMPDIR"] = folder
        process = subprocess.Popen([str(word) for word in program.argv], cwd=folder, env=env,
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        late = False
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = True
        kill_session(process.pid)
        status = process.wait()
        log.seek(0)
        output = log.read().decode("utf-8", "replace")
    if late or "Timed out: killed the child process" in output:
        return Outcome("late", f"took more than its {seconds} s", output, status)
    if program.accepts is not None:
        accepted = program.accepts(status, output)
        return Outcome("passed" if accepted else "failed", status_text(status), output, status)
    if status == 77:
        return Outcome("unsupported", output.strip().splitlines()[-1:] or "", output, status)
    return Outcome("passed" if status == 0 else "failed", status_text(status), output, status)


def exceptions_of(suite, build):
    """{program: (option or None, reason)} of exceptions.txt for that build."""
    found, count = {}, 0
    entries = []
    for number, line in enumerate((HERE / "exceptions.txt").read_text().splitlines(), 1):
        if entries and line.startswith("  "):
            entries[-1] = (entries[-1][0], f"{entries[-1][1]} {line.strip()}")
        elif line.strip() and not line.startswith("#"):
            entries.append((number, line))
    for number, line in entries:
        entry = re.match(r"(\S+) (\S+) (\S+?)(?: (LOAM_\w+=\w+))?: (.+)", line)
        if not entry:
            raise Failed(f"exceptions.txt:{number}: not 'suite program builds [option]: reason'")
        count += entry[4] is None
        if entry[1] == suite and build in entry[3].split(","):
            found[entry[2]] = (entry[4], entry[5])
    if count > EXCEPTIONS_MOST:
        raise Failed(f"exceptions.txt has {count} exceptions, and at most {EXCEPTIONS_MOST} may be")
    return found


def answers(library):
    """Fails unless a program that is started with the library preloaded has it."""
    env = {**environment(), "LD_PRELOAD": library}
    maps = subprocess.run(["cat", "/proc/self/maps"], env=env, stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    if os.path.realpath(library) not in maps:
        raise Failed(f"{library} is preloaded in vain: a program's map does not have it")


def with_option(program, option):
    """The program with an option of loam's, as NAME=VALUE."""
    name, value = option.split("=", 1)
    return program._replace(env={**program.env, name: value})


def fails_on_libc(program, times):
    return any(run_program(program, None).kind in ("failed", "late") for _ in range(times))


def passes_twice(program, library):
    return all(run_program(program, library, 3).kind == "passed" for _ in range(2))


def run_suite(suite, programs, least, own=()):
    """Runs all on LOAM_LIB and judges them. Fails where fewer than `least` could be judged.
    own: names of programs that call loam's functions and so cannot run on the C library."""
    library, build = os.environ["LOAM_LIB"], os.environ.get("LOAM_BUILD", "release")
    answers(library)
    expected = exceptions_of(suite, build)
    chosen = [program for program in programs if not sys.argv[1:] or program.name in sys.argv[1:]]
    started = time.monotonic()

    def run(program):
        began = time.monotonic()
        outcome = run_program(program, library)
        if os.environ.get("LOAM_SUITE_TIMES"):
            print(f"{time.monotonic() - began:7.2f} s  {program.name} {outcome.kind}", flush=True)
        return outcome

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        outcomes = list(pool.map(run, chosen))
    kinds = collections.defaultdict(list)
    wrong = []
    for program, outcome in zip(chosen, outcomes):
        name = program.name
        if outcome.kind == "late":
            print(f"{name}: {outcome.detail}: once more, alone", flush=True)
            outcome = run_program(program, library, 3)
        if outcome.kind in ("passed", "unsupported"):
            kinds[outcome.kind].append(name)
            if name in expected and outcome.kind == "passed":
                wrong.append(f"{name}: passes, so its entry in exceptions.txt has to go")
        elif name in expected and expected[name][0] is None:
            kinds["excepted"].append(name)
            print(f"exception: {name} {outcome.detail}: {expected[name][1]}")
        elif name in expected:
            option, reason = expected[name]
            kinds["with option"].append(name)
            outcome = run_program(with_option(program, option), library, 3)
            if outcome.kind != "passed":
                wrong.append(f"{name}: {outcome.detail} with {option}, too")
            print(f"passes with {option}: {name}: {reason}")
        elif name not in own and fails_on_libc(program, 3 if outcome.status > 0 else 1):
            kinds["foreign"].append(name)
        elif outcome.status > 0 and passes_twice(program, library):
            print(f"{name}: {outcome.detail}, and passes twice when alone", flush=True)
            kinds["passed"].append(name)
        else:
            tail = "\n".join("    " + line for line in outcome.output.splitlines()[-12:])
            wrong.append(f"{name}: {outcome.detail}; on the C library's malloc it passes, "
                         f"or cannot run\n{tail}")
    judged = len(wrong) + sum(len(kinds[kind]) for kind in ("passed", "excepted", "with option"))
    print(f"{suite} on {build}: {len(kinds['passed'])} of {judged} passed, "
          f"{len(kinds['with option'])} with an option, {len(kinds['excepted'])} exceptions, "
          f"{time.monotonic() - started:.0f} s")
    for kind, meaning in (("unsupported", "say that they cannot run here"),
                          ("foreign", "fail on the C library's malloc as well, and do not count")):
        if kinds[kind]:
            print(f"{len(kinds[kind])} {meaning}: {' '.join(sorted(kinds[kind]))}")
    if judged < least and not sys.argv[1:]:
        wrong.append(f"only {judged} programs could be judged, and {least} are expected")
    if wrong:
        raise Failed(f"{len(wrong)} failed:\n" + "\n".join(wrong))


def main(suite):
    """Calls suite() and ends with the status that ctest understands."""
    library = os.environ.get("LOAM_LIB")
    if not library or not os.path.isfile(library):
        print(f"LOAM_LIB={library}: not a file; it names the library to preload", file=sys.stderr)
        sys.exit(2)
    try:
        suite()
    except Skipped as reason:
        print(reason, flush=True)
        sys.exit(77)
    except Failed as reason:
        print(reason, flush=True)
        sys.exit(1)
