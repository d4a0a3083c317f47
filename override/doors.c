/* doors.c: calls whose result depends on how many threads a process has, or that shut it in.
 *
 * loam's worker is a thread that the program does not know. unshare and setns refuse some namespaces to
 * processes of several threads; setuid and its family leave threads that libc does not know with their
 * old rights; seccomp filters may kill who starts a thread. So each of these ends the worker first, waits
 * for it, and lets no other start before it has returned. After prctl has set a filter, or the promise that precedes
 * one, there is no worker any more: memory is purged by the threads that free it. Only in libloam.so: it needs the next
 * definition of each call. It cannot see system calls made without libc's functions.
 */
#define _GNU_SOURCE 1 /* RTLD_NEXT, setns and the like */
#include "api/api.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdarg.h>
#include <unistd.h>

/* <sys/prctl.h> is one system's: these two numbers are for ever. */
enum { SET_SECCOMP = 22, SET_NO_NEW_PRIVS = 38 };

typedef void function_t(void);

static function_t *next(const char *name) {
    /* ISO C has no conversion from object to function pointers; POSIX promises it. */
    union {
        void *object;
        function_t *function;
    } found = {dlsym(RTLD_NEXT, name)};
    return found.function;
}

/* Defines call(type a, ...), which ends the worker and then runs the next definition. */
#define DOOR(name, parameters, arguments) \
    LM_EXPORT int name parameters { \
        int(*real) parameters = (int(*) parameters)next(#name); \
        if (real == NULL) { \
            errno = ENOSYS; \
            return -1; \
        } \
        lm_purge_pause(); \
        int result = real arguments; \
        lm_purge_resume(); /* keeps errno */ \
        return result; \
    }

DOOR(unshare, (int flags), (flags))
DOOR(setns, (int fd, int type), (fd, type))
DOOR(setuid, (uid_t uid), (uid))
DOOR(setgid, (gid_t gid), (gid))
DOOR(seteuid, (uid_t euid), (euid))
DOOR(setegid, (gid_t egid), (egid))
DOOR(setreuid, (uid_t ruid, uid_t euid), (ruid, euid))
DOOR(setregid, (gid_t rgid, gid_t egid), (rgid, egid))
DOOR(setresuid, (uid_t ruid, uid_t euid, uid_t suid), (ruid, euid, suid))
DOOR(setresgid, (gid_t rgid, gid_t egid, gid_t sgid), (rgid, egid, sgid))
DOOR(setgroups, (size_t count, const gid_t *groups), (count, groups))

LM_EXPORT int prctl(int option, ...);
LM_EXPORT int prctl(int option, ...) {
    va_list list;
    va_start(list, option);
    unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long);
    unsigned long c = va_arg(list, unsigned long), d = va_arg(list, unsigned long);
    va_end(list);
    int (*real)(int, ...) = (int (*)(int, ...))next("prctl");
    if (real == NULL) {
        errno = ENOSYS;
        return -1;
    }
    if (option == SET_SECCOMP || option == SET_NO_NEW_PRIVS) lm_purge_allow(false);
    return real(option, a, b, c, d);
}
