/* 
 * reserve_at_start.c - memory that options reserve before main: it is there, it is used first, and
 * what the system has not costs one line, and no memory.
 *
 * Catches: options without effect; a reservation that nothing is allocated from; a warning for each
 * page; a start that fails where the system has no huge pages or no such node.
 *
 * The program starts itself with an environment and reads the statistics that the started one
 * prints at its end.
 */
#include "works.h"

static int child(void) {
    /* Held until the end, so that the statistics show where it lies. */
    static char *volatile held[200];
    for (int i = 0; i < 200; i++) {
        held[i] = malloc(100 * WORKS_KIB);
        if (held[i] == NULL) return 1;
        memset(held[i], i, 4096);
    }
    works_exercise(1, 200);
    return 0;
}

/* Starts it; the lines of its standard error but those of statistics go to *lines; what the arenas
 * have. */
static size_t run(char *a, char *b, size_t *free_kib, int *lines, char *text, size_t bytes) {
    char *environment[] = {(char *)"LOAM_SHOW_STATS=json", a, b, NULL};
    char *arguments[] = {(char *)works_self(), (char *)"--child", NULL};
    int status = works_capture(arguments[0], arguments, environment, 2, text, bytes);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s: status %d: %.200s", a, status, text);
    size_t all = 0, left = 0;
    const char *row = strstr(text, "\"arenas_bytes\": ");
    CHECK(row != NULL &&
              sscanf(row, "\"arenas_bytes\": %zu,\n \"arenas_free_bytes\": %zu", &all, &left) == 2,
          "no numbers of arenas: %.200s", text);
    size_t kib = all / WORKS_KIB;
    *free_kib = left / WORKS_KIB;
    *lines = 0;
    for (const char *line = text; *line != '\0'; line = strchr(line, '\n') + 1) {
        *lines += strncmp(line, "loam: ", 6) == 0;
        if (strchr(line, '\n') == NULL) break;
    }
    return kib;
}

int main(int argc, char **argv) {
    (void)argv;
    if (argc > 1) return child();
    works_require_loam();
    works_limit(60);
    if (works_any_allocator()) SKIP("it is about loam's own options");
    static char text[65536];
    size_t left;
    int lines;
    char one_node[] = "LOAM_USE_NUMA_NODES=1";

    char nothing[] = "LOAM_RESERVE_OS_MEMORY=0";
    CHECK(run(nothing, NULL, &left, &lines, text, sizeof text) == 0, "nothing was asked for");

    char memory[] = "LOAM_RESERVE_OS_MEMORY=64MiB";
    size_t kib = run(memory, one_node, &left, &lines, text, sizeof text);
    CHECK(kib == 64 * 1024, "%zu KiB are reserved, not 64 MiB", kib);
    CHECK(left <= kib - 20000, "20 MB are held, and %zu KiB of %zu are free", left, kib);
    CHECK(lines == 0, "it said: %.200s", text);

    /* Whether or not the machine has a pool. */
    char pages[] = "LOAM_RESERVE_LARGE_OS_PAGES=16";
    kib = run(pages, one_node, &left, &lines, text, sizeof text);
    CHECK(lines <= 1, "%d lines: %.300s", lines, text);
    if (lines == 0) {
        CHECK(kib == 32 * 1024, "%zu KiB are reserved, not 16 pages of 2 MiB", kib);
        CHECK(left <= kib - 20000, "20 MB are held, and %zu KiB of %zu are free", left, kib);
    } else {
        CHECK(kib < 32 * 1024 && kib % 2048 == 0, "%zu KiB are reserved of 32 MiB", kib);
        CHECK(strstr(text, "loam: of 32 MiB wanted in huge pages of 2 MiB, ") != NULL, "%.200s",
              text);
    }

    char huge[] = "LOAM_RESERVE_HUGE_OS_PAGES=1", at[] = "LOAM_RESERVE_HUGE_OS_PAGES_AT=0";
    kib = run(huge, at, &left, &lines, text, sizeof text);
    CHECK(lines <= 1, "%d lines: %.300s", lines, text);
    CHECK((kib == 1024 * 1024) == (lines == 0) || kib % 2048 == 0, "%zu KiB are reserved", kib);
    char quiet[] = "LOAM_SHOW_ERRORS=0";
    (void)run(huge, quiet, &left, &lines, text, sizeof text);
    CHECK(lines == 0, "it said: %.300s", text);

    char far[] = "LOAM_RESERVE_HUGE_OS_PAGES_AT=15";
    kib = run(pages, far, &left, &lines, text, sizeof text);
    CHECK(lines <= 1, "%d lines: %.300s", lines, text);
    if (kib == 0 && strstr(text, "loam: of 32 MiB wanted") == NULL)
        CHECK(strstr(text,
                     "loam: LOAM_RESERVE_LARGE_OS_PAGES: 32 MiB cannot be had, or there is no "
                     "such node") != NULL,
              "a node that is not there: %.200s", text);

    char bad[] = "LOAM_RESERVE_OS_MEMORY=much";
    kib = run(bad, NULL, &left, &lines, text, sizeof text);
    CHECK(kib == 0 && lines == 1, "%d lines, %zu KiB: %.200s", lines, kib, text);
    return 0;
}
