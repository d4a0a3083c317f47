/* options.c: the options of options.def: four sources, one parser, and the effect of a change.
 *
 *   default  <  loam_config of the program  <  LOAM_NAME of the environment  <  loam_option_set
 *                    └───── lm_options_read, before main ─────┘               any thread, any time
 *
 * An invalid setting costs one clear line on standard error and nothing more. A process with more
 * rights than its caller (AT_SECURE) reads no environment. Nothing here allocates, takes a lock, or
 * calls a function of libc that could do either: this runs before the program does. It can hold
 * only numbers, and one path.
 *
 * Invariant: while no thread sets an option, the layers below use the values in values[] (apply).
 * They start with the table's defaults by themselves.
 */
#include "loam/options.h"
#include "api/option_table.h"

#include <errno.h>
#include <string.h>

/* Which builds support what, and what other builds say about it. */
enum { BUILD_ANY, BUILD_DEBUG, BUILD_SECURE, BUILD_METER, BUILD_READING };
enum {
    IN_ANY = 1,
    IN_DEBUG = LOAM_DEBUG,
    IN_SECURE = LM_SECURE,
    IN_METER = LOAM_METER > 1,
    IN_READING = LOAM_READ_ENVIRONMENT
};
static const bool options_here[] = {IN_ANY, IN_DEBUG, IN_SECURE, IN_METER, IN_READING};
static const char *const elsewhere[] = {"", "only the debug build can (cmake -DLOAM_DEBUG=ON)",
                                        "only the secure build can (cmake -DLOAM_SECURE=ON)",
                                        "this library was built without it (cmake -DLOAM_METER=2)",
                                        "not in this library (cmake -DLOAM_READ_ENVIRONMENT=ON)"};
#define IN(build, initial) ((size_t)(initial)*IN_##build)

const lm_option_t lm_option_table[OPTION_COUNT] = {
#define SWITCH(name, initial, when, build, sentence, text) \
    {#name, IN(build, initial), 0,       1, "0|1", LM_UNIT_NONE, false, false, \
     when,  BUILD_##build,      sentence},
#define NUMBER(name, unit, initial, least, most, when, build, sentence, text) \
    {#name, IN(build, initial), least,   most, NULL, LM_UNIT_##unit, false, false, \
     when,  BUILD_##build,      sentence},
#define CHOICE(name, initial, words, when, build, sentence, text) \
    {#name, IN(build, initial), 0,       0, words, LM_UNIT_NONE, false, false, \
     when,  BUILD_##build,      sentence},
#define SET(name, words, when, build, sentence, text) \
    {#name, 0, 0, 0, words, LM_UNIT_NONE, false, true, when, BUILD_##build, sentence},
#define PATH(name, when, build, sentence, text) \
    {#name, 0, 0, 0, NULL, LM_UNIT_NONE, true, false, when, BUILD_##build, sentence},
#define ALIAS(name, ...)
#include "api/options.def"
};

typedef struct alias {
    const char *name;
    option_name_t of;
    size_t factor;
} alias_t;

static const alias_t aliases[] = {
#define SWITCH(name, ...)
#define NUMBER(name, ...)
#define CHOICE(name, ...)
#define SET(name, ...)
#define PATH(name, ...)
#define ALIAS(name, of, factor, sentence) {#name, OPTION_##of, factor},
#include "api/options.def"
};
enum { ALIASES = sizeof aliases / sizeof aliases[0] };

static const char *const source_names[] = {"default", "program", "program", "environment", "call"};

/* Prefix of an option's name in messages about a source. */
static const char *const prefixes[] = {"", "loam_config: ", "loam_option_set_default: ", "LOAM_",
                                       "loam_option_set: "};

static size_t options_values[OPTION_COUNT] = {
/* atomic */
#define SWITCH(name, initial, when, build, ...) IN(build, initial),
#define NUMBER(name, unit, initial, least, most, when, build, ...) IN(build, initial),
#define CHOICE(name, initial, words, when, build, ...) IN(build, initial),
#define SET(name, ...) 0,
#define PATH(name, ...) 0,
#define ALIAS(name, ...)
#include "api/options.def"
};
static LM_AT_START uint8_t sources[OPTION_COUNT]; /* atomic */

/* Makes programs that are linked statically, and use nothing else of loam's malloc, read options as
 * well. */
__attribute__((used)) static const char *const boots = &lm_force_constructor;

/* The value of the only path; written before main only. */
static char rows_path[LM_OPTION_PATH];

lm_line_t lm_option_value_text(option_name_t name, size_t factor, size_t number) {
    LM_ASSERT(name < OPTION_COUNT);
    const lm_option_t *option = &lm_option_table[name];
    if (!option->path) return lm_option_text(option, factor, number);
    lm_line_t line = {0};
    lm_line_add(&line, "%s", number != 0 ? rows_path : "");
    return line;
}

/* ---- Effects of values ---- */

/* Stores a value, then checks that it is still the option's value: of two threads that set an
 * option at once, the one that stores last has checked after the other's value came. Sequentially
 * consistent, with the store in set: all threads must agree on the order of these accesses. */
#define PUT(place, convert) \
    do { \
        value = __atomic_load_n(&options_values[option], __ATOMIC_SEQ_CST); \
        __atomic_store_n(&(place), (convert), __ATOMIC_SEQ_CST); \
    } while (value != __atomic_load_n(&options_values[option], __ATOMIC_SEQ_CST))

/* Relaxed: an independent word. */
static size_t options_get(option_name_t option) {
    LM_ASSERT(option < OPTION_COUNT);
    return lm_load_relaxed(&options_values[option]);
}

size_t lm_option_get(option_name_t option) { return options_get(option); }

const char *lm_option_path(void) { return rows_path; }

source_t lm_option_source(option_name_t option) {
    /* Relaxed: an independent byte. */
    return (source_t)lm_load_relaxed(&sources[option]);
}

const char *lm_option_source_name(source_t source) {
    LM_ASSERT(source < SOURCES);
    return source_names[source];
}

const char *lm_option_prefix(source_t source) {
    LM_ASSERT(source < SOURCES);
    return prefixes[source];
}

const char *lm_option_elsewhere(option_name_t option) {
    return elsewhere[lm_option_table[option].build];
}

lm_line_t lm_option_named(option_name_t option, source_t source) {
    lm_line_t line = {0};
    const char *prefix = source == BY_DEFAULT ? prefixes[BY_ENVIRONMENT] : prefixes[source];
    lm_line_add(&line, "%s%s", prefix, lm_option_table[option].name);
    bool small = prefix != prefixes[BY_ENVIRONMENT];
    for (size_t i = strlen(prefix); small && i < line.used; i++) {
        char c = line.text[i];
        line.text[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return line;
}

static void apply(option_name_t option) {
    size_t value;
    switch (option) {
    case OPTION_SHOW_ERRORS: PUT(lm_misuse_policy.quiet, value == 0); break;
    case OPTION_ON_ERROR: PUT(lm_misuse_policy.ignore, value == 1); break;
    case OPTION_IGNORE: PUT(lm_misuse_policy.tolerated, (uint32_t)value); break;
    case OPTION_ABORT_ON_OOM: PUT(lm_refused_aborts, value == 1); break;
    case OPTION_PAGE_RESET: PUT(lm_purge_never, value == 0); break;
    case OPTION_PURGE_DELAY: PUT(lm_purge_policy.delay_ms, (uint32_t)value); break;
    case OPTION_PURGE_THREAD: PUT(lm_purge_policy.worker, value == 1); break;
    case OPTION_LARGE_OS_PAGES: PUT(lm_huge_policy.when, (lm_huge_when_t)value); break;
    case OPTION_LARGE_OS_PAGES_AFTER: PUT(lm_huge_policy.least_bytes, value); break;
#if LM_SECURE
    case OPTION_PAGE_GUARDS: PUT(lm_page_guards, value == 1); break;
    case OPTION_RANDOM_ORDER: PUT(lm_order, (lm_order_t)value); break;
#else
    /* Only in the secure build. */
    case OPTION_PAGE_GUARDS:
    case OPTION_RANDOM_ORDER: break;
#endif
    case OPTION_LIMIT_SOFT: PUT(lm_limit_policy.soft, value > 0 ? value : SIZE_MAX); break;
    case OPTION_LIMIT_HARD: PUT(lm_limit_policy.hard, value > 0 ? value : SIZE_MAX); break;
    case OPTION_LIMIT_CGROUP: PUT(lm_limit_policy.cgroup, (lm_cgroup_mode_t)value); break;
    case OPTION_USE_NUMA_NODES: PUT(lm_nodes_most, (uint32_t)value); break;
    /* See lm_options_reserve. */
    case OPTION_RESERVE_HUGE_OS_PAGES:
    case OPTION_RESERVE_HUGE_OS_PAGES_AT:
    case OPTION_RESERVE_LARGE_OS_PAGES:
    case OPTION_RESERVE_OS_MEMORY:
    case OPTION_RESERVE_TIMEOUT: break;
    case OPTION_GUARD_SAMPLING:
        PUT(lm_sampling.rate, (uint32_t)value);
        if (value > 0) lm_quiet_end();
        break;
    case OPTION_GUARD_SAMPLING_EXACT: PUT(lm_sampling.exact, value == 1); break;
    case OPTION_GUARD_SAMPLING_SLOTS: PUT(lm_sampling.slots, (uint32_t)value); break;
    case OPTION_SHOW_STATS:
    case OPTION_SHOW_LEAKS:
        if (options_get(option) != 0) lm_at_exit_wanted();
        break;
    /* Read where they are needed. */
    case OPTION_ENVIRONMENT:
    case OPTION_VERBOSE:
    case OPTION_ALLOW_DEEPBIND:
    case OPTION_METER:
    case OPTION_RECORD_SITES: /* see start_sites */
    case OPTION_COUNT: break;
    }
}

static void set(option_name_t option, size_t value, source_t source) {
    LM_ASSERT(option < OPTION_COUNT && source < SOURCES);
    /* Relaxed: for display only. */
    lm_store_relaxed(&sources[option], (uint8_t)source);
    /* Sequentially consistent: see PUT. */
    __atomic_store_n(&options_values[option], value, __ATOMIC_SEQ_CST);
    apply(option);
}

void lm_option_store(option_name_t option, lm_piece_t piece, size_t value, source_t source) {
    LM_ASSERT(lm_option_table[option].words != NULL || lm_option_table[option].path ||
              value <= lm_option_table[option].most);
    if (lm_option_table[option].path && piece.text != NULL) {
        LM_ASSERT(piece.length < sizeof rows_path);
        memcpy(rows_path, piece.text, piece.length);
        rows_path[piece.length] = '\0';
    }
    set(option, value, source);
}

bool lm_option_find(lm_piece_t name, bool any_case, option_name_t *option, size_t *factor) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!lm_piece_same(name, lm_option_table[i].name, any_case)) continue;
        *option = (option_name_t)i;
        *factor = 0;
        return true;
    }
    for (size_t i = 0; i < ALIASES; i++) {
        if (!lm_piece_same(name, aliases[i].name, any_case)) continue;
        *option = aliases[i].of;
        *factor = aliases[i].factor;
        return true;
    }
    return false;
}

int lm_option_read(option_name_t option, size_t factor, lm_piece_t text, size_t *number) {
    const lm_option_t *row = &lm_option_table[option];
    lm_share_t share;
    if (row->unit == LM_UNIT_BYTES && lm_option_share(text, &share)) {
        *number = lm_limit_share(share.percent, share.of_group);
        if (*number == 0) return -ENODATA;
        if (*number < row->least || *number > row->most) return -EINVAL;
    } else if (!lm_option_parse(row, factor, text, number)) {
        return -EINVAL;
    }
    return *number != 0 && !options_here[row->build] ? -ENOTSUP : 0;
}

lm_line_t lm_option_called(const char *name) {
    option_name_t option = OPTION_COUNT;
    size_t factor;
    (void)lm_option_find(lm_piece(name), false, &option, &factor);
    LM_ASSERT(option != OPTION_COUNT);
    return lm_option_named(option, lm_option_source(option));
}

/* ---- Calls ---- */

static int set_by(source_t source, const char *name, const char *value) {
    option_name_t option;
    size_t factor, number;
    if (name == NULL || value == NULL || !lm_option_find(lm_piece(name), true, &option, &factor))
        return -EINVAL;
    int result = lm_option_read(option, factor, lm_piece(value), &number);
    if (result != 0) return result;
    if (lm_option_table[option].when != ANYTIME && lm_options_started()) return -EBUSY;
    if (lm_option_source(option) > source) return 0;
    if (lm_option_limits(option)) {
        result = lm_option_limit_set(option, number, source);
        if (result != 0) return result;
    } else {
        lm_option_store(option, lm_piece(value), number, source);
    }
    if (!lm_options_started()) return 0;
    if (option == OPTION_PURGE_THREAD || option == OPTION_PAGE_RESET) lm_purge_changed();
    if (lm_option_limits(option)) lm_limit_changed();
    return 0;
}

int loam_option_set(const char *name, const char *value) { return set_by(BY_CALL, name, value); }

int loam_option_set_default(const char *name, const char *value) {
    return set_by(BY_DEFAULTS, name, value);
}

int loam_option_set_number(const char *name, size_t number) {
    lm_line_t line = {0};
    lm_line_add(&line, "%zu", number);
    return set_by(BY_CALL, name, line.text);
}

int loam_option_get(const char *name, char *value, size_t bytes) {
    option_name_t option;
    size_t factor;
    if (name == NULL || value == NULL || !lm_option_find(lm_piece(name), true, &option, &factor))
        return -EINVAL;
    bool path = lm_option_table[option].path && options_get(option) != 0;
    lm_line_t line = {0};
    if (!path) line = lm_option_value_text(option, factor, options_get(option));
    const char *text = path ? rows_path : line.text;
    size_t length = strlen(text);
    if (length >= bytes) return -ENOSPC;
    memcpy(value, text, length + 1);
    return (int)length;
}

int loam_option_get_number(const char *name, size_t *number) {
    option_name_t option;
    size_t factor;
    if (name == NULL || number == NULL || !lm_option_find(lm_piece(name), true, &option, &factor))
        return -EINVAL;
    return lm_option_number(&lm_option_table[option], factor, options_get(option), number)
               ? 0
               : -EINVAL;
}

size_t loam_option_get_clamp(const char *name, size_t least, size_t most) {
    size_t number;
    if (loam_option_get_number(name, &number) != 0 || number < least) return least;
    return number > most ? most : number;
}

const char *loam_option_source(const char *name) {
    option_name_t option;
    size_t factor;
    if (name == NULL || !lm_option_find(lm_piece(name), true, &option, &factor)) return NULL;
    return source_names[lm_option_source(option)];
}

const char *loam_option_name(size_t index) {
    return index < OPTION_COUNT ? lm_option_table[index].name : NULL;
}

void loam_options_print(void) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        lm_print("LOAM_%s=%s (%s): %s", lm_option_table[i].name,
                 lm_option_value_text((option_name_t)i, 0, options_get((option_name_t)i)).text,
                 source_names[lm_option_source((option_name_t)i)], lm_option_table[i].sentence);
    }
}
