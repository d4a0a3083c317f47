/* late_cxx.c: C++ libraries that come after loam throw bad_alloc, each to its own handlers.
 *
 * A program in C has no C++ library when loam starts. It opens C++ plugins with RTLD_LOCAL, several
 * at a time and again and again, and each runs out of memory in every form of new. The plugins
 * differ in where their C++ library is: a shared one, or one of their own inside. One plugin runs
 * out of memory in a thread that its constructor waits for, while dlopen holds the dynamic linker's
 * lock.
 *
 * Usage: works_late_cxx PLUGIN...
 */
#include "works.h"

#include <gnu/libc-version.h>

typedef int run_t(int what);

enum { ROUNDS = 3, FORMS = 14, MOST = 8, OK = 100 };

static run_t *function_of(void *library, const char *path) {
    union {
        void *object;
        run_t *run;
    } found = {dlsym(library, "late_cxx_run")};
    CHECK(found.run != NULL, "%s has no late_cxx_run", path);
    return found.run;
}

/* The unwinder itself waits for the dynamic linker before glibc 2.35: nothing of loam's would be
 * seen. */
static bool throws_without_locks(void) { return dlsym(RTLD_DEFAULT, "_dl_find_object") != NULL; }

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(50);
    CHECK(argc > 1 && argc - 1 <= MOST, "needs one to %d plugins", MOST);
    CHECK(dlsym(RTLD_DEFAULT, "__cxa_throw") == NULL, "the program has a C++ library already");
    if (throws_without_locks()) setenv("LATE_CXX_CONSTRUCTOR", "1", 1);
    for (int round = 0; round < ROUNDS; round++) {
        void *libraries[MOST];
        for (int i = 1; i < argc; i++) {
            /* In the other order in each second round. */
            const char *path = argv[round % 2 == 0 ? i : argc - i];
            libraries[i - 1] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            CHECK(libraries[i - 1] != NULL, "%s", dlerror());
            run_t *run = function_of(libraries[i - 1], path);
            for (int form = 0; form < FORMS; form++) {
                int result = run(form);
                CHECK(result == OK, "%s, form %d, round %d: %d", path, form, round, result);
            }
        }
        for (int i = 1; i < argc; i++) dlclose(libraries[i - 1]);
    }
    return 0;
}
