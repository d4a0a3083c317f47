/* leaks_library.cpp: a library of leaks.cpp, with an agent of its own (leaks.h). */
#include "leaks.h"

#define JOIN(a, b) a##b
#define NAMED(a, b) JOIN(a, b)

#ifdef LEAKS_PADDING
/* Code and tables of another length than those of the other plugin. */
extern "C" __attribute__((visibility("default"))) int leaks_padding(int a) {
    volatile int values[40];
    for (int i = 0; i < 40; i++) values[i] = a * i;
    return values[a % 40] + values[(a + 7) % 40];
}
#endif

extern "C" __attribute__((visibility("default"))) void *NAMED(leaks_main_, LEAKS_NAME)() {
    void *volatile first = in_main();
    return first;
}
