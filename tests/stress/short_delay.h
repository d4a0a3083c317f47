/* short_delay.h: makes the worker of a stress test look every 10 ms.
 *
 * The library reads its options once, perhaps before main. So a constructor sets the option and
 * executes the program anew.
 */
#ifndef LOAM_TESTS_STRESS_SHORT_DELAY_H
#define LOAM_TESTS_STRESS_SHORT_DELAY_H

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace stress {

__attribute__((constructor)) inline void start_with_short_delay(int, char **argv) {
    if (getenv("LOAM_PURGE_DELAY") != nullptr) return;
    setenv("LOAM_PURGE_DELAY", "5", 1);
    execv("/proc/self/exe", argv);
    perror("stress: cannot start itself again with LOAM_PURGE_DELAY=5");
    _exit(2);
}

} // namespace stress

#endif
