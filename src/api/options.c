/* options.c: the options of options.def: four sources, one parser, and what a change does.
 *
 *   default  <  loam_config of the program  <  LOAM_NAME of the environment  <  loam_option_set
 *                    └───── lm_options_read, before main ─────┘                  any thread, any time
 *
 * What is not understood costs one clear line on standard error and nothing else. A process with more rights
 * than its caller (AT_SECURE) reads no environment. No allocation, no lock, no libc call that could do either:
 * this runs before the program does. It cannot hold values but numbers, and one path.
 *
 * Invariant: when nobody sets an option, what the layers below go by is what values[] says (apply); they start with
 * the table's defaults by themselves.
 */
#include "loam/options.h"
#include "api/api.h"
#include "api/option_text.h"
#include "loam/meter.h"

#include <errno.h>
#include <string.h>

typedef enum option_name {
#define SWITCH(name, ...) OPTION_##name,
#define NUMBER(name, ...) OPTION_##name,
#define CHOICE(name, ...) OPTION_##name,
#define SET(name, ...) OPTION_##name,
#define PATH(name, ...) OPTION_##name,
#define ALIAS(name, ...)
#include "api/options.def"
#undef SWITCH
#undef NUMBER
#undef CHOICE
#undef SET
#undef PATH
#undef ALIAS
    OPTION_COUNT
} option_name_t;

enum { ANYTIME, START };

/* Which builds have what, and what others say of it. */
enum { BUILD_ANY, BUILD_DEBUG, BUILD_SECURE, BUILD_METER };
enum { IN_ANY = 1, IN_DEBUG = LOAM_DEBUG, IN_SECURE = LM_SECURE, IN_METER = LOAM_METER > 1 };
static const bool here[] = {IN_ANY, IN_DEBUG, IN_SECURE, IN_METER};
static const char *const elsewhere[] = {"", "only the debug build can (cmake -DLOAM_DEBUG=ON)",
                                        "only the secure build can (cmake -DLOAM_SECURE=ON)",
                                        "this library was built without it (cmake -DLOAM_METER=2)"};
#define IN(build, initial) ((size_t)(initial)*IN_##build)

static const lm_option_t table[OPTION_COUNT] = {
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
#undef SWITCH
#undef NUMBER
#undef CHOICE
#undef SET
#undef PATH
#undef ALIAS
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
#undef SWITCH
#undef NUMBER
#undef CHOICE
#undef SET
#undef PATH
#undef ALIAS
};
enum { ALIASES = sizeof aliases / sizeof aliases[0] };

typedef enum source { BY_DEFAULT, BY_PROGRAM, BY_ENVIRONMENT, BY_CALL } source_t;
static const char *const source_names[] = {"default", "program", "environment", "call"};

/* What a source calls an option, for messages. */
static const char *const prefixes[] = {"", "loam_config: ", "LOAM_", ""};

static size_t values[OPTION_COUNT] = {
/* atomic */
#define SWITCH(name, initial, when, build, ...) IN(build, initial),
#define NUMBER(name, unit, initial, least, most, when, build, ...) IN(build, initial),
#define CHOICE(name, initial, words, when, build, ...) IN(build, initial),
#define SET(name, ...) 0,
#define PATH(name, ...) 0,
#define ALIAS(name, ...)
#include "api/options.def"
#undef SWITCH
#undef NUMBER
#undef CHOICE
#undef SET
#undef PATH
#undef ALIAS
};
static LM_AT_START uint8_t sources[OPTION_COUNT]; /* atomic */
static LM_AT_START bool started;

/* Programs that are linked statically and use nothing else of loam's malloc have options as well. */
__attribute__((used)) static const char *const boots = &lm_boots;

/* The one that is a text; changed before main only. */
static char rows_path[LM_OPTION_PATH];

/* Value `number` of an option, by the name that has this factor. */
static lm_line_t value_text(const lm_option_t *option, size_t factor, size_t number) {
    if (!option->path) return lm_option_text(option, factor, number);
    lm_line_t line = {0};
    lm_line_add(&line, "%s", number != 0 ? rows_path : "");
    return line;
}

/* ---- What a value does ---- */

/* A store, and a look whether it is still wanted: of two threads that set an option at once, whoever stores last has
 * looked after the other's value came. Sequentially consistent, with the store in set: no order of these
 * may be lost. */
#define PUT(place, convert) \
    do { \
        value = __atomic_load_n(&values[option], __ATOMIC_SEQ_CST); \
        __atomic_store_n(&(place), (convert), __ATOMIC_SEQ_CST); \
    } while (value != __atomic_load_n(&values[option], __ATOMIC_SEQ_CST))

/* Relaxed: a word by itself. */
static size_t get(option_name_t option) { return lm_load_relaxed(&values[option]); }

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
    case OPTION_PAGE_GUARDS: /* of the secure build */
    case OPTION_RANDOM_ORDER: break;
#endif
    case OPTION_LIMIT_SOFT: PUT(lm_limit_policy.soft, value > 0 ? value : SIZE_MAX); break;
    case OPTION_LIMIT_HARD: PUT(lm_limit_policy.hard, value > 0 ? value : SIZE_MAX); break;
    case OPTION_LIMIT_CGROUP: PUT(lm_limit_policy.cgroup, (lm_cgroup_mode_t)value); break;
    case OPTION_USE_NUMA_NODES: PUT(lm_nodes_most, (uint32_t)value); break;
    case OPTION_RESERVE_HUGE_OS_PAGES: /* below */
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
        if (get(option) != 0) lm_os_message_keep();
        break;
    case OPTION_VERBOSE: /* asked for where it is needed */
    case OPTION_ALLOW_DEEPBIND:
    case OPTION_METER:
    case OPTION_RECORD_SITES: /* start_sites */
    case OPTION_COUNT: break;
    }
}

static void set(option_name_t option, size_t value, source_t source) {
    /* Relaxed: for the eye. */
    lm_store_relaxed(&sources[option], (uint8_t)source);
    __atomic_store_n(&values[option], value, __ATOMIC_SEQ_CST); /* as in PUT */
    apply(option);
}

/* What was parsed; a path is kept, before main. */
static void set_piece(option_name_t option, lm_piece_t piece, size_t value, source_t source) {
    if (table[option].path) {
        memcpy(rows_path, piece.text, piece.length);
        rows_path[piece.length] = '\0';
    }
    set(option, value, source);
}

/* Both of the limits; 0: none. */
static bool limits_agree(size_t soft, size_t hard) {
    return soft == 0 || hard == 0 || soft <= hard;
}

/* ---- Sources before main ---- */

/* Finds an option by its name or another; false iff there is none. factor: 0, or that of the other name. */
static bool find(lm_piece_t name, bool any_case, option_name_t *option, size_t *factor) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!lm_piece_same(name, table[i].name, any_case)) continue;
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

/* What a source has said so far. */
typedef struct reading {
    source_t source;
    lm_piece_t given[OPTION_COUNT]; /* names, as they stood there */
    bool by_alias[OPTION_COUNT];
} reading_t;

/* Whether an option is given for the first time in this source, or by its own name after another one. */
static bool counts(reading_t *reading, option_name_t option, lm_piece_t name, bool alias) {
    const char *prefix = prefixes[reading->source];
    lm_piece_t before = reading->given[option];
    bool again = before.text != NULL, better = again && !alias && reading->by_alias[option];
    if (again && alias == reading->by_alias[option])
        lm_report("loam: %s%s is given more than once: the first counts", prefix,
                  lm_option_show(name).text);
    else if (again)
        lm_report("loam: %s%s ignored: %s%s is given as well", prefix,
                  lm_option_show(better ? before : name).text,
                  reading->source == BY_PROGRAM ? "" : prefix,
                  lm_option_show(better ? name : before).text);
    if (again && !better) return false;
    reading->given[option] = name;
    reading->by_alias[option] = alias;
    return true;
}

static void read_pair(reading_t *reading, lm_piece_t name, lm_piece_t value) {
    const char *prefix = prefixes[reading->source];
    option_name_t option;
    size_t factor, number;
    if (!find(name, reading->source == BY_PROGRAM, &option, &factor)) {
        lm_report("loam: %sunknown option %s%s ignored",
                  reading->source == BY_PROGRAM ? prefix : "",
                  reading->source == BY_PROGRAM ? "" : prefix, lm_option_show(name).text);
        return;
    }
    /* A constructor that ran before ours may have called. */
    if (sources[option] == BY_CALL || !counts(reading, option, name, factor != 0)) return;
    if (lm_option_parse(&table[option], factor, value, &number)) {
        if (number != 0 && !here[table[option].build])
            lm_report("loam: %s%s ignored: %s", prefix, lm_option_show(name).text,
                      elsewhere[table[option].build]);
        else
            set_piece(option, value, number, reading->source);
        return;
    }
    /* What counts instead: what was set before. */
    size_t kept = get(option);
    lm_report("loam: %s%s=%s: not %s; %s%s used", prefix, lm_option_show(name).text,
              lm_option_show(value).text, lm_option_wanted(&table[option], factor).text,
              sources[option] == BY_DEFAULT ? "default " : "",
              table[option].path && kept == 0 ? "none" : value_text(&table[option], 0, kept).text);
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

static lm_piece_t trimmed(lm_piece_t piece) {
    while (piece.length > 0 && blank(piece.text[0])) piece.text++, piece.length--;
    while (piece.length > 0 && blank(piece.text[piece.length - 1])) piece.length--;
    return piece;
}

/* No pointer of a program is seven characters long: its bits from 48 on are 0. A shorter array sets no option, but must
 * not be followed as a pointer either. */
const char *lm_options_text(const void *config) {
    if (config == NULL) return NULL;
    size_t texts = 0;
    const unsigned char *c = config;
    while (texts < 7 && (blank((char)c[texts]) || (c[texts] >= ' ' && c[texts] <= '~'))) texts++;
    const char *pointer;
    memcpy(&pointer, config, sizeof pointer);
    return texts == 7 || (pointer != NULL && !lm_os_mapped(pointer)) ? config : pointer;
}

static void read_program(const char *config) {
    reading_t reading = {.source = BY_PROGRAM};
    while (*config != '\0') {
        lm_piece_t pair = trimmed((lm_piece_t){config, strcspn(config, ",")});
        config += strcspn(config, ",");
        if (*config == ',') config++;
        if (pair.length == 0) continue;
        const char *equals = memchr(pair.text, '=', pair.length);
        if (equals == NULL) {
            lm_report("loam: loam_config: %s ignored: it has no value", lm_option_show(pair).text);
            continue;
        }
        size_t length = (size_t)(equals - pair.text);
        read_pair(&reading, trimmed((lm_piece_t){pair.text, length}),
                  trimmed((lm_piece_t){equals + 1, pair.length - length - 1}));
    }
}

static void read_environment(char **environment) {
    static const char PREFIX[] = "LOAM_";
    reading_t reading = {.source = BY_ENVIRONMENT};
    for (char **entry = environment; *entry != NULL; entry++) {
        if (strncmp(*entry, PREFIX, sizeof PREFIX - 1) != 0) continue;
        const char *name = *entry + sizeof PREFIX - 1, *equals = strchr(name, '=');
        if (equals == NULL) continue;
        read_pair(&reading, (lm_piece_t){name, (size_t)(equals - name)}, lm_piece(equals + 1));
    }
}

/* Where the meter's rows go (loam/meter.h). */
static void start_rows(void) {
    if (get(OPTION_METER) == 0) return;
#if LOAM_METER > 1
    (void)loam_meter_start(rows_path);
#endif
}

/* What several options say together. */
static void look_at_limits(void) {
    size_t soft = get(OPTION_LIMIT_SOFT), hard = get(OPTION_LIMIT_HARD);
    if (!limits_agree(soft, hard)) {
        lm_report("loam: LOAM_LIMIT_SOFT=%s ignored: it is above LOAM_LIMIT_HARD=%s",
                  value_text(&table[OPTION_LIMIT_SOFT], 0, soft).text,
                  value_text(&table[OPTION_LIMIT_HARD], 0, hard).text);
        set(OPTION_LIMIT_SOFT, 0, BY_DEFAULT);
    }
    if (get(OPTION_LIMIT_CGROUP) == LM_CGROUP_IGNORED || lm_limit_find_cgroup()) return;
    if (get(OPTION_LIMIT_CGROUP) == LM_CGROUP_EXPECTED)
        lm_report(
            "loam: LOAM_LIMIT_CGROUP=1: no control group of memory found; looking again later");
}

/* What only the debug build can do. */
static void start_sites(void) {
#if LOAM_DEBUG
    if (get(OPTION_RECORD_SITES) != 0) lm_sites_record((unsigned)get(OPTION_RECORD_SITES));
#endif
}

static void print_verbose(void) {
    const char *build = LOAM_DEBUG ? "debug" : LOAM_SECURE ? "secure" : "release";
    lm_print("loam: version %s, %s build", LOAM_VERSION_TEXT, build);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const lm_option_t *option = &table[i];
        if (get((option_name_t)i) == option->initial) continue;
        lm_print("loam: LOAM_%s=%s (%s; default %s)", option->name,
                 value_text(option, 0, get((option_name_t)i)).text,
                 source_names[lm_load_relaxed(&sources[i])],
                 option->path ? "none" : value_text(option, 0, option->initial).text);
    }
}

void lm_options_read(const char *config, char **environment) {
    for (size_t i = 0; started && i < OPTION_COUNT; i++)
        set((option_name_t)i, table[i].initial, BY_DEFAULT);
    if (config != NULL) read_program(config);
    if (environment != NULL && !lm_os_secure()) read_environment(environment);
    started = true;
    look_at_limits();
    start_rows();
    start_sites();
    if (get(OPTION_VERBOSE) == 1) print_verbose();
}

void lm_options_reserve(void) {
    lm_at_start_t want = {.pages_1g = get(OPTION_RESERVE_HUGE_OS_PAGES),
                          .pages_2m = get(OPTION_RESERVE_LARGE_OS_PAGES),
                          .node = (int)get(OPTION_RESERVE_HUGE_OS_PAGES_AT) - 1,
                          .timeout_ms = get(OPTION_RESERVE_TIMEOUT),
                          .bytes = get(OPTION_RESERVE_OS_MEMORY)};
    lm_arenas_at_start(&want);
}

/* ---- Calls ---- */

static int set_by(source_t source, const char *name, const char *value) {
    option_name_t option;
    size_t factor, number;
    if (name == NULL || value == NULL || !find(lm_piece(name), true, &option, &factor))
        return -EINVAL;
    if (!lm_option_parse(&table[option], factor, lm_piece(value), &number)) return -EINVAL;
    if (number != 0 && !here[table[option].build]) return -ENOTSUP;
    if (table[option].when == START && started) return -EBUSY;
    if (lm_load_relaxed(&sources[option]) > source) return 0; /* relaxed: a byte by itself */
    if (option == OPTION_LIMIT_SOFT && !limits_agree(number, get(OPTION_LIMIT_HARD)))
        return -EINVAL;
    if (option == OPTION_LIMIT_HARD && !limits_agree(get(OPTION_LIMIT_SOFT), number))
        return -EINVAL;
    set_piece(option, lm_piece(value), number, source);
    if (started && (option == OPTION_PURGE_THREAD || option == OPTION_PAGE_RESET))
        lm_purge_changed();
    if (started && (option == OPTION_LIMIT_SOFT || option == OPTION_LIMIT_HARD)) lm_limit_changed();
    return 0;
}

int loam_option_set(const char *name, const char *value) { return set_by(BY_CALL, name, value); }

int loam_option_set_default(const char *name, const char *value) {
    return set_by(BY_PROGRAM, name, value);
}

int loam_option_set_number(const char *name, size_t number) {
    lm_line_t line = {0};
    lm_line_add(&line, "%zu", number);
    return set_by(BY_CALL, name, line.text);
}

bool lm_options_limit(size_t soft, size_t hard) {
    if (soft > table[OPTION_LIMIT_SOFT].most || hard > table[OPTION_LIMIT_HARD].most ||
        !limits_agree(soft, hard))
        return false;
    set(OPTION_LIMIT_SOFT, soft, BY_CALL);
    set(OPTION_LIMIT_HARD, hard, BY_CALL);
    return true;
}

int loam_option_get(const char *name, char *value, size_t bytes) {
    option_name_t option;
    size_t factor;
    if (name == NULL || value == NULL || !find(lm_piece(name), true, &option, &factor))
        return -EINVAL;
    bool path = table[option].path && get(option) != 0;
    lm_line_t line = {0};
    if (!path) line = value_text(&table[option], factor, get(option));
    const char *text = path ? rows_path : line.text;
    size_t length = strlen(text);
    if (length >= bytes) return -ENOSPC;
    memcpy(value, text, length + 1);
    return (int)length;
}

int loam_option_get_number(const char *name, size_t *number) {
    option_name_t option;
    size_t factor;
    if (name == NULL || number == NULL || !find(lm_piece(name), true, &option, &factor))
        return -EINVAL;
    return lm_option_number(&table[option], factor, get(option), number) ? 0 : -EINVAL;
}

size_t loam_option_get_clamp(const char *name, size_t least, size_t most) {
    size_t number;
    if (loam_option_get_number(name, &number) != 0 || number < least) return least;
    return number > most ? most : number;
}

const char *loam_option_source(const char *name) {
    option_name_t option;
    size_t factor;
    if (name == NULL || !find(lm_piece(name), true, &option, &factor)) return NULL;
    return source_names[lm_load_relaxed(&sources[option])];
}

const char *loam_option_name(size_t index) {
    return index < OPTION_COUNT ? table[index].name : NULL;
}

void loam_options_print(void) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        lm_print("LOAM_%s=%s (%s): %s", table[i].name,
                 value_text(&table[i], 0, get((option_name_t)i)).text,
                 source_names[lm_load_relaxed(&sources[i])], table[i].sentence);
    }
}

__attribute__((destructor)) static void print_at_exit(void) {
    if (get(OPTION_SHOW_STATS) == 1) loam_stats_print();
    if (get(OPTION_SHOW_STATS) == 2) lm_stats_print_json();
#if LOAM_DEBUG
    if (get(OPTION_SHOW_LEAKS) == 1) lm_leaks_print();
#endif
}
