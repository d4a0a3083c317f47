/* 
 * prctl_at_load.c - a library whose constructor starts a thread that names itself, and waits for
 * it.
 *
 * Catches: an allocator that asks the dynamic linker for the real prctl at each call. The thread
 * then waits for the lock of the linker, which dlopen holds around the constructor, for ever.
 *
 * Compiled twice: as the library (LIBRARY), and as the program that opens it with an error of the
 * dynamic linker pending.
 */
#include "works.h"

#include <pthread.h>
#include <sys/prctl.h>

#if LIBRARY
static void *name_itself(void *result) {
    *(int *)result = prctl(PR_SET_NAME, "named", 0, 0, 0);
    return NULL;
}

__attribute__((constructor)) static void at_load(void) {
    pthread_t thread;
    int result = -1;
    if (pthread_create(&thread, NULL, name_itself, &result) != 0) _exit(3);
    pthread_join(thread, NULL);
    if (result != 0) _exit(4);
}
#else
int main(int argc, char **argv) {
    works_require_loam();
    works_limit(30);
    CHECK(argc == 2, "usage: prctl_at_load LIBRARY");
    CHECK(dlopen("/does/not/exist", RTLD_NOW) == NULL, "a file that must not exist does");
    void *library = dlopen(argv[1], RTLD_NOW);
    CHECK(library != NULL, "%s", dlerror());
    return 0;
}
#endif
