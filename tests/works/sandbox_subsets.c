/*
 * sandbox_subsets.c - whichever of madvise, mmap over existing memory, munmap and mremap a sandbox
 * refuses, loam goes on, keeps what objects hold, and gives freed memory back by what is left.
 *
 * Each of the 16 subsets is tried with three errors: ENOSYS, where loam sees the filter (prctl);
 * EPERM, where it does not (a system call by instruction) but finds it later; EINVAL, where it
 * cannot find it either, because the program was started under another filter, as in a container.
 * A filter holds for the calling thread and those that it starts. One more run refuses all of mmap:
 * then malloc may return NULL, and no more.
 *
 * The debug and the secure build try each subset with one of the errors, in turn: what looks at
 * errors (src/os) is compiled alike in all builds.
 *
 * Catches: an allocator that keeps all that was ever used where madvise fails; one that takes
 * addresses for given back that munmap has refused, and finds itself in its own way.
 */
#include "works.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { madvise_ = 1, map_over = 2, munmap_ = 4, mremap_ = 8, subsets = 16, all_of_mmap = 16 };
enum { objects = 60, each_kib = 700, settle_mib = 24 };
#if LOAM_DEBUG || LOAM_SECURE
enum { one_way = 1 };
#else
enum { one_way = 0 };
#endif

static void set(struct sock_filter *code, unsigned short n, bool told) {
    struct sock_fprog program = {n, code};
    long privileges = told ? prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                           : works_instruction(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L);
    if (privileges != 0 ||
        works_instruction(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0L, &program, 0L, 0L) != 0)
        SKIP("no filter of system calls");
}

/* Only the lower half of a system call's number and arguments is looked at. */
static void refuse(unsigned which, int error, bool told) {
    struct sock_filter code[32];
    unsigned short n = 0;
#define LOAD(field) \
    code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, \
                                             (unsigned)offsetof(struct seccomp_data, field))
#define UNLESS(test, value, skip) \
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | test | BPF_K, value, 0, skip)
#define RETURN(what) code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what)
    unsigned no = SECCOMP_RET_ERRNO | (unsigned)error;
    LOAD(nr);
    if (which & madvise_) {
        UNLESS(BPF_JEQ, SYS_madvise, 1);
        RETURN(no);
    }
    if (which & munmap_) {
        UNLESS(BPF_JEQ, SYS_munmap, 1);
        RETURN(no);
    }
    if (which & mremap_) {
        UNLESS(BPF_JEQ, SYS_mremap, 1);
        RETURN(no);
    }
    if (which & all_of_mmap) {
        UNLESS(BPF_JEQ, SYS_mmap, 1);
        RETURN(no);
    }
    if (which & map_over) {
        UNLESS(BPF_JEQ, SYS_mmap, 3);
        LOAD(args[3]);
        UNLESS(BPF_JSET, MAP_FIXED, 1);
        RETURN(no);
    }
    RETURN(SECCOMP_RET_ALLOW);
    set(code, n, told);
}

static char *object[objects];

static bool fill(size_t bytes, unsigned char seed, bool must) {
    for (int i = 0; i < objects; i++) {
        object[i] = malloc(bytes);
        CHECK(object[i] || !must, "malloc(%zu) returned NULL", bytes);
        if (!object[i]) return false;
        works_fill(object[i], bytes, (unsigned char)(seed + i));
    }
    return true;
}

static void check_and_free(size_t bytes, unsigned char seed) {
    for (int i = 0; i < objects; i++) {
        if (object[i])
            CHECK(works_filled(object[i], bytes, (unsigned char)(seed + i)), "contents changed");
        free(object[i]);
        object[i] = NULL;
    }
}

static void expect_zeros(size_t bytes, bool must) {
    for (int i = 0; i < 20; i++) {
        char *zeros = calloc(1, bytes);
        CHECK(zeros || !must, "calloc(%zu) returned NULL", bytes);
        for (size_t k = 0; zeros && k < bytes; k++) CHECK(zeros[k] == 0, "calloc: not zero");
        object[i] = zeros;
    }
    for (int i = 0; i < 20; i++) free(object[i]);
    memset(object, 0, sizeof object);
}

static void grow(bool must) {
    char *vector = malloc(1000);
    CHECK(vector || !must, "malloc(1000) returned NULL");
    if (!vector) return;
    works_fill(vector, 1000, 9);
    for (size_t bytes = 2000; bytes < 48 * WORKS_MIB; bytes = bytes * 2) {
        char *more = realloc(vector, bytes);
        CHECK(more || !must, "realloc to %zu returned NULL", bytes);
        if (!more) break;
        vector = more;
        vector[bytes - 1] = 1;
    }
    CHECK(works_filled(vector, 1000, 9), "realloc lost contents");
    free(vector);
}

static void run(unsigned which, int error, bool told) {
    works_limit(50);
    bool must = !(which & all_of_mmap);
    size_t bytes = each_kib * WORKS_KIB, before = works_anonymous_bytes();
    (void)fill(bytes, 1, true);
    refuse(which, error, told);
    check_and_free(bytes, 1);
    for (int round = 0; round < 3; round++) {
        (void)fill(bytes + (size_t)round * 100000, 2, must);
        check_and_free(bytes + (size_t)round * 100000, 2);
        grow(must);
        expect_zeros(bytes / 2, must);
        works_exercise((uint64_t)round + 1, must ? 500 : 0);
    }
    /* What neither call may give back stays; without mmap no more is promised than NULL. */
    if (((which & madvise_) && (which & map_over)) || (which & all_of_mmap)) return;
    size_t most = before + settle_mib * WORKS_MIB + WORKS_KEPT;
    size_t now = works_settled(works_anonymous_bytes, most);
    CHECK(now <= most, "refused %u with error %d: %zu MiB stay", which, error, now / WORKS_MIB);
}

/* The program anew, under a filter that allows everything. */
static void run_within(unsigned which, int error) {
    char subset[12], number[12];
    struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    snprintf(subset, sizeof subset, "%u", which);
    snprintf(number, sizeof number, "%d", error);
    set(all, 1, false);
    execl(works_self(), works_self(), subset, number, (char *)NULL);
    CHECK(false, "exec: %s", strerror(errno));
}

int main(int count, char **arguments) {
    works_require_loam();
    works_limit(110);
    static const int errors[] = {ENOSYS, EPERM, EINVAL};
    free(malloc(100));
    if (count == 3) {
        run((unsigned)atoi(arguments[1]), atoi(arguments[2]), false);
        return 0;
    }
    for (unsigned which = 0; which <= subsets; which++) {
        for (int way = 0; way < 3; way++) {
            bool told = way == 0;
            if (which == 0 && way > 0) break;
            if (one_way && way != (int)(which % 3)) continue;
            pid_t pid = fork();
            CHECK(pid >= 0, "fork: %s", strerror(errno));
            if (pid == 0) {
                if (way == 2) run_within(which, errors[way]);
                run(which, errors[way], told);
                _exit(0);
            }
            char what[64];
            snprintf(what, sizeof what, "subset %u, error %d, told %d", which, errors[way], told);
            works_expect_ok(works_wait(pid), what);
        }
    }
    return 0;
}
