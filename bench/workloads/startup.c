// startup.c: processes that do next to nothing, many of them, one after the other.
//
// Asks: what does an allocator cost a program that hardly allocates: its loading, its constructors,
// its first block, its exit? Most processes of a system are of this kind. Each child allocates,
// writes and frees one block. The parent, which only starts the next child, is this very program:
// the peak of memory is that of such a process. Cannot tell the parts of the start from each other.
#include "workload.h"

#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static uint64_t child;

static WlTally be_a_child(void) {
    unsigned char *block = wl_malloc(100);
    wl_write(block, 100, 1);
    uint64_t read = wl_check(block, 100, 1);
    free(block);
    return (WlTally){2, read};
}

static WlTally start_children(void) {
    char *command[] = {"startup", "--child", "yes", NULL};
    WlTally tally = {0, 0};
    for (uint64_t left = wl_scaled(400); left > 0; left--) {
        pid_t process;
        int status, error = posix_spawn(&process, "/proc/self/exe", NULL, NULL, command, environ);
        if (error != 0) wl_fail("cannot start a child: %s", strerror(error));
        while (waitpid(process, &status, 0) < 0) {
            if (errno != EINTR) wl_fail("cannot wait for a child: %s", strerror(errno));
        }
        if (status != 0) wl_fail("a child ended with the wait status %#x", (unsigned)status);
        tally.ops++;
        tally.sum++;
    }
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--child", &child, 0, 0, "no|yes"}, {0}};
    wl_begin(argc, argv, "startup", WL_SINGLE, options);
    if (!child) return wl_end(start_children());
    return be_a_child().sum == 1 ? 0 : 1;
}
