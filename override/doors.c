/* doors.c: calls whose result depends on the number of threads of the process, or that shut it in.
 *
 * loam's worker is a thread that the program does not know. unshare and setns refuse some
 * namespaces to processes of several threads. setuid and its family leave threads that libc does
 * not know with their old rights. A seccomp filter may kill a thread that starts another one. So
 * each of these calls ends the worker first, waits for its end, and lets no other start before the
 * call has returned. Once prctl sets a filter, or the promise that precedes one, there is no worker
 * any more: threads that free memory purge it. syscall.c has the door of the same calls by number.
 *
 * POSIX lets signal handlers call setuid and setgid, whatever they have interrupted. So a door
 * takes no lock that malloc takes (span/worker.c), allocates nothing, and asks the dynamic linker
 * for nothing. The next definitions of the calls are looked up once, when this library is
 * initialised. prctl, unshare and setns are only system calls. The setuid family is libc's, which
 * makes the call in each of its threads.
 *
 * Only libloam.so has doors: in a static program there is no next definition. A door cannot see
 * system calls that a program makes by instruction; see span/worker.c for those. A call of the
 * setuid family before this library is initialised, from the initialiser of another library, does
 * ask the dynamic linker, because there is no other way to libc's function.
 */
#define _GNU_SOURCE 1 /* setns and the like */
#include "doors.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdarg.h>
#include <unistd.h>

/* Defined here, because <sys/prctl.h> exists on Linux only. These numbers never change. */
enum { SET_SECCOMP = 22, SET_NO_NEW_PRIVS = 38, MODE_FILTER = 2 };

typedef void doors_function_t(void);

/* Every function of libc that has a door. */
#define DOORS(door) \
    door(setuid, (uid_t uid), (uid)) door(setgid, (gid_t gid), (gid)) \
        door(seteuid, (uid_t euid), (euid)) door(setegid, (gid_t egid), (egid)) \
            door(setreuid, (uid_t ruid, uid_t euid), (ruid, euid)) \
                door(setregid, (gid_t rgid, gid_t egid), (rgid, egid)) \
                    door(setresuid, (uid_t ruid, uid_t euid, uid_t suid), (ruid, euid, suid)) \
                        door(setresgid, (gid_t rgid, gid_t egid, gid_t sgid), (rgid, egid, sgid)) \
                            door(setgroups, (size_t count, const gid_t *groups), (count, groups))

#define DOORS_NAME(name, parameters, arguments) AT_##name,
enum { DOORS(DOORS_NAME) NAMES };
#define DOORS_TEXT(name, parameters, arguments) [AT_##name] = #name,
static const char *const doors_names[NAMES] = {DOORS(DOORS_TEXT)};

/* Atomic: the next definitions; NULL: not looked up yet, or none. */
static doors_function_t *found[NAMES];

static doors_function_t *doors_look_up(unsigned at) {
    /* Converts an object pointer to a function pointer, which POSIX promises and ISO C does not. */
    union {
        void *object;
        doors_function_t *function;
    } next = {lm_next_definition(doors_names[at])};
    /* Relaxed: an independent word, which is always the same. */
    lm_store_relaxed(&found[at], next.function);
    return next.function;
}

static __attribute__((constructor)) void look_up_all(void) {
    for (unsigned at = 0; at < NAMES; at++) (void)doors_look_up(at);
}

static doors_function_t *next(unsigned at) {
    /* Relaxed: an independent word, which is always the same. */
    doors_function_t *function = lm_load_relaxed(&found[at]);
    return function != NULL ? function : doors_look_up(at);
}

/* Defines name(...), which ends the worker and then calls the next definition. */
#define DEFINE(name, parameters, arguments) \
    LM_EXPORT int name parameters { \
        int(*real) parameters = (int(*) parameters)next(AT_##name); \
        if (real == NULL) { \
            errno = ENOSYS; \
            return -1; \
        } \
        lm_purge_pause(); \
        int result = real arguments; \
        lm_purge_resume(); /* preserves errno */ \
        return result; \
    }
DOORS(DEFINE)

/* ---- System calls ---- */

LM_EXPORT int unshare(int flags) {
    lm_purge_pause();
    int result = lm_os_unshare(flags);
    lm_purge_resume(); /* preserves errno */
    return result;
}

LM_EXPORT int setns(int fd, int type) {
    lm_purge_pause();
    int result = lm_os_setns(fd, type);
    lm_purge_resume(); /* preserves errno */
    return result;
}

void lm_prctl_shuts_in(int option, intptr_t a, intptr_t b) {
    bool filter = option == SET_SECCOMP && a == MODE_FILTER;
    if (option != SET_NO_NEW_PRIVS && option != SET_SECCOMP) return;
    if (filter && b == 0) return;
    if (filter) lm_os_filter_seen((const void *)b);
    lm_purge_shut_in();
}

LM_EXPORT int prctl(int option, ...);
LM_EXPORT int prctl(int option, ...) {
    va_list list;
    va_start(list, option);
    intptr_t a = va_arg(list, intptr_t), b = va_arg(list, intptr_t);
    intptr_t c = va_arg(list, intptr_t), d = va_arg(list, intptr_t);
    va_end(list);
    lm_prctl_shuts_in(option, a, b);
    return lm_os_prctl(option, a, b, c, d);
}
