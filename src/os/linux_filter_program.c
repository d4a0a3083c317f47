/* linux_filter_program.c: which advice (madvise) a filter of system calls will kill for.
 *
 * glibc's malloc works without madvise, so there are filters that kill for it. A filter's program
 * is known when it is set (override/doors.c, syscall.c). It is run here for each advice that loam
 * gives, as the kernel would run it. Advice that it kills for is not given afterwards: freed memory
 * is replaced by new mappings, and huge pages are left to the kernel.
 *
 * Only the first filter is examined, because reading a filter safely takes a system call that the
 * first one may forbid. It cannot help a program that is started under such a filter, or sets it by
 * instruction.
 */
#define _GNU_SOURCE 1 /* madvise's numbers */
#include "os/os.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

enum { LENGTH_MOST = BPF_MAXINSNS };

uint32_t lm_os_kills;
static bool looked; /* atomic: a filter has been seen */

/* ---- The kernel's interpreter, as far as filters of system calls use it ---- */

static uint32_t computed(unsigned operation, uint32_t a, uint32_t b) {
    switch (operation) {
    case BPF_ADD: return a + b;
    case BPF_SUB: return a - b;
    case BPF_MUL: return a * b;
    case BPF_DIV: return b != 0 ? a / b : 0;
    case BPF_MOD: return b != 0 ? a % b : 0;
    case BPF_AND: return a & b;
    case BPF_OR: return a | b;
    case BPF_XOR: return a ^ b;
    case BPF_LSH: return b < 32 ? a << b : 0;
    case BPF_RSH: return b < 32 ? a >> b : 0;
    default: return -a; /* BPF_NEG */
    }
}

static bool filter_program_holds(unsigned operation, uint32_t a, uint32_t b) {
    switch (operation) {
    case BPF_JEQ: return a == b;
    case BPF_JGT: return a > b;
    case BPF_JGE: return a >= b;
    case BPF_JSET: return (a & b) != 0;
    default: return true; /* BPF_JA */
    }
}

/* Returns what the filter says of a system call. The result is arbitrary for a program that the
 * kernel will refuse. */
static uint32_t verdict(const struct sock_filter *code, unsigned length,
                        const struct seccomp_data *call) {
    LM_ASSERT(length > 0 && length <= LENGTH_MOST);
    uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0};
    for (unsigned at = 0; at < length; at++) {
        unsigned now = code[at].code, k = code[at].k;
        uint32_t *cell = &memory[k % BPF_MEMWORDS], b = BPF_SRC(now) == BPF_X ? x : k;
        bool index = BPF_CLASS(now) == BPF_LDX; /* loads x instead of a */
        switch (BPF_CLASS(now)) {
        case BPF_LD:
        case BPF_LDX:
            b = k; /* BPF_IMM */
            if (BPF_MODE(now) == BPF_MEM) b = *cell;
            if (BPF_MODE(now) == BPF_LEN) b = sizeof *call;
            if (BPF_MODE(now) == BPF_ABS) {
                if (k > sizeof *call - sizeof b) return SECCOMP_RET_ALLOW;
                __builtin_memcpy(&b, (const char *)call + k, sizeof b);
            }
            *(index ? &x : &a) = b;
            break;
        case BPF_ST: *cell = a; break;
        case BPF_STX: *cell = x; break;
        case BPF_ALU: a = computed(BPF_OP(now), a, b); break;
        case BPF_JMP:
            if (BPF_OP(now) != BPF_JA)
                k = filter_program_holds(BPF_OP(now), a, b) ? code[at].jt : code[at].jf;
            if (k >= length - at) return SECCOMP_RET_ALLOW;
            at += k;
            break;
        case BPF_RET: return BPF_RVAL(now) == BPF_A ? a : k;
        default: /* BPF_MISC */
            if (BPF_MISCOP(now) == BPF_TAX)
                x = a;
            else
                a = x;
        }
    }
    return SECCOMP_RET_ALLOW;
}

/* ---- Examining a filter ---- */

/* Returns whether the memory can be read. A program may set a filter from an invalid address, to
 * see the kernel's error. */
static bool readable(const void *at, size_t bytes) {
    uintptr_t first = lm_align_down((uintptr_t)at, 4096), last = (uintptr_t)at + bytes - 1;
    for (uintptr_t page = first; page <= last; page += 4096) {
        char byte;
        struct iovec to = {&byte, 1}, from = {(void *)(page > first ? page : (uintptr_t)at), 1};
        if (lm_syscall(SYS_process_vm_readv, (intptr_t)lm_os_process(), (intptr_t)&to, 1,
                       (intptr_t)&from, 1, 0) != 1)
            return false;
    }
    return true;
}

/* Returns whether the filter's answer may kill. A trap counts, because the program's handler may do
 * anything with it. */
static bool is_kill(uint32_t said) {
    uint32_t action = said & SECCOMP_RET_ACTION_FULL;
    return action == SECCOMP_RET_KILL_PROCESS || action == SECCOMP_RET_KILL_THREAD ||
           action == SECCOMP_RET_TRAP;
}

void lm_os_filter_seen(const void *program) {
    /* Newer headers define them. */
    enum { POPULATE_WRITE = 23, GUARD_INSTALL = 102, GUARD_REMOVE = 103 };
    static const unsigned char advices[] = {MADV_DONTNEED, MADV_NOHUGEPAGE, MADV_HUGEPAGE,
                                            MADV_RANDOM,   POPULATE_WRITE,  GUARD_INSTALL,
                                            GUARD_REMOVE};
    struct sock_fprog filter;
    if (__atomic_exchange_n(&looked, true, __ATOMIC_RELAXED) || !readable(program, sizeof filter))
        return;
    __builtin_memcpy(&filter, program, sizeof filter);
    if (filter.len == 0 || filter.len > LENGTH_MOST ||
        !readable(filter.filter, filter.len * sizeof *filter.filter))
        return;
    struct seccomp_data call = {.nr = SYS_madvise, .arch = LM_AUDIT_ARCHITECTURE};
    call.args[1] = LM_OS_UNIT;
    for (size_t i = 0; i < sizeof advices; i++) {
        call.args[2] = advices[i];
        if (is_kill(verdict(filter.filter, filter.len, &call)))
            (void)__atomic_fetch_or(&lm_os_kills, 1u << advices[i] % 32, __ATOMIC_RELAXED);
    }
}
