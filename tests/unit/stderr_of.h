/* stderr_of.h: the text that a piece of code writes to standard error, caught by a pipe.
 *
 * A pipe holds 64 KiB: code that writes more would hang.
 */
#ifndef LOAM_TESTS_UNIT_STDERR_OF_H
#define LOAM_TESTS_UNIT_STDERR_OF_H

#include <unistd.h>

#include <cstdio>
#include <string>

namespace unit {

template <typename Code> std::string stderr_of(Code code) {
    int ends[2];
    if (pipe(ends) != 0) return "no pipe";
    fflush(stderr);
    int saved = dup(2);
    dup2(ends[1], 2);
    close(ends[1]);
    code();
    fflush(stderr);
    dup2(saved, 2); /* the pipe's last writing end closes with it */
    close(saved);
    std::string text;
    char part[512];
    for (ssize_t n; (n = read(ends[0], part, sizeof part)) > 0;) {
        text.append(part, static_cast<size_t>(n));
    }
    close(ends[0]);
    return text;
}

} // namespace unit

#endif
