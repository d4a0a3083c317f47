/* option_read.c: reads the sources of options before main: the program's string, then the
 * environment.
 *
 *   loam_config   "purge_delay=1s,environment=0"  ──┐
 *   environment   LOAM_PURGE_DELAY=2s              ─┴─>  lm_option_store; one line for each mistake
 *
 * The environment is not read in a process with more rights than its caller (AT_SECURE), in a
 * program whose string says environment=0, and by a library that was built with
 * -DLOAM_READ_ENVIRONMENT=OFF, which contains no code for it. Nothing here allocates, takes a lock,
 * or calls a function of libc that could do either: this runs before the program does.
 *
 * Invariant: an option has the value of its strongest source that gave a valid one.
 */
#include "api/option_table.h"
#include "loam/meter.h"
#include "loam/options.h"

#include <errno.h>
#include <string.h>

static bool started;

bool lm_options_started(void) { return started; }

/* State of reading one source. */
typedef struct reading {
    source_t source;
    lm_piece_t given[OPTION_COUNT]; /* the names that the source has used */
    bool by_alias[OPTION_COUNT];
    size_t before[OPTION_COUNT]; /* value of a weaker source, if an alias is given */
    source_t before_by[OPTION_COUNT];
} reading_t;

/* Returns whether this mention of an option counts: it is the first in its source, or the option's
 * own name after an alias. Reports mentions that do not count. */
static bool option_read_counts(reading_t *reading, option_name_t option, lm_piece_t name,
                               bool alias) {
    LM_ASSERT(name.text != NULL); /* NULL: the option was not given */
    const char *prefix = lm_option_prefix(reading->source);
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
    if (better) /* restores the state before the alias */
        lm_option_store(option, (lm_piece_t){0}, reading->before[option],
                        reading->before_by[option]);
    reading->before[option] = lm_option_get(option);
    reading->before_by[option] = lm_option_source(option);
    reading->given[option] = name;
    reading->by_alias[option] = alias;
    return true;
}

/* Reports a value that is invalid or cannot be computed. The value of a weaker source counts. */
static void report_value(const reading_t *reading, option_name_t option, size_t factor,
                         lm_piece_t name, lm_piece_t value) {
    static const char *const whose[SOURCES] = {[BY_DEFAULT] = "default ",
                                               [BY_PROGRAM] = "loam_config's ",
                                               [BY_DEFAULTS] = "loam_option_set_default's "};
    const lm_option_t *row = &lm_option_table[option];
    size_t kept = lm_option_get(option), number;
    source_t by = lm_option_source(option);
    lm_line_t why = {0};
    if (lm_option_read(option, factor, value, &number) == -ENODATA)
        lm_line_add(&why, "the system does not say how much memory there is");
    else
        lm_line_add(&why, "not %s", lm_option_wanted(row, factor, value).text);
    lm_report("loam: %s%s=%s: %s; %s%s used", lm_option_prefix(reading->source),
              lm_option_show(name).text, lm_option_show(value).text, why.text,
              whose[by] != NULL ? whose[by] : "",
              row->path && kept == 0 ? "none" : lm_option_value_text(option, 0, kept).text);
}

static void read_pair(reading_t *reading, lm_piece_t name, lm_piece_t value) {
    LM_ASSERT(value.text != NULL);
    const char *prefix = lm_option_prefix(reading->source);
    option_name_t option;
    size_t factor, number;
    if (!lm_option_find(name, reading->source == BY_PROGRAM, &option, &factor)) {
        lm_report("loam: %sunknown option %s%s ignored",
                  reading->source == BY_PROGRAM ? prefix : "",
                  reading->source == BY_PROGRAM ? "" : prefix, lm_option_show(name).text);
        return;
    }
    if (lm_option_table[option].when == PROGRAM && reading->source != BY_PROGRAM) {
        lm_report("loam: %s%s ignored: it counts in the program's string alone", prefix,
                  lm_option_show(name).text);
        return;
    }
    /* An earlier constructor may have called loam_option_set, which is stronger. */
    bool stronger = lm_option_source(option) > reading->source;
    if (stronger && !lm_option_limits(option)) return;
    if (!option_read_counts(reading, option, name, factor != 0)) return;
    switch (lm_option_read(option, factor, value, &number)) {
    case 0:
        if (lm_option_limits(option)) lm_option_limit_note(option, number, reading->source);
        if (!stronger) lm_option_store(option, value, number, reading->source);
        break;
    case -ENOTSUP:
        lm_report("loam: %s%s ignored: %s", prefix, lm_option_show(name).text,
                  lm_option_elsewhere(option));
        break;
    default:
        if (!stronger) report_value(reading, option, factor, name, value);
    }
}

/* An array of seven printable characters is not taken for a pointer: bits 48 to 63 of a program's
 * pointer are 0. A shorter array sets no option, and must not be followed as a pointer. */
const char *lm_options_text(const void *config) {
    if (config == NULL) return NULL;
    size_t texts = 0;
    const unsigned char *c = config;
    while (texts < 7 && (lm_option_blank((char)c[texts]) || (c[texts] >= ' ' && c[texts] <= '~')))
        texts++;
    const char *pointer;
    memcpy(&pointer, config, sizeof pointer);
    return texts == 7 || (pointer != NULL && !lm_os_mapped(pointer)) ? config : pointer;
}

static void option_read_program(const char *config) {
    reading_t reading = {.source = BY_PROGRAM};
    lm_piece_t name, value;
    while (lm_option_pair(&config, &name, &value)) {
        if (value.text != NULL)
            read_pair(&reading, name, value);
        else if (name.length > 0)
            lm_report("loam: loam_config: %s ignored: it has no value", lm_option_show(name).text);
    }
}

static void option_read_environment(char **environment) {
    static const char PREFIX[] = "LOAM_";
    reading_t reading = {.source = BY_ENVIRONMENT};
    for (char **entry = environment; *entry != NULL; entry++) {
        if (strncmp(*entry, PREFIX, sizeof PREFIX - 1) != 0) continue;
        const char *name = *entry + sizeof PREFIX - 1, *equals = strchr(name, '=');
        if (equals == NULL) continue;
        read_pair(&reading, (lm_piece_t){name, (size_t)(equals - name)}, lm_piece(equals + 1));
    }
}

/* Opens the file for the meter's rows (loam/meter.h). */
static void start_rows(void) {
    if (lm_option_get(OPTION_METER) == 0) return;
#if LOAM_METER > 1
    (void)loam_meter_start(lm_option_path());
#endif
}

/* Starts recording call sites, which only the debug build supports. */
static void start_sites(void) {
#if LOAM_DEBUG
    size_t callers = lm_option_get(OPTION_RECORD_SITES);
    if (callers != 0)
        lm_sites_record((unsigned)callers);
    else
        lm_sites_settle();
#endif
}

/* Applies options that depend on each other. */
static void option_read_look_at_limits(void) {
    lm_option_limits_settle();
    size_t mode = lm_option_get(OPTION_LIMIT_CGROUP);
    if (mode == LM_CGROUP_IGNORED || lm_limit_find_cgroup() || mode != LM_CGROUP_EXPECTED) return;
    lm_report("loam: %s=1: no control group of memory found; looking again later",
              lm_option_named(OPTION_LIMIT_CGROUP, lm_option_source(OPTION_LIMIT_CGROUP)).text);
}

static void print_verbose(void) {
    lm_print("loam: version %s, %s build", LOAM_VERSION_TEXT, lm_build_name());
    for (int i = 0; i < OPTION_COUNT; i++) {
        const lm_option_t *option = &lm_option_table[i];
        if (lm_option_get(i) == option->initial) continue;
        lm_print("loam: LOAM_%s=%s (%s; default %s)", option->name,
                 lm_option_value_text(i, 0, lm_option_get(i)).text,
                 lm_option_source_name(lm_option_source(i)),
                 option->path ? "none" : lm_option_value_text(i, 0, option->initial).text);
    }
}

void lm_options_read(const char *config, char **environment) {
    if (started) { /* only a test calls it twice */
        lm_option_limits_reset();
        for (int i = 0; i < OPTION_COUNT; i++)
            lm_option_store(i, (lm_piece_t){0}, lm_option_table[i].initial, BY_DEFAULT);
    }
    if (config != NULL) option_read_program(config);
    if (!LOAM_READ_ENVIRONMENT || lm_option_get(OPTION_ENVIRONMENT) == 0 || lm_os_secure())
        environment = NULL;
    if (environment != NULL) {
        lm_glibc_read(environment, false);
        option_read_environment(environment);
    }
    started = true;
    option_read_look_at_limits();
    start_rows();
    start_sites();
    if (lm_option_get(OPTION_VERBOSE) == 0) return;
    print_verbose();
    if (environment != NULL) lm_glibc_read(environment, true);
}

void lm_options_reserve(void) {
    lm_at_start_t want = {.pages_1g = lm_option_get(OPTION_RESERVE_HUGE_OS_PAGES),
                          .pages_2m = lm_option_get(OPTION_RESERVE_LARGE_OS_PAGES),
                          .node = (int)lm_option_get(OPTION_RESERVE_HUGE_OS_PAGES_AT) - 1,
                          .timeout_ms = lm_option_get(OPTION_RESERVE_TIMEOUT),
                          .bytes = lm_option_get(OPTION_RESERVE_OS_MEMORY)};
    lm_arenas_at_start(&want);
}
