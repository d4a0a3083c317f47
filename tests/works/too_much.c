/* 
 * too_much.c - what the machine can never hold is refused, as the kernel's default policy has it.
 *
 * Linux refuses a mapping larger than all memory and swap (vm.overcommit_memory 0). So does loam,
 * for every function that allocates; a realloc that fails leaves its object as it was. What fits
 * into memory several times over is not refused before it is touched, however much of it there is.
 *
 * Catches: an allocator that hands out a tebibyte on a laptop, so that the program ends by the
 * kernel's hand instead of seeing NULL; one that asks for so much at once that a sane request
 * fails.
 */
#include "works.h"

#include <sys/sysinfo.h>

static size_t hide(size_t bytes) {
    volatile size_t hidden = bytes;
    return hidden;
}

static int policy(void) {
    char text[8] = {0};
    int file = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0) SKIP("the policy cannot be read");
    close(file);
    return atoi(text);
}

static void refused(size_t bytes) {
    char *kept = malloc(100000);
    void *p = NULL;
    memset(kept, 7, 100000);
    errno = 0;
    CHECK(malloc(hide(bytes)) == NULL && errno == ENOMEM, "malloc(%zu)", bytes);
    errno = 0;
    CHECK(calloc(hide(bytes) / 64, 64) == NULL && errno == ENOMEM, "calloc of %zu", bytes);
    errno = 0;
    CHECK(aligned_alloc(4096, hide(bytes)) == NULL && errno == ENOMEM, "aligned_alloc(%zu)", bytes);
    CHECK(posix_memalign(&p, 1 << 20, hide(bytes)) == ENOMEM && p == NULL, "posix_memalign");
    errno = 0;
    CHECK(realloc(kept, hide(bytes)) == NULL && errno == ENOMEM, "realloc(%zu)", bytes);
    for (int i = 0; i < 100000; i++) CHECK(kept[i] == 7, "byte %d after a failed realloc", i);
    free(kept);
}

int main(void) {
    works_require_loam();
    if (policy() != 0) SKIP("vm.overcommit_memory is not 0");
    struct sysinfo info;
    CHECK(sysinfo(&info) == 0, "sysinfo: %s", strerror(errno));
    size_t all = ((size_t)info.totalram + info.totalswap) * info.mem_unit;
    if (all >= (size_t)1 << 43) SKIP("a machine with too much memory for this test");
    refused(all + all / 2 + WORKS_MIB * 1024);
    refused(all * 4);
    enum { parts = 6 };
    size_t fits = all / 3;
    char *part[parts];
    for (int i = 0; i < parts; i++) {
        part[i] = malloc(hide(fits));
        CHECK(part[i] != NULL, "malloc(%zu MiB), number %d", fits / WORKS_MIB, i);
        part[i][0] = part[i][fits - 1] = 1;
    }
    for (int i = 0; i < parts; i++) free(part[i]);
    void *p = malloc(hide(1000));
    CHECK(p != NULL, "malloc(1000)");
    free(p);
    return 0;
}
