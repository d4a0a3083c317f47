/*
 * secure_exec.c - a setuid or setgid program obeys no option from its caller's environment
 * (AT_SECURE).
 *
 * Catches: a library that reads LOAM_... in a program that runs with other rights than its
 * caller's: the caller could make it print, or make it go on after heap corruption
 * (LOAM_ON_ERROR=ignore), in a program that trusts itself.
 *
 * Root copies this program, makes one copy setgid and one setuid root, and runs the first itself
 * and the second as an unprivileged user. As LD_PRELOAD is not obeyed there either, loam must come
 * in by the program's link. A control run of the unchanged program must show that the same
 * environment is obeyed without AT_SECURE.
 */
#include "works.h"

#include <grp.h>
#include <sys/auxv.h>
#include <sys/stat.h>

enum { nobody = 65534, not_secure = 78, not_reachable = 79 };

static char *hostile[] = {(char *)"LOAM_VERBOSE=1",
                          (char *)"LOAM_SHOW_STATS=1",
                          (char *)"LOAM_ON_ERROR=ignore",
                          (char *)"LOAM_SHOW_ERRORS=0",
                          (char *)"LOAM_PURGE_DELAY=abc",
                          (char *)"LOAM_NO_SUCH_OPTION=1",
                          NULL};

static char foreign[4096] __attribute__((aligned(4096)));

/* The program under AT_SECURE: "work" must be silent, "foreign" must end by abort. */
static int child(const char *what, bool secure) {
    if (secure && getauxval(AT_SECURE) == 0) return not_secure;
    if (!secure && getauxval(AT_SECURE) != 0) return not_secure;
    if (!dlsym(RTLD_DEFAULT, "loam_version")) return 1;
    works_exercise(1, 500);
    void *volatile pointer = foreign + 64;
    if (strcmp(what, "foreign") == 0) free(pointer);
    return 0;
}

/* Becomes an unprivileged user and runs `path`. */
static int as_nobody(const char *path, const char *what) {
    if (setgroups(0, NULL) != 0 || setresgid(nobody, nobody, nobody) != 0 ||
        setresuid(nobody, nobody, nobody) != 0)
        return 1;
    Dl_info loam;
    if (access(path, X_OK) != 0 || !dladdr(dlsym(RTLD_DEFAULT, "loam_version"), &loam) ||
        access(loam.dli_fname, R_OK) != 0)
        return not_reachable;
    execle(path, path, "--secure", what, (char *)NULL, hostile);
    return 126;
}

static void copy_self(const char *to, gid_t group, mode_t mode) {
    char text[65536];
    int in = open(works_self(), O_RDONLY | O_CLOEXEC),
        out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    CHECK(in >= 0 && out >= 0, "copying this program to %s: %s", to, strerror(errno));
    ssize_t n;
    while ((n = read(in, text, sizeof text)) > 0) works_write(out, text, (size_t)n);
    CHECK(fchown(out, 0, group) == 0 && fchmod(out, mode) == 0, "chown and chmod of %s: %s", to,
          strerror(errno));
    close(in);
    close(out);
}

/* Runs `arguments` doing first "work" (silent, status 0), then "foreign" (reported, SIGABRT), which
 * it puts in their last place; false where this system does not let the kind of program be
 * tried. */
static bool expect_deaf(const char *kind, char *arguments[], size_t last,
                        char *const environment[]) {
    char text[4096];
    arguments[last] = (char *)"work";
    int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
    if (WIFEXITED(status) &&
        (WEXITSTATUS(status) == not_secure || WEXITSTATUS(status) == not_reachable)) {
        works_say("%s: not tried, %s", kind,
                  WEXITSTATUS(status) == not_secure ? "the system ignores the bit"
                                                    : "an unprivileged user cannot read loam");
        return false;
    }
    works_expect_ok(status, kind);
    CHECK(text[0] == 0, "%s: options were obeyed, or spoken of: %.200s", kind, text);
    arguments[last] = (char *)"foreign";
    status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
          "%s: LOAM_ON_ERROR=ignore was obeyed after freeing a foreign pointer (status %d)", kind,
          status);
    CHECK(text[0] != 0, "%s: LOAM_SHOW_ERRORS=0 was obeyed: a foreign pointer was not reported",
          kind);
    return true;
}

int main(int argc, char **argv) {
    if (argc >= 3 && strcmp(argv[1], "--secure") == 0) return child(argv[2], true);
    if (argc >= 3 && strcmp(argv[1], "--plain") == 0) return child(argv[2], false);
    if (argc >= 4 && strcmp(argv[1], "--as-nobody") == 0) return as_nobody(argv[2], argv[3]);
    works_require_loam();
    works_limit(30);
    if (works_any_allocator()) SKIP("it is about loam's own options");
    if (geteuid() != 0) SKIP("only root can make a program setuid");

    char text[4096];
    char *plain[] = {(char *)works_self(), (char *)"--plain", (char *)"foreign", NULL};
    works_expect_ok(works_capture(plain[0], plain, hostile, 2, text, sizeof text),
                    "the control run, told to ignore errors,");
    CHECK(text[0] != 0,
          "the control run printed nothing: the options in this test have no effect to look for");

    char folder[] = "/tmp/loam-works-XXXXXX", setgid_copy[64], setuid_copy[64];
    CHECK(mkdtemp(folder) != NULL && chmod(folder, 0755) == 0, "mkdtemp: %s", strerror(errno));
    snprintf(setgid_copy, sizeof setgid_copy, "%s/setgid", folder);
    snprintf(setuid_copy, sizeof setuid_copy, "%s/setuid", folder);
    copy_self(setgid_copy, nobody, 02755);
    copy_self(setuid_copy, 0, 04755);
    pid_t pid =
        fork(); /* the checks end the process they fail in; the copies must go all the same */
    if (pid == 0) {
        char *as_group[] = {setgid_copy, (char *)"--secure", NULL, NULL};
        char *as_user[] = {(char *)works_self(), (char *)"--as-nobody", setuid_copy, NULL, NULL};
        char *nothing[] = {NULL}; /* --as-nobody sets the hostile environment for the copy alone */
        bool tried = expect_deaf("a setgid program", as_group, 2, hostile);
        tried |= expect_deaf("a setuid program", as_user, 3, nothing);
        if (!tried) SKIP("this system honours neither the setuid nor the setgid bit in /tmp");
        _exit(0);
    }
    int status = works_wait(pid);
    unlink(setgid_copy);
    unlink(setuid_copy);
    rmdir(folder);
    works_expect_ok(status, "the comparison");
    return 0;
}
