/* options.c: LOAM_* from the environment.
 *
 * The table is options.def. What is not understood costs one clear line on standard error and nothing
 * else. A process with more rights than its caller (AT_SECURE) reads none of it. No allocation, no
 * libc call that could make one: this runs before the program does.
 */
#include "api/api.h"
#include "loam/meter.h"

#include <string.h>

typedef enum option_name {
#define OPTION(name, initial, least, most, sentence) OPTION_##name,
#define CHOICE(name, initial, word0, word1, sentence) OPTION_##name,
#include "api/options.def"
#undef OPTION
#undef CHOICE
    OPTION_COUNT
} option_name_t;

typedef struct option {
    const char *name;
    size_t initial, least, most;
    const char *words[2]; /* NULL: a number */
} option_t;

static const option_t table[OPTION_COUNT] = {
#define OPTION(name, initial, least, most, sentence) {#name, initial, least, most, {NULL, NULL}},
#define CHOICE(name, initial, word0, word1, sentence) {#name, initial, 0, 1, {word0, word1}},
#include "api/options.def"
#undef OPTION
#undef CHOICE
};

static const char PREFIX[] = "LOAM_";

static bool parse_number(const char *text, const option_t *option, size_t *value) {
    size_t number = 0;
    if (*text == '\0') return false;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || number > option->most) return false;
        number = number * 10 + (size_t)(*text - '0');
    }
    *value = number;
    return number >= option->least && number <= option->most;
}

/* A piece of the environment as it may be shown: short, and nothing that moves a terminal's cursor. */
typedef struct shown {
    char text[48];
} shown_t;

static shown_t show(const char *text, size_t length) {
    shown_t shown;
    size_t most = sizeof shown.text - 4, n = length < most ? length : most;
    for (size_t i = 0; i < n; i++) shown.text[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    memcpy(shown.text + n, length > most ? "..." : "", length > most ? 4 : 1);
    return shown;
}

static void parse_value(const char *text, const option_t *option, size_t *value) {
    size_t number;
    if (option->words[0] != NULL) {
        for (size_t i = 0; i < 2; i++) {
            if (strcmp(text, option->words[i]) == 0) {
                *value = i;
                return;
            }
        }
        lm_report("loam: LOAM_%s=%s: not %s or %s; default %s used", option->name,
                  show(text, strlen(text)).text, option->words[0], option->words[1],
                  option->words[option->initial]);
    } else if (parse_number(text, option, &number)) {
        *value = number;
    } else {
        lm_report("loam: LOAM_%s=%s: not a number from %zu to %zu; default %zu used", option->name,
                  show(text, strlen(text)).text, option->least, option->most, option->initial);
    }
}

/* Where the meter's rows go (loam/meter.h). */
static const char METER[] = "METER";
static LM_AT_START const char *rows_path;

static void start_rows(void) {
    if (rows_path == NULL || *rows_path == '\0') return;
#if LOAM_METER > 1
    (void)loam_meter_start(rows_path);
#else
    lm_report("loam: LOAM_METER ignored: this library was built without it (cmake -DLOAM_METER=2)");
#endif
}

/* One "LOAM_NAME=value". */
static void parse_entry(const char *entry, size_t *values) {
    const char *name = entry + sizeof PREFIX - 1, *equals = strchr(name, '=');
    if (equals == NULL) return;
    size_t length = (size_t)(equals - name);
    if (length == sizeof METER - 1 && memcmp(name, METER, length) == 0) {
        rows_path = equals + 1;
        return;
    }
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0) {
            parse_value(equals + 1, &table[i], &values[i]);
            return;
        }
    }
    lm_report("loam: unknown option LOAM_%s ignored", show(name, length).text);
}

static LM_AT_START bool show_stats;

void lm_options_read(char **environment) {
    size_t values[OPTION_COUNT];
    for (size_t i = 0; i < OPTION_COUNT; i++) values[i] = table[i].initial;
    if (environment != NULL && !lm_os_secure()) {
        for (char **entry = environment; *entry != NULL; entry++) {
            if (strncmp(*entry, PREFIX, sizeof PREFIX - 1) == 0) parse_entry(*entry, values);
        }
    }
    lm_misuse_policy.quiet = values[OPTION_SHOW_ERRORS] == 0;
    lm_misuse_policy.ignore = values[OPTION_ON_ERROR] == 1;
    lm_purge_policy.delay_ms = (uint32_t)values[OPTION_PURGE_DELAY];
    lm_purge_policy.worker = values[OPTION_PURGE_THREAD] == 1;
    show_stats = values[OPTION_SHOW_STATS] == 1;
    start_rows();
    if (values[OPTION_VERBOSE] == 1) {
        lm_report("loam: version %s, %s build, purge after %u ms %s", LOAM_VERSION_TEXT,
                  LOAM_DEBUG    ? "debug"
                  : LOAM_SECURE ? "secure"
                                : "release",
                  lm_purge_policy.delay_ms,
                  lm_purge_policy.worker ? "in the background" : "in free");
    }
}

__attribute__((destructor)) static void print_at_exit(void) {
    if (show_stats) loam_stats_print();
}
