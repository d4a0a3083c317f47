/* glibc.c: settings for glibc's malloc: mallopt, MALLOC_* and GLIBC_TUNABLES=glibc.malloc.*.
 *
 *   mallopt(M_PERTURB, 85)                     ┐
 *   MALLOC_PERTURB_=85                         ├─> row of `rows` ──> done, or, with
 *   GLIBC_TUNABLES=glibc.malloc.perturb=85     ┘   LOAM_VERBOSE, one line: ignored
 *
 * Most of them concern parts of glibc's malloc that loam does not have. A row says what loam does
 * instead. Sources have the precedence that they have in glibc: GLIBC_TUNABLES over MALLOC_*,
 * mallopt over both. LOAM_* takes precedence over all of them. A process with more rights than its
 * caller reads nothing from the environment. Nothing here allocates. docs/guide/glibc.md has the
 * table for users. Invariant: each row is in that table, and in tests/works/glibc_settings.c.
 */
#include "api/api.h"
#include "api/option_text.h"
#include "loam/libc.h"
#include "loam/options.h"

#include <limits.h>
#include <string.h>

/* The largest value that glibc accepts for M_MXFAST. */
enum { MXFAST_MOST = 80 * sizeof(size_t) / 4 };

typedef enum effect { IGNORED, PERTURB, TRIM, HUGE } effect_t;

typedef struct row {
    const char *tunable;     /* its name after "glibc.malloc." */
    const char *environment; /* environment variable; NULL: it has none */
    const char *name;        /* mallopt's parameter; NULL: it has none */
    int parameter;
    effect_t effect;
    const char *instead; /* what loam does instead */
} glibc_row_t;

static const glibc_row_t glibc_rows[] = {
    {"perturb", "MALLOC_PERTURB_", "M_PERTURB", M_PERTURB, PERTURB, ""},
    {"trim_threshold", "MALLOC_TRIM_THRESHOLD_", "M_TRIM_THRESHOLD", M_TRIM_THRESHOLD, TRIM,
     "free memory goes back after LOAM_PURGE_DELAY; only -1 has a meaning, never"},
    {"hugetlb", NULL, NULL, 0, HUGE,
     "huge pages are used as LOAM_LARGE_OS_PAGES says, those of the system's pool as "
     "LOAM_RESERVE_LARGE_OS_PAGES does"},
    {"check", "MALLOC_CHECK_", "M_CHECK_ACTION", M_CHECK_ACTION, IGNORED,
     "each build checks what it can, and LOAM_ON_ERROR says what a mistake does"},
    {"top_pad", "MALLOC_TOP_PAD_", "M_TOP_PAD", M_TOP_PAD, IGNORED,
     "the arena grows by a sixteenth of its length"},
    {"mmap_max", "MALLOC_MMAP_MAX_", "M_MMAP_MAX", M_MMAP_MAX, IGNORED,
     "objects of more than 64 KiB are spans of the arena"},
    {"mmap_threshold", "MALLOC_MMAP_THRESHOLD_", "M_MMAP_THRESHOLD", M_MMAP_THRESHOLD, IGNORED,
     "objects of more than 64 KiB are spans of the arena"},
    {"arena_max", "MALLOC_ARENA_MAX", "M_ARENA_MAX", M_ARENA_MAX, IGNORED,
     "each thread has a heap, and all have one arena"},
    {"arena_test", "MALLOC_ARENA_TEST", "M_ARENA_TEST", M_ARENA_TEST, IGNORED,
     "each thread has a heap, and all have one arena"},
    {"mxfast", NULL, "M_MXFAST", M_MXFAST, IGNORED,
     "freed blocks of every size to 64 KiB wait in lists of their thread"},
    {"tcache_count", NULL, NULL, 0, IGNORED,
     "freed blocks of every size to 64 KiB wait in lists of their thread"},
    {"tcache_max", NULL, NULL, 0, IGNORED,
     "freed blocks of every size to 64 KiB wait in lists of their thread"},
    {"tcache_unsorted_limit", NULL, NULL, 0, IGNORED,
     "freed blocks of every size to 64 KiB wait in lists of their thread"},
};
enum { ROWS = sizeof glibc_rows / sizeof glibc_rows[0] };

static const char NAMES[] = "glibc.malloc.", TUNABLES[] = "GLIBC_TUNABLES=";

static bool is_verbose(void) {
    size_t verbose = 0;
    return loam_option_get_number("VERBOSE", &verbose) == 0 && verbose == 1;
}

/* ---- Effects of values ---- */

/* True iff trimming is off because glibc's parameter says so. Atomic, relaxed: an independent
 * word. */
static LM_AT_START bool glibc_keeps;

static void trim(bool never) {
    if (lm_load_relaxed(&glibc_keeps) == never) return;
    lm_store_relaxed(&glibc_keeps, never);
    (void)loam_option_set_default("PAGE_RESET", never ? "0" : "1");
}

/* Returns whether the value has an effect in loam. */
static bool does(const glibc_row_t *row, long value) {
    return row->effect == PERTURB || (row->effect == TRIM && value == -1) ||
           (row->effect == HUGE && value == 1);
}

static void act(const glibc_row_t *row, long value) {
    if (row->effect == PERTURB) lm_perturb_set((int)value);
    if (row->effect == TRIM) trim(does(row, value));
    if (row->effect == HUGE && does(row, value))
        (void)loam_option_set_default("LARGE_OS_PAGES", "1");
}

/* Returns whether loam's option has the value that the row's effect gives it: LOAM_* of the
 * environment may override it. */
static bool glibc_counts(const glibc_row_t *row) {
    char text[8] = "";
    if (row->effect == TRIM) (void)loam_option_get("PAGE_RESET", text, sizeof text);
    if (row->effect == HUGE) (void)loam_option_get("LARGE_OS_PAGES", text, sizeof text);
    return text[0] == '\0' || (text[0] == (row->effect == TRIM ? '0' : '1') && text[1] == '\0');
}

/* Prints what became of the setting `what`, quoted as the source writes it. */
static void say(const glibc_row_t *row, lm_piece_t what, long value) {
    const lm_shown_t shown = lm_option_show(what);
    const char *text = shown.text;
    unsigned byte = (unsigned)value & 0xff;
    if (!does(row, value))
        lm_print("loam: %s ignored: %s", text, row->instead);
    else if (!glibc_counts(row))
        lm_print("loam: %s ignored: LOAM_%s is given as well", text,
                 row->effect == TRIM ? "PAGE_RESET" : "LARGE_OS_PAGES");
    else if (row->effect == PERTURB && value == 0)
        lm_print("loam: %s: memory is not filled", text);
    else if (row->effect == PERTURB)
        lm_print("loam: %s: new objects are filled with %u, freed ones with %u", text, byte ^ 0xff,
                 LM_SECURE ? 0u : byte);
    else
        lm_print("loam: %s: as LOAM_%s", text,
                 row->effect == TRIM ? "PAGE_RESET=0" : "LARGE_OS_PAGES=1");
}

/* ---- The environment ---- */

/* Reads a number as glibc does: decimal, octal or hexadecimal, up to the first character that is no
 * digit. It does not call strtol, because a preloaded tool may have wrapped that by a function that
 * allocates. */
static long glibc_number(const char *text, size_t length) {
    const char *end = text + length;
    while (text < end && (*text == ' ' || *text == '\t')) text++;
    bool minus = text < end && *text == '-';
    if (text < end && (*text == '-' || *text == '+')) text++;
    bool hexadecimal = end - text > 2 && text[0] == '0' && (text[1] | 0x20) == 'x';
    long base = hexadecimal ? 16 : text < end && *text == '0' ? 8 : 10, value = 0;
    for (text += hexadecimal ? 2 : 0; text < end; text++) {
        int c = *text | 0x20; /* a letter becomes lower case */
        long digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : base;
        if (digit >= base) break;
        value = value > (LONG_MAX - digit) / base ? LONG_MAX : value * base + digit;
    }
    LM_ASSERT(value >= 0);
    return minus ? -value : value;
}

/* Returns whether the value is possible; glibc ignores others. */
static bool glibc_fits(const glibc_row_t *row, long value) {
    return row->effect != PERTURB || (value >= 0 && value <= 0xff);
}

static void setting(const glibc_row_t *row, const char *whole, const char *value, size_t length,
                    bool aloud) {
    LM_ASSERT(value > whole && value[-1] == '=');
    long n = glibc_number(value, length);
    lm_piece_t all = {whole, (size_t)(value - whole) + length};
    if (!glibc_fits(row, n)) {
        if (aloud)
            lm_print("loam: %s ignored: a value from 0 to 255 is wanted", lm_option_show(all).text);
        return;
    }
    if (aloud)
        say(row, all, n);
    else
        act(row, n);
}

static void read_names(const char *entry, bool aloud) {
    const char *equals = strchr(entry, '=');
    for (size_t i = 0; equals != NULL && i < ROWS; i++) {
        const char *name = glibc_rows[i].environment;
        if (name == NULL || strlen(name) != (size_t)(equals - entry)) continue;
        if (strncmp(entry, name, strlen(name)) != 0) continue;
        setting(&glibc_rows[i], entry, equals + 1, strlen(equals + 1), aloud);
    }
}

static void read_tunable(const char *pair, size_t length, bool aloud) {
    const size_t front = sizeof NAMES - 1;
    const char *equals = memchr(pair, '=', length);
    if (equals == NULL || length < front || strncmp(pair, NAMES, front) != 0) return;
    const char *name = pair + front;
    LM_ASSERT(equals >= name && equals < pair + length);
    size_t bytes = (size_t)(equals - name), left = length - (size_t)(equals + 1 - pair);
    for (size_t i = 0; i < ROWS; i++) {
        if (strlen(glibc_rows[i].tunable) != bytes ||
            strncmp(name, glibc_rows[i].tunable, bytes) != 0)
            continue;
        setting(&glibc_rows[i], pair, equals + 1, left, aloud);
        return;
    }
    if (aloud)
        lm_print("loam: %s ignored: loam does not know it",
                 lm_option_show((lm_piece_t){pair, length}).text);
}

static void read_tunables(const char *text, bool aloud) {
    while (*text != '\0') {
        size_t length = strcspn(text, ":");
        read_tunable(text, length, aloud);
        text += length + (text[length] == ':');
    }
}

void lm_glibc_read(char **environment, bool aloud) {
    const size_t front = sizeof TUNABLES - 1;
    const char *tunables = "";
    for (char **entry = environment; *entry != NULL; entry++) {
        if ((*entry)[0] == 'M') read_names(*entry, aloud);
        if ((*entry)[0] == 'G' && strncmp(*entry, TUNABLES, front) == 0) tunables = *entry + front;
    }
    read_tunables(tunables, aloud);
}

/* ---- mallopt ---- */

/* Bit i is set iff row i has been reported. Atomic, relaxed: independent bits. */
static uint32_t glibc_said;

static void say_once(const glibc_row_t *row, int value) {
    LM_ASSERT(row->name != NULL && row - glibc_rows < 32);
    uint32_t bit = (uint32_t)1 << (row - glibc_rows);
    if (!is_verbose()) return;
    if (!does(row, value) && (__atomic_fetch_or(&glibc_said, bit, __ATOMIC_RELAXED) & bit) != 0)
        return;
    lm_line_t line = {0};
    lm_line_add(&line, "mallopt(%s, %d)", row->name, value);
    say(row, lm_piece(line.text), value);
}

int loam_mallopt(int parameter, int value) {
    for (size_t i = 0; i < ROWS; i++) {
        const glibc_row_t *row = &glibc_rows[i];
        if (row->name == NULL || row->parameter != parameter) continue;
        if (parameter == M_MXFAST && (value < 0 || value > (int)MXFAST_MOST)) return 0;
        act(row, value);
        say_once(row, value);
        return 1;
    }
    return 0;
}
