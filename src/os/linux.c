/* linux.c: the memory functions of os.h for Linux (x86-64 and aarch64, kernel 4.17 or newer).
 *
 * Together with the other linux_*.c, it is the only part of the project that knows Linux. Every
 * system call is made by instruction, not by libc (see lm_syscall), and most of them through
 * lm_linux_call (linux.h). Once started, loam depends on mmap, madvise and futex alone. It
 * calls clone, membarrier, mremap, mprotect, mincore and process_vm_readv only while the program
 * has not shut itself in (see override/doors.c).
 *
 * No thread-local variable may be used here, because the worker has none. The file is compiled
 * without stack protector for the same reason.
 */
#define _GNU_SOURCE 1 /* mremap's flags */
#include "os/linux.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* In tests, faulty.c defines the names of os.h and calls these functions. */
#if LOAM_OS_FAULTY
#define LINUX_PORT(name) lm_linux_##name
uintptr_t LINUX_PORT(place)(size_t *bytes, bool *reserved);
void *LINUX_PORT(reserve)(size_t bytes);
lm_commit_t LINUX_PORT(commit)(void *at, size_t bytes, bool reserved);
bool LINUX_PORT(purge)(void *at, size_t bytes);
bool LINUX_PORT(move)(void *from, size_t old_bytes, void *to, size_t new_bytes, bool *hole);
bool LINUX_PORT(protect)(void *at, size_t bytes, bool allow);
bool LINUX_PORT(unguard)(void *at, size_t bytes, bool shut_in);
bool LINUX_PORT(mark)(void *at, size_t bytes);
bool LINUX_PORT(unmark)(void *at, size_t bytes);
#else
#define LINUX_PORT(name) lm_os_##name
#endif

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

lm_os_counts_t lm_os_counts;

/* For assertions: an address of a page, whatever the size of pages; a range that is not empty, in
 * pages or in units of os.h. */
#define IS_PAGE(at) ((uintptr_t)(at) % 4096 == 0)
#define IS_PAGES(at, bytes) ((bytes) > 0 && IS_PAGE((uintptr_t)(at) | (bytes)))
#define IS_UNITS(at, bytes) ((bytes) > 0 && ((uintptr_t)(at) | (bytes)) % LM_OS_UNIT == 0)

/* Counts a system call. Relaxed: the numbers are statistics. */
LM_INLINE void linux_count(long n) {
    (void)lm_add_relaxed(&lm_os_counts.calls, 1);
    if (n == SYS_mmap) (void)lm_add_relaxed(&lm_os_counts.maps, 1);
    if (n == SYS_munmap) (void)lm_add_relaxed(&lm_os_counts.unmaps, 1);
    if (n == SYS_madvise) (void)lm_add_relaxed(&lm_os_counts.advices, 1);
}

LM_NOINLINE __attribute__((section("loam_calls"))) intptr_t
lm_linux_call(long n, intptr_t a, intptr_t b, intptr_t c, intptr_t d, intptr_t e) {
    linux_count(n);
    return lm_syscall(n, a, b, c, d, e, 0);
}

static intptr_t linux_map(void *at, size_t bytes, int protection, int flags) {
    LM_ASSERT(IS_PAGE(at) && bytes > 0);
    return lm_linux_call(SYS_mmap, (intptr_t)at, (intptr_t)bytes, protection,
                         flags | MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

/* Calls madvise and returns its result. Returns -ENOSYS without a call if a filter kills for the
 * advice. */
static intptr_t advise(const void *at, size_t bytes, int advice) {
    LM_ASSERT(IS_PAGE(at));
    bool asks = lm_ask_begin(); /* if false, the filter is known by now */
    intptr_t got = lm_os_advice_kills(advice)
                       ? -ENOSYS
                       : lm_linux_call3(SYS_madvise, (intptr_t)at, (intptr_t)bytes, advice);
    if (asks) lm_ask_end();
    return got;
}

/* ---- Memory ---- */

/* Chooses an address in the middle of the address space. The kernel puts programs, libraries and
 * maps at its ends and leaves the middle empty. An arena there can grow in place without reserving
 * anything, so RLIMIT_AS, strict overcommit, mlockall and VSZ count only what is in use. The
 * address of the main stack shows how large the space is: 47 bits on x86-64, 39 to 48 on aarch64.
 * Returns 0 iff the space is too small. */
static uintptr_t place_in_the_middle(size_t *bytes) {
    uintptr_t on_main_stack = lm_os_main_top();
    size_t quarter = (size_t)1 << (lm_log2(on_main_stack | 4) - 1);
    if (quarter < ((size_t)1 << 36)) return 0;
    if (*bytes > quarter) *bytes = quarter;
    return lm_align_down(quarter + lm_os_random() % quarter, 2 * LM_MIB);
}

uintptr_t LINUX_PORT(place)(size_t *bytes, bool *reserved) {
    *reserved = false;
    uintptr_t place = LM_TSAN ? 0 : place_in_the_middle(bytes);
    /* This also shows whether the system allows the address at all (an emulator or a tool may
     * not). */
    if (place != 0 && LINUX_PORT(commit)((void *)place, LM_OS_UNIT, false) == LM_COMMIT_DONE)
        return place;
    /* Otherwise take the largest range that the system will reserve. ThreadSanitizer knows where
     * libc's maps lie, and those are no larger than 64 GiB. */
    if (LM_TSAN && *bytes > 64 * LM_GIB) *bytes = 64 * LM_GIB;
    for (; *bytes >= 64 * LM_MIB; *bytes /= 2) {
        intptr_t at = linux_map(NULL, *bytes + 2 * LM_MIB, PROT_NONE, 0);
        if (lm_linux_failed(at)) continue;
        place = lm_align_up((uintptr_t)at, 2 * LM_MIB);
        *reserved = LINUX_PORT(commit)((void *)place, LM_OS_UNIT, true) == LM_COMMIT_DONE;
        if (*reserved) return place;
        (void)lm_linux_call3(SYS_munmap, at, (intptr_t)(*bytes + 2 * LM_MIB), 0);
    }
    return 0;
}

void *LINUX_PORT(reserve)(size_t bytes) {
    LM_ASSERT(IS_UNITS(NULL, bytes));
    size_t align = bytes >= 2 * LM_MIB ? 2 * LM_MIB : LM_OS_UNIT;
    if (bytes > (size_t)PTRDIFF_MAX - align) return NULL;
    intptr_t found = linux_map(NULL, bytes + align, PROT_NONE, 0);
    if (lm_linux_failed(found)) return NULL;
    /* The parts before and after the aligned range served only to find it. */
    uintptr_t whole = (uintptr_t)found, at = lm_align_up(whole, align), end = at + bytes;
    LM_ASSERT(at >= whole && end <= whole + bytes + align);
    if (at > whole) (void)lm_linux_call3(SYS_munmap, found, (intptr_t)(at - whole), 0);
    if (whole + align > at)
        (void)lm_linux_call3(SYS_munmap, (intptr_t)end, (intptr_t)(whole + align - at), 0);
    return (void *)at;
}

lm_commit_t LINUX_PORT(commit)(void *at, size_t bytes, bool reserved) {
    LM_ASSERT(IS_UNITS(at, bytes));
    (void)lm_add_relaxed(&lm_os_counts.commits, 1); /* relaxed: a statistic */
    intptr_t got =
        linux_map(at, bytes, PROT_READ | PROT_WRITE, reserved ? MAP_FIXED : MAP_FIXED_NOREPLACE);
    if (got == (intptr_t)at) return LM_COMMIT_DONE;
    if (lm_linux_failed(got)) return got == -EEXIST ? LM_COMMIT_TAKEN : LM_COMMIT_NO_MEMORY;
    /* An old kernel took the address as a hint. */
    (void)lm_linux_call3(SYS_munmap, got, (intptr_t)bytes, 0);
    return LM_COMMIT_TAKEN;
}

/* If a sandbox forbids madvise, with whatever error it was told to return, the kernel rejects even
 * an empty range. In that case new memory replaces the old. That costs more: the lock of the
 * process's map is taken exclusively, and page tables are built anew. */
bool LINUX_PORT(purge)(void *at, size_t bytes) {
    LM_ASSERT(IS_PAGES(at, bytes));
    if (advise(at, bytes, MADV_DONTNEED) == 0) return true;
    if (advise(at, 0, MADV_DONTNEED) == 0) return false; /* locked memory */
    return !lm_linux_failed(linux_map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED));
}

int lm_os_unlock(const void *at, size_t bytes) {
    return (int)lm_linux_call3(SYS_munlock, (intptr_t)at, (intptr_t)bytes, 0);
}

int lm_os_unlock_all(void) { return (int)lm_linux_call1(SYS_munlockall, 0); }

bool LINUX_PORT(protect)(void *at, size_t bytes, bool allow) {
    LM_ASSERT(IS_PAGES(at, bytes));
    int protection = allow ? PROT_READ | PROT_WRITE : PROT_NONE;
    return lm_linux_call3(SYS_mprotect, (intptr_t)at, (intptr_t)bytes, protection) == 0;
}

/* Memory of different advice is not joined, and MADV_RANDOM has no other effect on anonymous
 * memory. */
void lm_os_keep_apart(void *at, size_t bytes) { (void)advise(at, bytes, MADV_RANDOM); }

/* It fails if the kernel has no huge pages; nothing is lost then. */
void lm_os_no_huge_pages(void *at, size_t bytes) { (void)advise(at, bytes, MADV_NOHUGEPAGE); }

void lm_os_huge_pages(void *at, size_t bytes) { (void)advise(at, bytes, MADV_HUGEPAGE); }

#ifndef MADV_POPULATE_WRITE /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

bool lm_os_populate(void *at, size_t bytes) {
    return !lm_linux_failed(advise(at, bytes, MADV_POPULATE_WRITE));
}

static size_t resident_pages(const void *at, size_t bytes) {
    unsigned char pages[512] = {0}; /* per call; the worker's stack is small */
    size_t page_bytes = lm_os_page_bytes(), left = bytes / page_bytes, count = 0;
    LM_ASSERT((uintptr_t)at % page_bytes == 0);
    for (uintptr_t from = (uintptr_t)at; left > 0;) {
        size_t n = left < sizeof pages ? left : sizeof pages;
        if (lm_linux_failed(lm_linux_call3(SYS_mincore, (intptr_t)from, (intptr_t)(n * page_bytes),
                                           (intptr_t)pages)))
            return SIZE_MAX;
        for (size_t i = 0; i < n; i++) count += pages[i] & 1u;
        from += n * page_bytes;
        left -= n;
    }
    LM_ASSERT(count <= bytes / page_bytes);
    return count;
}

size_t lm_os_resident_pages(const void *at, size_t bytes) {
    if (!lm_ask_begin()) return SIZE_MAX;
    size_t count = lm_os_filtered() ? SIZE_MAX : resident_pages(at, bytes);
    lm_ask_end();
    return count;
}

bool lm_os_resident(const void *at) {
    uintptr_t page = lm_align_down((uintptr_t)at, lm_os_page_bytes());
    if (!lm_ask_begin()) return false;
    bool resident = resident_pages((void *)page, lm_os_page_bytes()) == 1;
    lm_ask_end();
    return resident;
}

bool LINUX_PORT(unguard)(void *at, size_t bytes, bool shut_in) {
    LM_ASSERT(IS_PAGES(at, bytes));
    if (shut_in) {
        /* A sandbox that returns an error instead of killing may allow mprotect. If there is no
         * memory, mprotect would not help. */
        intptr_t got = linux_map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED);
        if (!lm_linux_failed(got) || got == -ENOMEM) return !lm_linux_failed(got);
    }
    return !lm_linux_failed(
        lm_linux_call3(SYS_mprotect, (intptr_t)at, (intptr_t)bytes, PROT_READ | PROT_WRITE));
}

#ifndef MADV_GUARD_INSTALL /* Linux 6.13 */
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

bool LINUX_PORT(mark)(void *at, size_t bytes) {
    LM_ASSERT(IS_PAGES(at, bytes));
    return !lm_linux_failed(advise(at, bytes, MADV_GUARD_INSTALL));
}

bool LINUX_PORT(unmark)(void *at, size_t bytes) {
    LM_ASSERT(IS_PAGES(at, bytes));
    return !lm_linux_failed(advise(at, bytes, MADV_GUARD_REMOVE));
}

void lm_os_back_huge(void *at) {
    LM_ASSERT((uintptr_t)at % (2 * LM_MIB) == 0);
    lm_os_huge_pages(at, 2 * LM_MIB);
    *(volatile char *)at = 0;
    /* Memory that is there stays; purged memory stays purged. */
    lm_os_no_huge_pages(at, 2 * LM_MIB);
}

bool lm_os_release(void *at, size_t bytes, bool reserved) {
    LM_ASSERT(((uintptr_t)at | bytes) % LM_OS_UNIT == 0);
    return !lm_linux_failed(reserved
                                ? linux_map(at, bytes, PROT_NONE, MAP_FIXED)
                                : lm_linux_call3(SYS_munmap, (intptr_t)at, (intptr_t)bytes, 0));
}

static bool remap(void *from, size_t old_bytes, void *to, size_t new_bytes) {
    return !lm_linux_failed(lm_linux_call(SYS_mremap, (intptr_t)from, (intptr_t)old_bytes,
                                          (intptr_t)new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                                          (intptr_t)to));
}

enum { REFUSALS_MOST = 64 };

/* Moves a range piece by piece, if the source lies in several of the kernel's maps: memory that was
 * moved here and memory that it grew into are never joined. Kernels from 6.17 on take such a range
 * at once. For others the borders are found by halving. The pieces of one map become one again.
 * Returns the bytes moved, counted from the start. */
static size_t remap_pieces(char *from, size_t bytes, char *to, unsigned *refusals) {
    LM_ASSERT(IS_PAGES(from, bytes) && IS_PAGE(to) && *refusals < REFUSALS_MOST);
    intptr_t got = lm_linux_call(SYS_mremap, (intptr_t)from, (intptr_t)bytes, (intptr_t)bytes,
                                 MREMAP_MAYMOVE | MREMAP_FIXED, (intptr_t)to);
    if (!lm_linux_failed(got)) return bytes;
    size_t half = lm_align_up(bytes / 2, lm_os_page_bytes());
    if (got != -EFAULT || half == bytes || ++*refusals == REFUSALS_MOST) return 0;
    size_t done = remap_pieces(from, half, to, refusals);
    LM_ASSERT(done <= half && half < bytes);
    if (done < half) return done;
    return half + remap_pieces(from + half, bytes - half, to + half, refusals);
}

/* Maps a range that a move has left, or may have left, without memory. A sandbox may refuse to
 * replace mappings, and yet allow new ones; if the range is then taken, it was never unmapped.
 * Returns false iff the range is still a hole. */
static bool fill_hole(void *at, size_t bytes) {
    if (!lm_linux_failed(linux_map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED))) return true;
    intptr_t got = linux_map(at, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
    if (got == (intptr_t)at || got == -EEXIST) return true;
    /* An old kernel took the address as a hint. */
    if (!lm_linux_failed(got)) (void)lm_linux_call3(SYS_munmap, got, (intptr_t)bytes, 0);
    return false;
}

/* Undoes a move of `bytes` bytes. Pages that the kernel does not move back are copied. */
static void move_back(char *from, size_t bytes, char *to) {
    unsigned refusals = 0;
    size_t done = remap_pieces(to, bytes, from, &refusals);
    LM_ASSERT(done <= bytes);
    if (done == bytes || !fill_hole(from + done, bytes - done)) return;
    __builtin_memcpy(from + done, to + done, bytes - done);
}

static bool move(void *from, size_t old_bytes, void *to, size_t new_bytes, bool *hole) {
    bool moved = remap(from, old_bytes, to, new_bytes);
    if (!moved) {
        /* Kernels before 6.17 unmap the target even if they then refuse the move, as for a source
         * of several mappings. */
        *hole = !fill_hole(to, new_bytes);
        if (*hole) return false;
        unsigned refusals = 0;
        size_t done = remap_pieces((char *)from, old_bytes, (char *)to, &refusals);
        LM_ASSERT(done <= old_bytes);
        moved = done == old_bytes;
        if (!moved && done > 0) move_back((char *)from, done, (char *)to);
    }
    *hole = !(moved ? fill_hole(from, old_bytes) : fill_hole(to, new_bytes));
    return moved;
}

bool LINUX_PORT(move)(void *from, size_t old_bytes, void *to, size_t new_bytes, bool *hole) {
    *hole = false;
    LM_ASSERT(IS_UNITS(from, old_bytes) && IS_UNITS(to, new_bytes) && old_bytes <= new_bytes);
    /* The ranges do not overlap. */
    LM_ASSERT((char *)from + old_bytes <= (char *)to || (char *)to + new_bytes <= (char *)from);
    if (!lm_ask_begin()) return false; /* mremap may be forbidden by now */
    bool moved = move(from, old_bytes, to, new_bytes, hole);
    lm_ask_end();
    return moved;
}
