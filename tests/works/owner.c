/* 
 * owner.c - a library whose hidden operator new takes memory from an allocator of its own, and
 * whose delete is loam's, gets its objects back.
 *
 * Catches: "free of a pointer that loam did not allocate" in a program that works on libc's malloc,
 * and an allocator that hands over what nobody owns instead of reporting it.
 */
#include "works.h"

#include <pthread.h>

static size_t (*owner_deletes)(size_t count);

static void *delete_many(void *result) {
    *(size_t *)result = owner_deletes(100);
    return NULL;
}

/* In a child: frees what nobody allocated. */
static void free_nothing(void) {
    static char nobody[64];
    signal(SIGABRT, SIG_DFL);
    close(2);
    free(nobody + 16);
    _exit(0);
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(30);
    CHECK(argc == 2, "usage: owner LIBRARY");
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(library != NULL, "%s", dlerror());
    if (dlsym(RTLD_DEFAULT, "_dl_find_object") == NULL) SKIP("needs glibc 2.35");
    void *(*owner_new)(size_t bytes);
    *(void **)&owner_deletes = dlsym(library, "owner_deletes");
    *(void **)&owner_new = dlsym(library, "owner_new");
    CHECK(owner_deletes != NULL && owner_new != NULL, "%s", dlerror());

    void *object = owner_new(1000);
    CHECK(malloc_usable_size(object) >= 1000, "the exported operator new is not loam's");
    free(object);

    size_t back = owner_deletes(100);
    CHECK(back == 400, "%zu of 400 objects came back", back);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, delete_many, &back) == 0, "no thread");
    pthread_join(thread, NULL);
    CHECK(back == 400, "%zu of 400 objects of a thread came back", back);

    pid_t pid = fork();
    CHECK(pid >= 0, "fork: %s", strerror(errno));
    if (pid == 0) free_nothing();
    int status = works_wait(pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "the child ended with %d", status);
    return 0;
}
