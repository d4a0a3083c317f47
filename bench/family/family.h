// family.h: what every table of the special-purpose matrix shares: its rows, its columns, its
// clock.
//
// A table is a program. Rows are allocators, columns are things asked of them, and a cell is one
// run of the program, alone in its process, so that no order of cells can decide a figure:
//
//     region --list                                   the table as one JSON object
//     region boost-pool small [--n N] [--huge never|madvise]
//     {"phase":"create","ops":1,"seconds":...,"cpu_s":...,"faults":...,"major_faults":...}
//     {"phase":"use","ops":20000000,...}
//
// Exit status: 0 measured; 1 the allocator failed or something read back wrong, one line says what;
// 2 wrong use; 77 that rival is not installed, the line names its package.
//
// To add a row: one file, with
//
//     static void small(const FamilyRequest *asked) {
//         FamilyClock clock = family_start();
//         ...                                           // what is measured: a phase
//         family_stop(&clock, "use", asked->n);
//     }
//     static const FamilyCell cells[] = {{"small", small}, FAMILY_END};
//     FAMILY_ROW(my_row, "my-pool", "1.0", "what it is", FAMILY_RIVAL, cells)
//
// and one line in CMakeLists.txt. Rows come in the order of those lines. A column that a row cannot
// do is left out of its cells, and the table shows a dash there.
//
// The table itself is defined once, by its own file: `const FamilyTable family_table = {...}`.
// It cannot compare allocators inside one process: that is the mistake it was made to avoid.
#ifndef LOAM_BENCH_FAMILY_H
#define LOAM_BENCH_FAMILY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <time.h>

#ifdef __cplusplus
extern "C" {
#define FAMILY_NORETURN [[noreturn]]
#else
#define FAMILY_NORETURN _Noreturn
#endif

// ---- a table ------------------------------------------------------------------------------------

typedef struct {
    const char *name; // without blanks: it is typed on command lines
    const char *what;
    uint64_t n;      // how many operations, unless --n says otherwise
    size_t bytes_of; // memory that one operation adds, 0 if it adds none; see family_begin below
} FamilyColumn;

typedef struct {
    const char *seed;  // "000"
    const char *title; // one line
    const FamilyColumn *columns;
    size_t count;
} FamilyTable;

extern const FamilyTable family_table;

// ---- a row --------------------------------------------------------------------------------------

typedef struct {
    uint64_t n;
    bool huge;                  // --huge madvise: ask for huge pages where the allocator can
    const FamilyColumn *column; // for a function that serves several columns
} FamilyRequest;

typedef struct {
    const char *column;
    void (*run)(const FamilyRequest *asked);
} FamilyCell;

// clang-format off
#define FAMILY_END {NULL, NULL}
// clang-format on

typedef enum {
    FAMILY_RIVAL,     // somebody's library as it is installed
    FAMILY_RENDITION, // a seed's own rules, written anew: the column "before"
    FAMILY_LOAM,
    FAMILY_LIMIT, // no allocator: what the machine leaves to be won
} FamilyKind;

typedef struct FamilyRow {
    const char *name; // without blanks
    const char *version;
    const char *what;
    FamilyKind kind;
    const FamilyCell *cells; // the last is FAMILY_END
    struct FamilyRow *next;
} FamilyRow;

void family_add(FamilyRow *row);

#define FAMILY_ROW(id, name, version, what, kind, cells) \
    static FamilyRow id = {name, version, what, kind, cells, NULL}; \
    __attribute__((constructor)) static void id##_add(void) { family_add(&id); }

#define FAMILY_STRING_(token) #token
#define FAMILY_STRING(token) FAMILY_STRING_(token) // of a macro's value

// ---- a phase: what is measured ------------------------------------------------------------------

typedef struct {
    struct timespec wall;
    struct rusage used;
} FamilyClock;

FamilyClock family_start(void);

// Ends the phase and prints its line. The next phase needs its own family_start.
void family_stop(const FamilyClock *clock, const char *phase, uint64_t ops);

// A further figure for the line of the next family_stop (at most 8): family_also("pages", 12).
void family_also(const char *name, double value);

// ---- helpers ------------------------------------------------------------------------------------

// Ends the process with status 1 and one line on stderr.
FAMILY_NORETURN void family_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

// The pointer itself; ends the process if there is none.
static inline void *family_need(void *pointer) {
    if (__builtin_expect(!pointer, 0)) {
        family_fail("out of memory");
    }
    return pointer;
}

// Zeroed memory from the system for a cell's own tables of pointers, already touched: neither
// the allocator under test nor the faults of a phase see it.
void *family_table_of(size_t count, size_t size);

// Keeps the compiler from dropping what made this value.
static inline void family_consume(const void *pointer) {
    __asm__ volatile("" : : "r"(pointer) : "memory");
}

// xorshift64*: own numbers, the same everywhere. A state is never 0.
static inline uint64_t family_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545F4914F6CDD1DULL;
}

// Runs one cell by its names, as main does after the command line is read: for a row whose code has
// to run inside somebody else's program. Returns the exit status.
int family_run(const char *row, const char *column, uint64_t n, bool huge);

#ifdef __cplusplus
}
#endif
#endif
