/* faulty.c: an operating system that fails on command, in front of the real one; tests only.
 *
 *   span/ ── lm_os_commit ──> faulty.c ── lm_linux_commit ──> linux.c  (built with LOAM_OS_FAULTY)
 *                                └── the script says no: false, and nothing was done
 *
 * It also checks that callers keep the rules of os.h: addresses and sizes in whole units. It
 * intercepts the calls that can fail; calls that cannot fail go to the port directly. Only a purge
 * can fail half-way, at memory that counts as locked.
 */
#include "os/faulty.h"

uintptr_t lm_linux_place(size_t *bytes, bool *reserved);
void *lm_linux_reserve(size_t bytes);
lm_commit_t lm_linux_commit(void *at, size_t bytes, bool reserved);
bool lm_linux_purge(void *at, size_t bytes);
bool lm_linux_move(void *from, size_t old_bytes, void *to, size_t new_bytes, bool *hole);
bool lm_linux_worker_start(void (*entry)(void));
uint64_t lm_linux_nodes(void);
unsigned lm_linux_node(void);
bool lm_linux_bind(void *at, size_t bytes, unsigned node);
bool lm_linux_pool_pages(void *at, size_t bytes, size_t page_bytes, int node);
uint64_t lm_linux_ms(void);
bool lm_linux_protect(void *at, size_t bytes, bool allow);
bool lm_linux_unguard(void *at, size_t bytes, bool shut_in);
bool lm_linux_mark(void *at, size_t bytes);
bool lm_linux_unmark(void *at, size_t bytes);

/* Relaxed throughout: the numbers order nothing, and tests read them after joining the threads that
 * counted. */
static struct {
    lm_fault_t kind;
    size_t first, count; /* calls first .. first + count - 1 fail; count 0: none */
    size_t calls[LM_FAULT_KINDS], failures[LM_FAULT_KINDS];
} script;

void lm_faulty_fail(lm_fault_t kind, size_t first, size_t count) {
    LM_ASSERT((unsigned)kind < LM_FAULT_KINDS && first > 0);
    lm_store_relaxed(&script.count, 0);
    for (size_t i = 0; i < LM_FAULT_KINDS; i++) {
        lm_store_relaxed(&script.calls[i], 0);
        lm_store_relaxed(&script.failures[i], 0);
    }
    lm_store_relaxed(&script.kind, kind);
    lm_store_relaxed(&script.first, first);
    lm_store_relaxed(&script.count, count);
}

void lm_faulty_clear(void) { lm_faulty_fail(LM_FAULT_ANY, 1, 0); }

size_t lm_faulty_calls(lm_fault_t kind) {
    LM_ASSERT((unsigned)kind < LM_FAULT_KINDS);
    return lm_load_relaxed(&script.calls[kind]);
}
size_t lm_faulty_failures(lm_fault_t kind) {
    LM_ASSERT((unsigned)kind < LM_FAULT_KINDS);
    return lm_load_relaxed(&script.failures[kind]);
}

/* Counts one call. Returns whether the script makes it fail. */
static bool fails(lm_fault_t kind) {
    LM_ASSERT((unsigned)kind < LM_FAULT_ANY);
    size_t number[LM_FAULT_KINDS] = {0};
    number[kind] = lm_add_relaxed(&script.calls[kind], 1) + 1;
    number[LM_FAULT_ANY] = lm_add_relaxed(&script.calls[LM_FAULT_ANY], 1) + 1;
    size_t n = number[lm_load_relaxed(&script.kind)];
    /* n is 0 for kinds that the script does not name, and so below any `first`. */
    size_t first = lm_load_relaxed(&script.first);
    if (n < first || n - first >= lm_load_relaxed(&script.count)) return false;
    lm_add_relaxed(&script.failures[kind], 1);
    lm_add_relaxed(&script.failures[LM_FAULT_ANY], 1);
    return true;
}

/* Aborts unless [at, at+bytes) is a non-empty range of whole units. */
static void expect_units(const char *function, const void *at, size_t bytes, size_t unit) {
    LM_ASSERT(lm_is_pow2(unit));
    if (bytes != 0 && bytes % unit == 0 && (uintptr_t)at % unit == 0) return;
    lm_report("loam: %s of %zu bytes at %p: not in units of %zu", function, bytes, at, unit);
    lm_port_abort();
}

uintptr_t lm_os_place(size_t *bytes, bool *reserved) {
    return fails(LM_FAULT_PLACE) ? 0 : lm_linux_place(bytes, reserved);
}

void *lm_os_reserve(size_t bytes) {
    expect_units("reserve", NULL, bytes, LM_OS_UNIT);
    return fails(LM_FAULT_RESERVE) ? NULL : lm_linux_reserve(bytes);
}

lm_commit_t lm_os_commit(void *at, size_t bytes, bool reserved) {
    expect_units("commit", at, bytes, LM_OS_UNIT);
    return fails(LM_FAULT_COMMIT) ? LM_COMMIT_NO_MEMORY : lm_linux_commit(at, bytes, reserved);
}

/* Relaxed: tests set locks while no memory is dirty. */
static struct {
    uintptr_t at;
    size_t bytes;
} locks[LM_FAULTY_LOCKS];
static size_t locked;

void lm_faulty_lock(const void *at, size_t bytes) {
    size_t n = bytes > 0 ? lm_load_relaxed(&locked) : 0;
    if (bytes > 0) {
        LM_ASSERT(n < LM_FAULTY_LOCKS);
        locks[n].at = (uintptr_t)at;
        locks[n++].bytes = bytes;
    }
    lm_store_relaxed(&locked, n);
}

/* Returns the bytes from `at` on, at most `bytes`, before the first locked page. */
static size_t before_locked(uintptr_t at, size_t bytes) {
    for (size_t i = 0; i < lm_load_relaxed(&locked); i++) {
        if (locks[i].at >= at + bytes || at >= locks[i].at + locks[i].bytes) continue;
        bytes = locks[i].at > at ? locks[i].at - at : 0;
    }
    return bytes;
}

bool lm_os_purge(void *at, size_t bytes) {
    expect_units("purge", at, bytes, lm_os_page_bytes());
    if (fails(LM_FAULT_PURGE)) return false;
    size_t free_bytes = before_locked((uintptr_t)at, bytes);
    LM_ASSERT(free_bytes <= bytes && free_bytes % lm_os_page_bytes() == 0);
    if (free_bytes == bytes) return lm_linux_purge(at, bytes);
    if (free_bytes > 0) (void)lm_linux_purge(at, free_bytes);
    lm_add_relaxed(&script.failures[LM_FAULT_PURGE], 1);
    return false;
}

bool lm_os_move(void *from, size_t old_bytes, void *to, size_t new_bytes, bool *hole) {
    *hole = false;
    expect_units("move from", from, old_bytes, LM_OS_UNIT);
    expect_units("move to", to, new_bytes, LM_OS_UNIT);
    return !fails(LM_FAULT_MOVE) && lm_linux_move(from, old_bytes, to, new_bytes, hole);
}

bool lm_os_worker_start(void (*entry)(void)) {
    return !fails(LM_FAULT_WORKER) && lm_linux_worker_start(entry);
}

/* ---- Another machine ---- */

static lm_faulty_machine_t machine;
static uint64_t passed_ms;
static size_t asked;
static struct {
    size_t calls, bytes;
} bound[64];

void lm_faulty_machine(const lm_faulty_machine_t *other) {
    machine = *other;
    passed_ms = 0;
    asked = 0;
    for (size_t i = 0; i < 64; i++) bound[i].calls = bound[i].bytes = 0;
}

size_t lm_faulty_binds(unsigned node, size_t *bytes) {
    LM_ASSERT(node < 64);
    if (bytes != NULL) *bytes = lm_load_relaxed(&bound[node].bytes);
    return lm_load_relaxed(&bound[node].calls);
}

size_t lm_faulty_asked(void) { return lm_load_relaxed(&asked); }

uint64_t lm_os_nodes(void) {
    (void)lm_add_relaxed(&asked, 1);
    return machine.nodes != 0 ? machine.nodes : lm_linux_nodes();
}

unsigned lm_os_node(void) {
    (void)lm_add_relaxed(&asked, 1);
    return machine.nodes != 0 ? lm_load_relaxed(&machine.node) : lm_linux_node();
}

bool lm_os_bind(void *at, size_t bytes, unsigned node) {
    expect_units("bind", at, bytes, lm_os_page_bytes());
    if (fails(LM_FAULT_BIND)) return false;
    if (node < 64) {
        (void)lm_add_relaxed(&bound[node].calls, 1);
        (void)lm_add_relaxed(&bound[node].bytes, bytes);
    }
    return machine.nodes != 0 || lm_linux_bind(at, bytes, node);
}

bool lm_os_pool_pages(void *at, size_t bytes, size_t page_bytes, int node) {
    expect_units("pages of the pool", at, bytes, page_bytes);
    if (fails(LM_FAULT_POOL)) return false;
    if (!machine.has_pool) return lm_linux_pool_pages(at, bytes, page_bytes, node);
    size_t *left = page_bytes > 2 * LM_MIB ? &machine.pages_1g : &machine.pages_2m;
    if (*left < bytes / page_bytes) return false;
    *left -= bytes / page_bytes;
    passed_ms += machine.ms;
    if (node >= 0) (void)lm_os_bind(at, bytes, (unsigned)node);
    return lm_linux_commit(at, bytes, true) == LM_COMMIT_DONE;
}

uint64_t lm_os_ms(void) { return lm_linux_ms() + passed_ms; }

bool lm_os_protect(void *at, size_t bytes, bool allow) {
    expect_units("protect", at, bytes, lm_os_page_bytes());
    return !fails(LM_FAULT_PROTECT) && lm_linux_protect(at, bytes, allow);
}

bool lm_os_unguard(void *at, size_t bytes, bool shut_in) {
    expect_units("unguard", at, bytes, lm_os_page_bytes());
    return !fails(LM_FAULT_PROTECT) && lm_linux_unguard(at, bytes, shut_in);
}

bool lm_os_mark(void *at, size_t bytes) {
    expect_units("mark", at, bytes, lm_os_page_bytes());
    return !fails(LM_FAULT_PROTECT) && lm_linux_mark(at, bytes);
}

bool lm_os_unmark(void *at, size_t bytes) {
    expect_units("unmark", at, bytes, lm_os_page_bytes());
    return !fails(LM_FAULT_UNMARK) && lm_linux_unmark(at, bytes);
}
