/* child.h: runs a test's body in a process of its own.
 *
 * Loam places its arena once a process: what happens when that, or the first heap, is refused can
 * be seen only where nobody has allocated before. The child's failed expectations are printed by it
 * and fail the parent's test. The parent must not have called loam. A child that hangs is ended by
 * the test's time limit, not here.
 */
#ifndef LOAM_TESTS_FAULTY_CHILD_H
#define LOAM_TESTS_FAULTY_CHILD_H

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace faulty {

/* What the child found out besides passing or failing, for the parent. */
struct Found {
    size_t calls;    /* of the system, in all */
    size_t refused;  /* allocations that came back NULL */
    size_t failures; /* calls that failed on purpose */
};

template <typename Body> Found in_child(Body body) {
    Found found = {0, 0, 0};
    int pipes[2];
    if (pipe(pipes) != 0) {
        ADD_FAILURE() << "no pipe";
        return found;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        Found mine = {0, 0, 0};
        body(mine);
        bool told = write(pipes[1], &mine, sizeof mine) == static_cast<ssize_t>(sizeof mine);
        fflush(stdout);
        _exit(!told || testing::Test::HasFailure() ? 1 : 0);
    }
    close(pipes[1]);
    bool heard = read(pipes[0], &found, sizeof found) == static_cast<ssize_t>(sizeof found);
    close(pipes[0]);
    int status = 0;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    EXPECT_TRUE(heard && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "the child's status is " << status
        << (WIFSIGNALED(status) ? ": ended by a signal" : ": see its lines above");
    return found;
}

} // namespace faulty

#endif
