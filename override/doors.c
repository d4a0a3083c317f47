/* doors.c: calls whose result depends on how many threads a process has, or that shut it in.
 *
 * loam's worker is a thread that the program does not know. unshare and setns refuse some
 * namespaces to processes of several threads. setuid and its family leave threads that libc does
 * not know with their old rights. A seccomp filter may kill a thread that starts another one. So
 * each of these calls ends the worker first, waits for it, and lets no other start before it has
 * returned. Once prctl sets a filter, or the promise that precedes one, there is no worker any
 * more: memory is purged by the threads that free it. syscall.c has the door of the same calls made
 * by number.
 *
 * POSIX lets signal handlers call setuid and setgid, whatever they have interrupted: a door takes
 * no lock that malloc takes (span/worker.c), allocates nothing, and asks the dynamic linker for
 * nothing. The next definitions of the calls are looked up once, when this library is initialised.
 * prctl, unshare and setns are system calls and no more. The setuid family is libc's, which makes
 * the call in each of its threads.
 *
 * Only in libloam.so: in a static program there is no next definition. It cannot see system calls
 * that a program makes by instruction: for those see span/worker.c. A call of the setuid family
 * before this library is initialised, from the initialiser of another one, does ask the dynamic
 * linker, as there is no other way to libc's function.
 */
#define _GNU_SOURCE 1 /* setns and the like */
#include "doors.h"

#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdarg.h>
#include <unistd.h>

/* <sys/prctl.h> is one system's. These numbers never change. */
enum { SET_SECCOMP = 22, SET_NO_NEW_PRIVS = 38, MODE_FILTER = 2 };

typedef void function_t(void);

/* Every call of libc's that has a door. */
#define DOORS(door) \
    door(setuid, (uid_t uid), (uid)) door(setgid, (gid_t gid), (gid)) \
        door(seteuid, (uid_t euid), (euid)) door(setegid, (gid_t egid), (egid)) \
            door(setreuid, (uid_t ruid, uid_t euid), (ruid, euid)) \
                door(setregid, (gid_t rgid, gid_t egid), (rgid, egid)) \
                    door(setresuid, (uid_t ruid, uid_t euid, uid_t suid), (ruid, euid, suid)) \
                        door(setresgid, (gid_t rgid, gid_t egid, gid_t sgid), (rgid, egid, sgid)) \
                            door(setgroups, (size_t count, const gid_t *groups), (count, groups))

#define NAME(name, parameters, arguments) AT_##name,
enum { DOORS(NAME) NAMES };
#define TEXT(name, parameters, arguments) [AT_##name] = #name,
static const char *const names[NAMES] = {DOORS(TEXT)};

static function_t
    *found[NAMES]; /* atomic: the next definitions; NULL: not looked up yet, or none */

static function_t *look_up(unsigned at) {
    /* ISO C has no conversion from object to function pointers; POSIX promises it. */
    union {
        void *object;
        function_t *function;
    } next = {lm_next_definition(names[at])};
    lm_store_relaxed(&found[at], next.function); /* relaxed: a word by itself, always the same */
    return next.function;
}

static __attribute__((constructor)) void look_up_all(void) {
    for (unsigned at = 0; at < NAMES; at++) (void)look_up(at);
}

static function_t *next(unsigned at) {
    function_t *function = lm_load_relaxed(&found[at]); /* relaxed: as above */
    return function != NULL ? function : look_up(at);
}

/* Defines call(type a, ...), which ends the worker and then runs the next definition. */
#define DEFINE(name, parameters, arguments) \
    LM_EXPORT int name parameters { \
        int(*real) parameters = (int(*) parameters)next(AT_##name); \
        if (real == NULL) { \
            errno = ENOSYS; \
            return -1; \
        } \
        lm_purge_pause(); \
        int result = real arguments; \
        lm_purge_resume(); /* keeps errno */ \
        return result; \
    }
DOORS(DEFINE)

/* ---- System calls ---- */

LM_EXPORT int unshare(int flags) {
    lm_purge_pause();
    int result = lm_os_unshare(flags);
    lm_purge_resume(); /* keeps errno */
    return result;
}

LM_EXPORT int setns(int fd, int type) {
    lm_purge_pause();
    int result = lm_os_setns(fd, type);
    lm_purge_resume(); /* keeps errno */
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
