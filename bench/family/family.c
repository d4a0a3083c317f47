// family.c: the command line of a table's program, its clock, and the list of its rows. See
// family.h.
//
// Before a cell runs, as much memory as it will need is taken from the system, touched and given
// back: on a virtual machine, memory that lay free may have gone back to the host, and whoever
// touches it first pays milliseconds a megabyte for that, whatever his allocator.
//
// --huge never forbids this process transparent huge pages. --huge madvise lets glibc's malloc
// ask for them (a tunable that is read at the start, so the program starts itself again);
// allocators that map memory themselves ask or do not ask, that is their business.

#include "family.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef FAMILY_ABSENT // "row=package;row=package", from CMakeLists.txt
#define FAMILY_ABSENT ""
#endif

enum { ALSO_MOST = 8, HOST_SLACK = 2 };

static const char absent_rows[] = FAMILY_ABSENT;
static FamilyRow *first_row;
static FamilyRow **last_row = &first_row;

static struct {
    const char *name;
    double value;
} also[ALSO_MOST];
static int also_count;

void family_add(FamilyRow *row) {
    *last_row = row;
    last_row = &row->next;
}

void family_fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("family: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

// ---- phases -------------------------------------------------------------------------------------

FamilyClock family_start(void) {
    FamilyClock clock;
    getrusage(RUSAGE_SELF, &clock.used);
    clock_gettime(CLOCK_MONOTONIC, &clock.wall);
    return clock;
}

static double seconds_of(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec * 1e-6;
}

void family_stop(const FamilyClock *clock, const char *phase, uint64_t ops) {
    struct timespec wall;
    struct rusage used;
    clock_gettime(CLOCK_MONOTONIC, &wall);
    getrusage(RUSAGE_SELF, &used);
    double seconds = (double)(wall.tv_sec - clock->wall.tv_sec) +
                     (double)(wall.tv_nsec - clock->wall.tv_nsec) * 1e-9;
    double user = seconds_of(used.ru_utime) - seconds_of(clock->used.ru_utime);
    double system = seconds_of(used.ru_stime) - seconds_of(clock->used.ru_stime);
    printf("{\"phase\":\"%s\",\"ops\":%llu,\"seconds\":%.9f,\"cpu_s\":%.6f,\"faults\":%ld,"
           "\"major_faults\":%ld",
           phase, (unsigned long long)ops, seconds, user + system,
           used.ru_minflt - clock->used.ru_minflt, used.ru_majflt - clock->used.ru_majflt);
    for (int i = 0; i < also_count; i++) {
        printf(",\"%s\":%.9g", also[i].name, also[i].value);
    }
    also_count = 0;
    puts("}");
}

void family_also(const char *name, double value) {
    if (also_count == ALSO_MOST) {
        family_fail("more than %d further figures", ALSO_MOST);
    }
    also[also_count].name = name;
    also[also_count++].value = value;
}

// ---- memory -------------------------------------------------------------------------------------

static void *map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        family_fail("%zu bytes: %s", bytes, strerror(errno));
    }
    return memory;
}

void *family_table_of(size_t count, size_t size) {
    size_t bytes = count * size + 1;
    void *table = map(bytes);
    madvise(table, bytes, MADV_HUGEPAGE); // a wish: fewer misses by the table itself
    memset(table, 0, bytes);
    return table;
}

// By the same pages that the cell will have: others lie elsewhere in the host's memory.
static void touch_host(uint64_t bytes, bool huge) {
    if (!bytes) {
        return;
    }
    char *memory = (char *)map(bytes);
    if (huge) {
        madvise(memory, bytes, MADV_HUGEPAGE);
    }
    for (uint64_t at = 0; at < bytes; at += 4096) {
        memory[at] = 1;
    }
    munmap(memory, bytes);
}

// ---- the table ----------------------------------------------------------------------------------

static const FamilyColumn *column_named(const char *name) {
    for (size_t i = 0; i < family_table.count; i++) {
        if (!strcmp(family_table.columns[i].name, name)) {
            return &family_table.columns[i];
        }
    }
    return NULL;
}

static FamilyRow *row_named(const char *name) {
    FamilyRow *row = first_row;
    while (row && strcmp(row->name, name)) {
        row = row->next;
    }
    return row;
}

// The package that would bring an absent row, into `package`.
static bool absent(const char *name, char *package, size_t size) {
    size_t length = strlen(name);
    for (const char *at = absent_rows; *at; at += strcspn(at, ";"), at += *at == ';') {
        if (!strncmp(at, name, length) && at[length] == '=') {
            at += length + 1;
            snprintf(package, size, "%.*s", (int)strcspn(at, ";"), at);
            return true;
        }
    }
    return false;
}

int family_run(const char *row_name, const char *column_name, uint64_t n, bool huge) {
    const FamilyColumn *column = column_named(column_name);
    if (!column) {
        fprintf(stderr, "family: no column \"%s\" in table %s\n", column_name, family_table.seed);
        return 2;
    }
    const FamilyRow *row = row_named(row_name);
    if (!row) {
        char package[128];
        if (absent(row_name, package, sizeof package)) {
            fprintf(stderr, "family: %s is not installed: it needs %s\n", row_name, package);
            return 77;
        }
        fprintf(stderr, "family: no row \"%s\" in table %s\n", row_name, family_table.seed);
        return 2;
    }
    const FamilyCell *cell = row->cells;
    while (cell->column && strcmp(cell->column, column_name)) {
        cell++;
    }
    if (!cell->column) {
        fprintf(stderr, "family: %s has no column \"%s\"\n", row_name, column_name);
        return 2;
    }
    FamilyRequest asked = {n ? n : column->n, huge, column};
    touch_host(asked.n * column->bytes_of * HOST_SLACK, huge);
    cell->run(&asked);
    if (fflush(stdout)) {
        family_fail("standard output: %s", strerror(errno));
    }
    return 0;
}

// ---- the command line ---------------------------------------------------------------------------

#ifndef FAMILY_NO_MAIN // a program of somebody else's has one
static void put_string(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text);
    }
    putchar('"');
}

static void put_member(const char *name, const char *text) {
    printf("\"%s\":", name);
    put_string(text);
}

static void list_table(void) {
    static const char *const kinds[] = {"rival", "rendition", "loam", "limit"};
    putchar('{');
    put_member("table", family_table.seed);
    putchar(',');
    put_member("title", family_table.title);
    printf(",\"columns\":[");
    for (size_t i = 0; i < family_table.count; i++) {
        const FamilyColumn *column = &family_table.columns[i];
        printf("%s{", i ? "," : "");
        put_member("name", column->name);
        putchar(',');
        put_member("what", column->what);
        printf(",\"n\":%llu}", (unsigned long long)column->n);
    }
    printf("],\"rows\":[");
    for (const FamilyRow *row = first_row; row; row = row->next) {
        printf("%s{", row == first_row ? "" : ",");
        put_member("name", row->name);
        putchar(',');
        put_member("version", row->version);
        putchar(',');
        put_member("what", row->what);
        putchar(',');
        put_member("kind", kinds[row->kind]);
        printf(",\"columns\":[");
        for (const FamilyCell *cell = row->cells; cell->column; cell++) {
            printf("%s", cell == row->cells ? "" : ",");
            put_string(cell->column);
        }
        printf("]}");
    }
    printf("],\"absent\":[");
    for (const char *at = absent_rows; *at; at += *at == ';') {
        size_t name = strcspn(at, "="), all = strcspn(at, ";");
        printf("%s{\"name\":\"%.*s\",\"package\":\"%.*s\"}", at == absent_rows ? "" : ",",
               (int)name, at, (int)(all - name - 1), at + name + 1);
        at += all;
    }
    puts("]}");
}

static void wrong_use(const char *program) {
    fprintf(stderr, "usage: %s --list | ROW COLUMN [--n N] [--huge never|madvise]\n", program);
    exit(2);
}

static void choose_pages(char **argv, bool huge) {
    static const char tunable[] = "glibc.malloc.hugetlb=1";
    if (prctl(PR_SET_THP_DISABLE, !huge, 0, 0, 0)) {
        family_fail("transparent huge pages: %s", strerror(errno));
    }
    const char *set = getenv("GLIBC_TUNABLES");
    if (!huge || (set && strstr(set, tunable))) {
        return;
    }
    if (setenv("GLIBC_TUNABLES", tunable, 1)) {
        family_fail("%s", strerror(errno));
    }
    execv("/proc/self/exe", argv);
    family_fail("/proc/self/exe: %s", strerror(errno));
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        list_table();
        return fflush(stdout) ? 1 : 0;
    }
    if (argc < 3) {
        wrong_use(argv[0]);
    }
    uint64_t n = 0;
    bool huge = false;
    for (int i = 3; i < argc; i += 2) {
        if (i + 1 == argc) {
            wrong_use(argv[0]);
        }
        const char *value = argv[i + 1];
        char *end;
        if (!strcmp(argv[i], "--n")) {
            errno = 0;
            n = strtoull(value, &end, 10);
            if (*end || !n || errno || *value == '-' || n > UINT64_C(1) << 40) {
                fprintf(stderr, "family: --n %s: a number from 1 to 2^40 is needed\n", value);
                return 2;
            }
        } else if (!strcmp(argv[i], "--huge")) {
            huge = !strcmp(value, "madvise");
            if (!huge && strcmp(value, "never") != 0) {
                fprintf(stderr, "family: --huge %s: never or madvise is needed\n", value);
                return 2;
            }
        } else {
            wrong_use(argv[0]);
        }
    }
    choose_pages(argv, huge);
    return family_run(argv[1], argv[2], n, huge);
}
#endif
