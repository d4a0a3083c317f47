#!/usr/bin/env python3
"""run_in_qemu.py: builds kernel/ as a module and tests it in a kernel of its own, which qemu runs.

    run_in_qemu.py [--build DIR]            self-test, hotplug and times; prints the module's lines
    run_in_qemu.py --break N [--build DIR]  with fault N put in: succeeds iff exactly that is found
    run_in_qemu.py --count [--build DIR]    the times alone, on one processor that takes 1 ns for
                                            each instruction: what they say does not depend on this
                                            machine or on how busy it is
    run_in_qemu.py --self-test              proves on made-up logs that each kind of trouble is seen
    ... [--accel tcg|kvm] [--headers DIR --vmlinuz FILE]

The kernel of this machine is not touched. What is needed: headers of a kernel (Debian's
linux-headers-cloud-amd64), its image (in /boot, or fetched once by apt-get download and unpacked
below the build folder, not installed), qemu-system-x86, busybox-static. What is missing makes it
exit 77: skipped.

Two machines of two processors run at once: one with the kernel's own checks, where the self-test
runs with preemption, a processor goes and comes back, and the module is unloaded; and one as
shipped, for the times. A log is good iff the module says that the self-test passed and all pages
are balanced, and the kernel nothing about a warning, a bug, a leak or a stall.
"""

import argparse
import fcntl
import os
import platform
import re
import shutil
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77
SECONDS = 80  # for both machines

TROUBLE = re.compile(
    r"WARNING:|(?-i:\bBUG\b)|Oops|Kernel panic|general protection|page allocation "
    r"failure|stack-protector|list_(?:add|del) corruption|Objects remaining|Call Trace|soft "
    r"lockup|rcu: INFO|hung_task|blocked for more than|Bad page|suspicious|scheduling while "
    r"atomic|sleeping function|invalid opcode|unable to handle|Out of memory|Unknown symbol|loam: "
    r"assertion|loam_region: (?:pages lost|selftest: not so|selftest: (?-i:.*FAILED))",
    re.I,
)
# Lines by which a checked region reports the mistakes that the self-test makes: each once, and no
# others.
REPORTS = (
    r"loam: region selftest: free of \S+ after its free at ",
    r"loam: region selftest: overflow of \S+: byte 41 of 40 written",
    r"loam: region selftest: leak of 40 bytes at ",
)
STEPS = {
    # What the guest must say: its kernel in this order, and its script, too. Of two lines, one of
    # each, either may come out first: the script's take the terminal's way.
    "selftest": (
        r"step: insmod",
        r"loam_region: interrupts: [1-9]\d* rounds of tasks, [1-9]\d* of softirqs, [1-9]\d* of "
        r"hard",
        r"loam_region: selftest: passed, [1-9]\d* tests, [1-9]\d* expectations",
        r"step: insmod is done, 0",
        r"pages: taken [1-9]\d* returned [1-9]\d* cached 6 out 0 ",
        r"step: a processor goes",
        r"loam_region: processor 1 has gone, 3 cached pages returned",
        r"step: a processor comes",
        r"pages: taken [1-9]\d* returned [1-9]\d* cached 3 out 0 ",
        r"step: memory is wanted back",
        r"pages: taken [1-9]\d* returned [1-9]\d* cached 0 out 0 ",
        r"step: another module",
        r"loam_requests: 400 of 400 requests served",
        r"step: the other module is there, 0",
        r"step: rmmod while it is used, [1-9]",
        r"step: rmmod",
        r"loam_region: pages balanced: [1-9]\d* taken, [1-9]\d* returned",
        r"step: rmmod is done, 0",
        r"step: end",
    ),
    "bench": (
        r"step: insmod",
        r"loam_region: bench: pages, ",
        r"loam_region: bench: small .* nginx's rules [1-9]\d* ns",
        r"loam_region: bench: small .*, w/ free: ",
        r"loam_region: bench: mix, w/ free: .* nginx's rules [1-9]\d* ns",
        r"loam_region: bench: done",
        r"step: insmod is done, 0",
        r"step: rmmod",
        r"loam_region: pages balanced: ",
        r"step: rmmod is done, 0",
        r"step: end",
    ),
}
# By parameter `break`: what the module must say then.
FAULTS = {
    1: r"selftest: not so: loam_kernel_pages_ask\(\)\.out == 0 .*",
    2: r"selftest: not so: good .*model\.c",
}
# No check of the timer: a busy host fails it.
COMMON = "console=ttyS0 panic=-1 oops=panic quiet loglevel=4 mitigations=off no_timer_check"
MODES = {
    # parameters of the kernel, parameters of the module
    "selftest": ("preempt=full slub_debug=FZPU init_on_free=1 init_on_alloc=1", "selftest=1"),
    "bench": ("init_on_alloc=0 init_on_free=0", "bench=1"),
}

INIT = """#!/bin/busybox sh
bb=/bin/busybox
$bb mount -t proc proc /proc
$bb mount -t sysfs sys /sys
echo 8 > /proc/sys/kernel/printk
echo "step: insmod"
$bb insmod /loam_region.ko {parameters}
echo "step: insmod is done, $?"
p=/sys/module/loam_region/parameters/pages
if [ -e $p ]; then
    echo "pages: $($bb cat $p)"
    if [ {mode} = selftest ]; then
        echo "step: a processor goes"
        echo 0 > /sys/devices/system/cpu/cpu1/online
        echo "step: a processor comes"
        echo 1 > /sys/devices/system/cpu/cpu1/online
        echo "pages: $($bb cat $p)"
        echo "step: memory is wanted back"
        $bb taskset 1 $bb sh -c "echo 2 > /proc/sys/vm/drop_caches"
        echo "pages: $($bb cat $p)"
        echo "step: another module"
        $bb insmod /loam_requests.ko
        echo "step: the other module is there, $?"
        $bb rmmod loam_region
        echo "step: rmmod while it is used, $?"
        $bb rmmod loam_requests
    fi
    echo "step: rmmod"
    $bb rmmod loam_region
    echo "step: rmmod is done, $?"
fi
$bb sleep 1
echo "step: end"
$bb poweroff -f
"""


class Skip(Exception):
    """What is missing here."""


# ---- judging a log -------------------------------------------------------------------------------


def judge(mode, log):
    """What is wrong with a log: a list of sentences."""
    wrong = [f"trouble: {line}" for line in log if TROUBLE.search(line)]
    for of_kernel in (True, False):
        at = 0
        for step in (step for step in STEPS[mode] if step.startswith("loam_") == of_kernel):
            found = next((i for i in range(at, len(log)) if re.search(step, log[i])), None)
            if found is None:
                wrong.append(f"missing: {step}")
            else:
                at = found + 1
    reports = [line for line in log if "loam: " in line]
    if mode == "selftest":
        for report in REPORTS:
            matching = [line for line in reports if re.search(report, line)]
            if len(matching) != 1:
                wrong.append(f"expected once, found {len(matching)} times: {report}")
            reports = [line for line in reports if line not in matching]
    wrong += [f"unexpected report: {line}" for line in reports]
    return wrong


def judge_fault(fault, log):
    """The same for a module that has a fault: it must be found, and nothing else be wrong."""
    wrong = []
    for step in (
        FAULTS[fault],
        r"loam_region: selftest: FAILED",
        r"step: insmod is done, [1-9]",
        r"step: end",
    ):
        if not any(re.search(step, line) for line in log):
            wrong.append(f"missing: {step}")
    if not judge("selftest", log):
        wrong.append("the log passes as a good one")
    ours = re.compile(r"loam_region: |insmod")
    wrong += [f"trouble: {line}" for line in log if TROUBLE.search(line) and not ours.search(line)]
    return wrong


GOOD = """step: insmod
loam: region selftest: free of 0x1 after its free at a.c:1, allocated at a.c:1 (at a.c:2, thread 1)
loam: region selftest: overflow of 0x1: byte 41 of 40 written, allocated at a.c:1 (thread 1)
loam: region selftest: leak of 40 bytes at 0x1, allocated at a.c:1
loam_region: interrupts: 9 rounds of tasks, 8 of softirqs, 7 of hard interrupts, \
0 calls found the cache busy
loam_region: selftest: passed, 14 tests, 100 expectations
step: insmod is done, 0
pages: taken 11 returned 5 cached 6 out 0 passed 0
step: a processor goes
loam_region: processor 1 has gone, 3 cached pages returned
step: a processor comes
pages: taken 11 returned 8 cached 3 out 0 passed 0
step: memory is wanted back
pages: taken 11 returned 11 cached 0 out 0 passed 0
step: another module
loam_requests: 400 of 400 requests served
step: the other module is there, 0
step: rmmod while it is used, 1
step: rmmod
loam_region: pages balanced: 5 taken, 5 returned
step: rmmod is done, 0
step: end""".splitlines()
BAD_LINES = (
    "WARNING: CPU: 0 PID: 1 at mm/page_alloc.c:1 x", "BUG: unable to handle page fault",
    "Oops: 0002 [#1]",
    "list_add corruption. next->prev", "BUG loam (Tainted: G): Objects remaining in loam",
    " Call Trace:",
    "watchdog: BUG: soft lockup", "rcu: INFO: rcu_preempt self-detected stall",
    "BUG: Bad page state",
    "loam_region: pages lost: 5 taken, 4 returned", "loam_region: selftest: not so: x (y.c:1)",
    "loam_region: selftest: FAILED, 1 of 100 expectations", "loam_region: selftest: tfw FAILED",
    "loam: region model: overflow of 0x1",
    "loam: assertion failed: x, y.c:1", "insmod: page allocation failure: order:4",
)  # fmt: skip


def self_test():
    failures = []
    if judge(
        "selftest",
        GOOD + ["..MP-BIOS bug: 8254 timer not connected", "module verification failed: signature"],
    ):
        failures.append(f"a good log is refused: {judge('selftest', GOOD)}")
    overtaken = [line for line in GOOD if "balanced" not in line]
    overtaken.insert(overtaken.index("step: rmmod"), GOOD[-3])
    if judge("selftest", overtaken):
        failures.append("a line of the kernel's may not overtake one of the script's")
    for bad in BAD_LINES:
        if not judge("selftest", GOOD[:5] + [bad] + GOOD[5:]):
            failures.append(f"not seen: {bad}")
    for i, line in enumerate(GOOD):
        if not judge("selftest", GOOD[:i] + GOOD[i + 1 :]):
            failures.append(f"not missed: {line}")
    for old, new in (
        ("out 0", "out 1"),
        ("insmod is done, 0", "insmod is done, 1"),
        ("used, 1", "used, 0"),
    ):
        if not judge("selftest", [line.replace(old, new) for line in GOOD]):
            failures.append(f"not seen: {new}")
    for fault in FAULTS:
        if not judge_fault(fault, GOOD):
            failures.append(f"a good log passes for one of fault {fault}")
    print("\n".join(failures) or "self-test: every kind of trouble is seen")
    return 1 if failures else 0


# ---- what is needed ------------------------------------------------------------------------------


def command(name, package):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise Skip(f"{name} is missing ({package}; scripts/bootstrap --ci)")
    return path


def headers():
    """The newest kernel whose headers are here: (release, folder)."""
    found = [p for p in Path("/lib/modules").glob("*/build") if (p / "Makefile").is_file()]
    if not found:
        raise Skip(
            "no headers of a kernel are here (linux-headers-cloud-amd64; scripts/bootstrap --ci)"
        )
    numbers = lambda p: [int(n) for n in re.findall(r"\d+", p.parent.name)]  # noqa: E731
    # Where several are here: one whose image is, too.
    best = max(found, key=lambda p: (Path(f"/boot/vmlinuz-{p.parent.name}").is_file(), numbers(p)))
    return best.parent.name, best


def image(release, build):
    """The kernel of that release, from /boot or out of Debian's package."""
    installed = Path(f"/boot/vmlinuz-{release}")
    if installed.is_file() and os.access(installed, os.R_OK):
        return installed
    folder = build / "image" / release
    unpacked = folder / f"vmlinuz-{release}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:  # several tests may want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not unpacked.is_file():
            fetch(release, folder)
    return unpacked


def fetch(release, folder):
    """Debian's package of that release; of it nothing is wanted but the image."""
    command("apt-get", "apt")
    fetched = subprocess.run(["apt-get", "-q", "download", f"linux-image-{release}"], cwd=folder,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             check=False)  # fmt: skip
    packages = list(folder.glob("*.deb"))
    if fetched.returncode != 0 or not packages:
        raise Skip(
            f"the image of {release} is neither in /boot nor to be fetched: "
            f"{fetched.stdout.strip()[-200:]}"
        )
    tar = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", packages[0]], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "--strip-components=2", f"./boot/vmlinuz-{release}"],
                   cwd=folder, stdin=tar.stdout, check=True)  # fmt: skip
    tar.wait()
    for package in packages:
        package.unlink()


# ---- building and running ------------------------------------------------------------------------


def make_modules(kernel_headers, build):
    """loam_region.ko, and one that uses it; a warning is an error."""
    make = command("make", "make")
    done = subprocess.run([make, "-C", ROOT / "kernel", "example", f"KDIR={kernel_headers}",
                           f"BUILD={build}", "KCFLAGS=-Werror",
                           # it would need pahole, and the unpacked kernel
                           "CONFIG_DEBUG_INFO_BTF_MODULES=",
                           f"-j{os.cpu_count()}"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)  # fmt: skip
    lines = done.stdout.splitlines()
    # Another patch level of the compiler than the kernel's: said of the headers, not of the module.
    allowed = re.compile(r"warning: the compiler differs")
    warnings = [
        line for line in lines if re.search(r"\bwarning\b", line, re.I) and not allowed.search(line)
    ]
    if done.returncode != 0 or warnings:
        print("\n".join(lines[-60:]))
        sys.exit("run_in_qemu: the module does not build without errors and warnings")
    return build / "kernel" / "loam_region.ko", build / "examples" / "kernel" / "loam_requests.ko"


def cpio_entry(name, mode, data):
    """One file of an archive in the format that kernels unpack ("newc")."""
    fields = [
        0,
        mode,
        0,
        0,
        1,
        0,
        len(data),
        0,
        0,
        5 * (stat.S_ISCHR(mode) != 0),
        stat.S_ISCHR(mode) != 0,
    ]
    fields += [len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4)


def make_initramfs(target, modules, init):
    busybox = Path(command("busybox", "busybox-static"))
    folders = [
        cpio_entry(name, stat.S_IFDIR | 0o755, b"") for name in ("bin", "dev", "proc", "sys")
    ]
    files = [
        cpio_entry("dev/console", stat.S_IFCHR | 0o600, b""),
        cpio_entry("bin/busybox", stat.S_IFREG | 0o755, busybox.read_bytes()),
        *(cpio_entry(module.name, stat.S_IFREG | 0o644, module.read_bytes()) for module in modules),
        cpio_entry("init", stat.S_IFREG | 0o755, init.encode()),
        cpio_entry("TRAILER!!!", 0, b""),
    ]
    target.write_bytes(b"".join(folders + files))


def start(mode, build, vmlinuz, modules, accel, fault, count=False):
    kernel_parameters, parameters = MODES[mode]
    if fault:
        parameters += f" break={fault}"
    archive, log = build / f"{mode}.cpio", build / f"{mode}.log"
    make_initramfs(archive, modules, INIT.format(parameters=parameters, mode=mode))
    arguments = [command("qemu-system-x86_64", "qemu-system-x86"), "-accel", accel, "-m", "256M"]
    arguments += ["-smp", "1", "-icount", "shift=0,sleep=off"] if count else ["-smp", "2"]
    # Without that instruction: qemu 7.2 loses the flags behind it once in a while, and with them
    # the machine.
    arguments += ["-cpu", "host" if accel == "kvm" else "max,-cx16,-la57"]
    arguments += [
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-serial",
        "stdio",
    ]
    arguments += ["-kernel", vmlinuz, "-initrd", archive]
    arguments += ["-append", f"{COMMON} {kernel_parameters}"]
    with log.open("wb") as output:
        return (
            subprocess.Popen(
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            ),
            log,
        )


def wait(machine, seconds=SECONDS):
    """Waits for its end; whether that did not come in time."""
    try:
        machine.wait(seconds)
        return False
    except subprocess.TimeoutExpired:
        machine.kill()
        machine.wait()
        return True


def read(log):
    text = log.read_bytes().decode("utf-8", "replace").replace("\r", "")
    return [re.sub(r"^\[ *\d+\.\d+\] ", "", line) for line in text.splitlines()]


def run(arguments):
    build = arguments.build.resolve()
    if platform.machine() != "x86_64":
        raise Skip(f"this is {platform.machine()}; the machine that is run is an x86_64")
    command("qemu-system-x86_64", "qemu-system-x86")
    command("busybox", "busybox-static")
    release, kernel_headers = (
        (arguments.headers.name, arguments.headers) if arguments.headers else headers()
    )
    build.mkdir(parents=True, exist_ok=True)
    vmlinuz = arguments.vmlinuz or image(release, build.parent)
    modules = make_modules(kernel_headers, build)
    modes = (
        ["selftest"] if arguments.fault else ["bench"] if arguments.count else ["selftest", "bench"]
    )
    begin = partial(start, build=build, vmlinuz=vmlinuz, modules=modules, accel=arguments.accel,
                    fault=arguments.fault,
                    count=arguments.count)  # fmt: skip
    machines = {mode: begin(mode) for mode in modes}
    print(f"loam_region.ko for {release}, in qemu ({arguments.accel})")
    wrong = []
    for mode, (machine, log) in machines.items():
        late = wait(machine, SECONDS * (10 if arguments.count else 1))
        if not late and not any("step: insmod" in line for line in read(log)):
            print(f"{mode}: the machine ended before it came to the module; once more")
            shutil.copy(log, log.with_suffix(".first.log"))
            machine, log = begin(mode)
            late = wait(machine)
        if late:
            wrong.append(f"{mode}: not at its end in time")
        lines = read(log)
        found = judge_fault(arguments.fault, lines) if arguments.fault else judge(mode, lines)
        wrong += [f"{mode}: {text}" for text in found]
        print(f"---- {mode} ----")
        print(
            "\n".join(
                lines if found else [line for line in lines if "loam" in line or "pages:" in line]
            )
        )
    print("\n".join(["----"] + wrong) if wrong else "---- all is as it should be")
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "kernel")
    parser.add_argument("--break", dest="fault", type=int, choices=sorted(FAULTS), default=0)
    parser.add_argument("--count", action="store_true")
    parser.add_argument("--accel", choices=("tcg", "kvm"), default="tcg")
    parser.add_argument(
        "--headers", type=Path, help="of a kernel that is not in /lib/modules; with --vmlinuz"
    )
    parser.add_argument("--vmlinuz", type=Path)
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    if arguments.count and (arguments.fault or arguments.accel != "tcg"):
        parser.error("--count is of the times, with tcg")
    try:
        return run(arguments)
    except Skip as why:
        print(f"skipped: {why}")
        return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
