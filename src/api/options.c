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
#include "loam/meter.h"

#include <errno.h>
#include <string.h>

typedef enum option_name {
#define SWITCH(name, ...) OPTION_##name,
#define NUMBER(name, ...) OPTION_##name,
#define CHOICE(name, ...) OPTION_##name,
#define PATH(name, ...) OPTION_##name,
#define ALIAS(name, ...)
#include "api/options.def"
#undef SWITCH
#undef NUMBER
#undef CHOICE
#undef PATH
#undef ALIAS
    OPTION_COUNT
} option_name_t;

typedef enum unit { UNIT_NONE, UNIT_MS, UNIT_BYTES } unit_t;
enum { ANYTIME, START };

typedef struct option {
    const char *name;
    size_t initial, least, most;
    const char *words; /* "a|b|c"; NULL: a number, or a path */
    unit_t unit;
    bool path;
    int when;
    const char *sentence;
} option_t;

static const option_t table[OPTION_COUNT] = {
#define SWITCH(name, initial, when, sentence, text) \
    {#name, initial, 0, 1, "0|1", UNIT_NONE, false, when, sentence},
#define NUMBER(name, unit, initial, least, most, when, sentence, text) \
    {#name, initial, least, most, NULL, UNIT_##unit, false, when, sentence},
#define CHOICE(name, initial, words, when, sentence, text) \
    {#name, initial, 0, 0, words, UNIT_NONE, false, when, sentence},
#define PATH(name, when, sentence, text) {#name, 0, 0, 0, NULL, UNIT_NONE, true, when, sentence},
#define ALIAS(name, ...)
#include "api/options.def"
#undef SWITCH
#undef NUMBER
#undef CHOICE
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
#define PATH(name, ...)
#define ALIAS(name, of, factor, sentence) {#name, OPTION_##of, factor},
#include "api/options.def"
#undef SWITCH
#undef NUMBER
#undef CHOICE
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
#define SWITCH(name, initial, ...) initial,
#define NUMBER(name, unit, initial, ...) initial,
#define CHOICE(name, initial, ...) initial,
#define PATH(name, ...) 0,
#define ALIAS(name, ...)
#include "api/options.def"
#undef SWITCH
#undef NUMBER
#undef CHOICE
#undef PATH
#undef ALIAS
};
static LM_AT_START uint8_t sources[OPTION_COUNT]; /* atomic */
static LM_AT_START bool started;

/* Programs that are linked statically and use nothing else of loam's malloc have options as well. */
__attribute__((used)) static const char *const boots = &lm_boots;

/* The one that is a text; changed before main only. */
static char rows_path[1024];

/* ---- Texts ---- */

/* A piece of a text: the environment's end with a 0, the program's with a comma. */
typedef struct piece {
    const char *text;
    size_t length;
} piece_t;

static piece_t whole(const char *text) { return (piece_t){text, strlen(text)}; }

/* As it may be shown: short, and nothing that moves a terminal's cursor. */
typedef struct shown {
    char text[48];
} shown_t;

static shown_t show(piece_t piece) {
    shown_t shown;
    size_t most = sizeof shown.text - 4, n = piece.length < most ? piece.length : most;
    for (size_t i = 0; i < n; i++) {
        char c = piece.text[i];
        shown.text[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    memcpy(shown.text + n, piece.length > most ? "..." : "", piece.length > most ? 4 : 1);
    return shown;
}

static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

static bool same(piece_t piece, const char *name, bool any_case) {
    for (size_t i = 0; i < piece.length; i++) {
        if (name[i] == '\0' || (any_case ? upper(piece.text[i]) : piece.text[i]) != name[i])
            return false;
    }
    return name[piece.length] == '\0';
}

typedef struct suffix {
    const char *text;
    size_t factor;
} suffix_t;

/* The largest first. */
static const suffix_t suffixes_of_bytes[] = {{"TiB", (size_t)1 << 40},
                                             {"GiB", (size_t)1 << 30},
                                             {"MiB", (size_t)1 << 20},
                                             {"KiB", (size_t)1 << 10},
                                             {"", 1}};
static const suffix_t suffixes_of_ms[] = {{"min", 60000}, {"s", 1000}, {"ms", 1}, {"", 1}};
static const suffix_t no_suffix[] = {{"", 1}};

static const suffix_t *suffixes_of(unit_t unit) {
    return unit == UNIT_BYTES ? suffixes_of_bytes : unit == UNIT_MS ? suffixes_of_ms : no_suffix;
}

static void add_number(lm_line_t *line, unit_t unit, size_t number) {
    const suffix_t *suffix = suffixes_of(unit);
    if (unit == UNIT_MS)
        suffix += 2; /* as the table has it: to be compared at a glance */
    else
        while (*suffix->text != '\0' && (number == 0 || number % suffix->factor != 0)) suffix++;
    lm_line_add(line, "%zu%s", number / suffix->factor, suffix->text);
}

/* The number-th of "a|b|c"; length 0 iff there are not so many. */
static piece_t word(const char *words, size_t number) {
    for (; number > 0 && *words != '\0'; words++) number -= *words == '|';
    return (piece_t){words, strcspn(words, "|")};
}

/* Value `number` of an option. */
static lm_line_t value_text(const option_t *option, size_t number) {
    lm_line_t line = {0};
    if (option->path)
        lm_line_add(&line, "%s", number != 0 ? rows_path : "");
    else if (option->words == NULL)
        add_number(&line, option->unit, number);
    else
        lm_line_add(&line, "%s", show(word(option->words, number)).text);
    return line;
}

/* ---- Parsing ---- */

/* Whole numbers with a suffix of their unit, if any. false iff it is none, or too large for a word. */
static bool parse_number(piece_t piece, unit_t unit, size_t *number) {
    size_t i = 0, value = 0;
    for (; i < piece.length && piece.text[i] >= '0' && piece.text[i] <= '9'; i++) {
        size_t digit = (size_t)(piece.text[i] - '0');
        if (value > (SIZE_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    if (i == 0) return false;
    piece_t rest = {piece.text + i, piece.length - i};
    for (const suffix_t *suffix = suffixes_of(unit);; suffix++) {
        if (same(rest, suffix->text, false)) return lm_mul(value, suffix->factor, number);
        if (*suffix->text == '\0') return false;
    }
}

static bool parse_words(piece_t piece, const char *words, size_t *number) {
    for (size_t i = 0;; i++) {
        piece_t one = word(words, i);
        if (one.length == 0) return false;
        if (one.length != piece.length || memcmp(one.text, piece.text, one.length) != 0) continue;
        *number = i;
        return true;
    }
}

/* Before main only. */
static bool take_path(piece_t piece, size_t *number) {
    if (piece.length >= sizeof rows_path) return false;
    for (size_t i = 0; i < piece.length; i++) {
        if ((unsigned char)piece.text[i] < ' ' || piece.text[i] == 127) return false;
    }
    memcpy(rows_path, piece.text, piece.length);
    rows_path[piece.length] = '\0';
    *number = piece.length > 0;
    return true;
}

/* factor: of an alias, or 0. */
static bool parse_value(const option_t *option, size_t factor, piece_t piece, size_t *number) {
    if (option->path) return take_path(piece, number);
    if (option->words != NULL) return parse_words(piece, option->words, number);
    size_t value;
    if (!parse_number(piece, factor > 1 ? UNIT_NONE : option->unit, &value)) return false;
    if (factor > 1 && !lm_mul(value, factor, &value)) return false;
    *number = value;
    return value >= option->least && value <= option->most;
}

/* What would have been a value: "0 or 1", "a time from 0ms to 5ms". */
static lm_line_t wanted_text(const option_t *option, size_t factor) {
    lm_line_t line = {0};
    if (option->path) {
        lm_line_add(&line, "a path of at most %zu printable characters", sizeof rows_path - 1);
    } else if (option->words != NULL) {
        for (size_t i = 0; word(option->words, i).length > 0; i++) {
            if (i > 0) lm_line_add(&line, word(option->words, i + 1).length > 0 ? ", " : " or ");
            lm_line_add(&line, "%s", show(word(option->words, i)).text);
        }
    } else {
        bool plain = factor > 1;
        unit_t unit = plain ? UNIT_NONE : option->unit;
        lm_line_add(&line, "a %s from ",
                    unit == UNIT_MS      ? "time"
                    : unit == UNIT_BYTES ? "size"
                                         : "number");
        add_number(&line, unit, plain ? option->least / factor : option->least);
        lm_line_add(&line, " to ");
        add_number(&line, unit, plain ? option->most / factor : option->most);
    }
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

static void apply(option_name_t option) {
    size_t value;
    switch (option) {
    case OPTION_SHOW_ERRORS: PUT(lm_misuse_policy.quiet, value == 0); break;
    case OPTION_ON_ERROR: PUT(lm_misuse_policy.ignore, value == 1); break;
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
    case OPTION_GUARD_SAMPLING_SLOTS: PUT(lm_sampling.slots, (uint32_t)value); break;
    case OPTION_SHOW_STATS: /* asked for where it is needed */
    case OPTION_VERBOSE:
    case OPTION_METER:
    case OPTION_SHOW_LEAKS:
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

/* Relaxed: a word by itself. */
static size_t get(option_name_t option) { return lm_load_relaxed(&values[option]); }

/* Both of the limits; 0: none. */
static bool limits_agree(size_t soft, size_t hard) {
    return soft == 0 || hard == 0 || soft <= hard;
}

/* ---- Sources before main ---- */

/* Finds an option by its name or another; false iff there is none. factor: 0, or that of the other name. */
static bool find(piece_t name, bool any_case, option_name_t *option, size_t *factor) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (!same(name, table[i].name, any_case)) continue;
        *option = (option_name_t)i;
        *factor = 0;
        return true;
    }
    for (size_t i = 0; i < ALIASES; i++) {
        if (!same(name, aliases[i].name, any_case)) continue;
        *option = aliases[i].of;
        *factor = aliases[i].factor;
        return true;
    }
    return false;
}

/* What a source has said so far. */
typedef struct reading {
    source_t source;
    piece_t given[OPTION_COUNT]; /* names, as they stood there */
    bool by_alias[OPTION_COUNT];
} reading_t;

/* Whether an option is given for the first time in this source, or by its own name after another one. */
static bool counts(reading_t *reading, option_name_t option, piece_t name, bool alias) {
    const char *prefix = prefixes[reading->source];
    piece_t before = reading->given[option];
    bool again = before.text != NULL, better = again && !alias && reading->by_alias[option];
    if (again && alias == reading->by_alias[option])
        lm_report("loam: %s%s is given more than once: the first counts", prefix, show(name).text);
    else if (again)
        lm_report("loam: %s%s ignored: %s%s is given as well", prefix,
                  show(better ? before : name).text, reading->source == BY_PROGRAM ? "" : prefix,
                  show(better ? name : before).text);
    if (again && !better) return false;
    reading->given[option] = name;
    reading->by_alias[option] = alias;
    return true;
}

static void read_pair(reading_t *reading, piece_t name, piece_t value) {
    const char *prefix = prefixes[reading->source];
    option_name_t option;
    size_t factor, number;
    if (!find(name, reading->source == BY_PROGRAM, &option, &factor)) {
        lm_report("loam: %sunknown option %s%s ignored",
                  reading->source == BY_PROGRAM ? prefix : "",
                  reading->source == BY_PROGRAM ? "" : prefix, show(name).text);
        return;
    }
    /* A constructor that ran before ours may have called. */
    if (sources[option] == BY_CALL || !counts(reading, option, name, factor != 0)) return;
    if (parse_value(&table[option], factor, value, &number)) {
        set(option, number, reading->source);
        return;
    }
    /* What counts instead: what was set before. */
    size_t kept = get(option);
    lm_report("loam: %s%s=%s: not %s; %s%s used", prefix, show(name).text, show(value).text,
              wanted_text(&table[option], factor).text,
              sources[option] == BY_DEFAULT ? "default " : "",
              table[option].path && kept == 0 ? "none" : value_text(&table[option], kept).text);
}

static bool blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

static piece_t trimmed(piece_t piece) {
    while (piece.length > 0 && blank(piece.text[0])) piece.text++, piece.length--;
    while (piece.length > 0 && blank(piece.text[piece.length - 1])) piece.length--;
    return piece;
}

static void read_program(const char *config) {
    reading_t reading = {.source = BY_PROGRAM};
    while (*config != '\0') {
        piece_t pair = trimmed((piece_t){config, strcspn(config, ",")});
        config += strcspn(config, ",");
        if (*config == ',') config++;
        if (pair.length == 0) continue;
        const char *equals = memchr(pair.text, '=', pair.length);
        if (equals == NULL) {
            lm_report("loam: loam_config: %s ignored: it has no value", show(pair).text);
            continue;
        }
        size_t length = (size_t)(equals - pair.text);
        read_pair(&reading, trimmed((piece_t){pair.text, length}),
                  trimmed((piece_t){equals + 1, pair.length - length - 1}));
    }
}

static void read_environment(char **environment) {
    static const char PREFIX[] = "LOAM_";
    reading_t reading = {.source = BY_ENVIRONMENT};
    for (char **entry = environment; *entry != NULL; entry++) {
        if (strncmp(*entry, PREFIX, sizeof PREFIX - 1) != 0) continue;
        const char *name = *entry + sizeof PREFIX - 1, *equals = strchr(name, '=');
        if (equals == NULL) continue;
        read_pair(&reading, (piece_t){name, (size_t)(equals - name)}, whole(equals + 1));
    }
}

/* Where the meter's rows go (loam/meter.h). */
static void start_rows(void) {
    if (get(OPTION_METER) == 0) return;
#if LOAM_METER > 1
    (void)loam_meter_start(rows_path);
#else
    lm_report("loam: LOAM_METER ignored: this library was built without it (cmake -DLOAM_METER=2)");
#endif
}

/* What several options say together. */
static void look_at_limits(void) {
    size_t soft = get(OPTION_LIMIT_SOFT), hard = get(OPTION_LIMIT_HARD);
    if (!limits_agree(soft, hard)) {
        lm_report("loam: LOAM_LIMIT_SOFT=%s ignored: it is above LOAM_LIMIT_HARD=%s",
                  value_text(&table[OPTION_LIMIT_SOFT], soft).text,
                  value_text(&table[OPTION_LIMIT_HARD], hard).text);
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
#else
    if (get(OPTION_RECORD_SITES) != 0 || get(OPTION_SHOW_LEAKS) != 0)
        lm_report("loam: LOAM_%s ignored: only the debug build can (cmake -DLOAM_DEBUG=ON)",
                  get(OPTION_RECORD_SITES) != 0 ? "RECORD_SITES" : "SHOW_LEAKS");
#endif
}

static void print_verbose(void) {
    const char *build = LOAM_DEBUG ? "debug" : LOAM_SECURE ? "secure" : "release";
    lm_print("loam: version %s, %s build", LOAM_VERSION_TEXT, build);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const option_t *option = &table[i];
        if (get((option_name_t)i) == option->initial) continue;
        lm_print("loam: LOAM_%s=%s (%s; default %s)", option->name,
                 value_text(option, get((option_name_t)i)).text,
                 source_names[lm_load_relaxed(&sources[i])],
                 option->path ? "none" : value_text(option, option->initial).text);
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

int loam_option_set(const char *name, const char *value) {
    option_name_t option;
    size_t factor, number;
    if (name == NULL || value == NULL || !find(whole(name), true, &option, &factor)) return -EINVAL;
    if (table[option].when == START && started) return -EBUSY;
    if (!parse_value(&table[option], factor, whole(value), &number)) return -EINVAL;
    if (option == OPTION_LIMIT_SOFT && !limits_agree(number, get(OPTION_LIMIT_HARD)))
        return -EINVAL;
    if (option == OPTION_LIMIT_HARD && !limits_agree(get(OPTION_LIMIT_SOFT), number))
        return -EINVAL;
    set(option, number, BY_CALL);
    if (started && (option == OPTION_PURGE_THREAD || option == OPTION_PAGE_RESET))
        lm_purge_changed();
    if (started && (option == OPTION_LIMIT_SOFT || option == OPTION_LIMIT_HARD)) lm_limit_changed();
    return 0;
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
    if (name == NULL || value == NULL || !find(whole(name), true, &option, &factor)) return -EINVAL;
    bool path = table[option].path && get(option) != 0;
    lm_line_t line = {0};
    if (!path) line = value_text(&table[option], get(option));
    const char *text = path ? rows_path : line.text;
    size_t length = strlen(text);
    if (length >= bytes) return -ENOSPC;
    memcpy(value, text, length + 1);
    return (int)length;
}

const char *loam_option_name(size_t index) {
    return index < OPTION_COUNT ? table[index].name : NULL;
}

void loam_options_print(void) {
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        lm_print("LOAM_%s=%s (%s): %s", table[i].name,
                 value_text(&table[i], get((option_name_t)i)).text,
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
