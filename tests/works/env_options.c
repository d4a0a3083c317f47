/*
 * env_options.c - options from the environment: what is said of unknown ones and of bad values,
 * and that they are obeyed.
 *
 * Catches: a mistake in the environment that stays silent, stops the program, or takes more than
 * one line; a bad value that is half obeyed; prefixes taken for names; a library that prints when
 * nobody asked it to; options without effect.
 *
 * The program starts itself once for each row of the table and compares its standard error, to the
 * letter where the text is promised, otherwise by beginning and end.
 */
#include "works.h"

#include <loam/types.h>

#if LOAM_DEBUG
#define BUILD "debug"
#define OF_ANOTHER_BUILD "LOAM_RANDOM_ORDER"
#define ANOTHER_BUILD "SECURE"
#elif LOAM_SECURE
#define BUILD "secure"
#else
#define BUILD "release"
#endif
#if !LOAM_DEBUG
#define OF_ANOTHER_BUILD "LOAM_SHOW_LEAKS"
#define ANOTHER_BUILD "DEBUG"
#endif

/* One start: the environment, what the started program does (NULL: allocate and free), what it must
   write, how it must end. */
typedef struct row {
    const char *options[3];
    const char *behaviour;
    const char *exact;         /* the whole of standard error, or NULL: */
    const char *begins, *ends; /* exactly one line, of which this is the beginning and the end */
    int signal_number;         /* 0: the program ends with status 0 */
} row;

#define DELAY_LINE(value) \
    "loam: LOAM_PURGE_DELAY=" value ": not a time from 0ms to 3600000ms; default 300ms used\n"

#define VERBOSE_LINES(others) \
    "loam: version " LOAM_VERSION_TEXT ", " BUILD " build\n" \
    "loam: LOAM_VERBOSE=1 (environment; default 0)\n" others

static const row rows[] = {
    /* nothing is printed by default, nor for what does not concern loam, nor for good values */
    {.exact = ""},
    {.options = {"LOAMY=1", "loam_verbose=1", "XLOAM_VERBOSE=1"}, .exact = ""},
    {.options = {"LOAM_VERBOSE=0", "LOAM_SHOW_STATS=0", "LOAM_SHOW_ERRORS=1"}, .exact = ""},
    {.options = {"LOAM_PURGE_DELAY=0"}, .exact = ""},
    {.options = {"LOAM_PURGE_DELAY=3600000"}, .exact = ""},
    {.options = {"LOAM_PURGE_THREAD=0"}, .exact = ""},
    {.options = {"LOAM_ON_ERROR=abort"}, .exact = ""},
    {.options = {"LOAM_ON_ERROR=ignore"}, .exact = ""},

    /* unknown options: one line, then ignored; names are compared whole, and in their own case */
    {.options = {"LOAM_X=1"}, .exact = "loam: unknown option LOAM_X ignored\n"},
    {.options = {"LOAM_NO_SUCH_OPTION=anything at all"},
     .exact = "loam: unknown option LOAM_NO_SUCH_OPTION ignored\n"},
    {.options = {"LOAM_PURGE=1"}, .exact = "loam: unknown option LOAM_PURGE ignored\n"},
    {.options = {"LOAM_PURGE_DELAYS=1"},
     .exact = "loam: unknown option LOAM_PURGE_DELAYS ignored\n"},
    {.options = {"LOAM_verbose=1"}, .exact = "loam: unknown option LOAM_verbose ignored\n"},
    {.options = {"LOAM_X=1", "LOAM_Y=2"},
     .exact = "loam: unknown option LOAM_X ignored\nloam: unknown option LOAM_Y ignored\n"},

    /* bad values: option, value, what is allowed, what is used instead */
    {.options = {"LOAM_PURGE_DELAY=abc"}, .exact = DELAY_LINE("abc")},
    {.options = {"LOAM_PURGE_DELAY="}, .exact = DELAY_LINE("")},
    {.options = {"LOAM_PURGE_DELAY=-1"}, .exact = DELAY_LINE("-1")},
    {.options = {"LOAM_PURGE_DELAY=3600001"}, .exact = DELAY_LINE("3600001")},
    {.options = {"LOAM_PURGE_DELAY=300m"}, .exact = DELAY_LINE("300m")},
    {.options = {"LOAM_PURGE_DELAY=0x10"}, .exact = DELAY_LINE("0x10")},
    {.options = {"LOAM_PURGE_DELAY= 5"}, .exact = DELAY_LINE(" 5")},
    {.options = {"LOAM_PURGE_DELAY=1.5"}, .exact = DELAY_LINE("1.5")},
    {.options = {"LOAM_PURGE_DELAY=18446744073709551616"},
     .exact = DELAY_LINE("18446744073709551616")},
    {.options = {"LOAM_PURGE_DELAY=18446744073709551916"},
     .exact = DELAY_LINE("18446744073709551916")},
    {.options = {"LOAM_PURGE_DELAY=1\n2"},
     .begins = "loam: LOAM_PURGE_DELAY=1",
     .ends = "default 300ms used\n"},
    {.options = {"LOAM_PURGE_DELAY=%s%n%s%n"}, .exact = DELAY_LINE("%s%n%s%n")},
    {.options = {"LOAM_VERBOSE=2"},
     .begins = "loam: LOAM_VERBOSE=2: not ",
     .ends = "default 0 used\n"},
    {.options = {"LOAM_VERBOSE=maybe"},
     .begins = "loam: LOAM_VERBOSE=maybe: not ",
     .ends = "default 0 used\n"},
    {.options = {"LOAM_SHOW_STATS=-"},
     .begins = "loam: LOAM_SHOW_STATS=-: not ",
     .ends = "default 0 used\n"},
    {.options = {"LOAM_SHOW_ERRORS=2"},
     .begins = "loam: LOAM_SHOW_ERRORS=2: not ",
     .ends = "default 1 used\n"},
    {.options = {"LOAM_PURGE_THREAD=2"},
     .begins = "loam: LOAM_PURGE_THREAD=2: not ",
     .ends = "default 1 used\n"},
    {.options = {"LOAM_ON_ERROR=explode"},
     .begins = "loam: LOAM_ON_ERROR=explode: not ",
     .ends = "default abort used\n"},
    {.options = {"LOAM_ON_ERROR=aborted"},
     .begins = "loam: LOAM_ON_ERROR=aborted: not ",
     .ends = "default abort used\n"},

    /* what another build has */
    {.options = {OF_ANOTHER_BUILD "=0"}, .exact = ""},
    {.options = {OF_ANOTHER_BUILD "=1"},
     .begins = "loam: " OF_ANOTHER_BUILD " ignored: only the ",
     .ends = " build can (cmake -DLOAM_" ANOTHER_BUILD "=ON)\n"},

    /* the options do what they say */
    {.options = {"LOAM_VERBOSE=1"}, .exact = VERBOSE_LINES("")},
    {.options = {"LOAM_VERBOSE=1", "LOAM_PURGE_DELAY=2s"},
     .exact = VERBOSE_LINES("loam: LOAM_PURGE_DELAY=2000ms (environment; default 300ms)\n")},
    {.options = {"LOAM_PAGE_RESET=0"}, .behaviour = "keeps", .exact = ""},
    {.options = {"LOAM_PAGE_RESET=0", "LOAM_PURGE_THREAD=0"}, .behaviour = "keeps", .exact = ""},
    {.behaviour = "foreign",
     .begins = "loam: free of a pointer that loam did not allocate: 0x",
     .ends = "); LOAM_IGNORE=foreign goes on\n",
     .signal_number = SIGABRT},
    {.options = {"LOAM_IGNORE=overflow+copy"},
     .behaviour = "foreign",
     .begins = "loam: free of a pointer that loam did not allocate: 0x",
     .ends = "); LOAM_IGNORE=foreign goes on\n",
     .signal_number = SIGABRT},
    {.options = {"LOAM_IGNORE=copy,foreign"},
     .behaviour = "foreign",
     .begins = "loam: free of a pointer that loam did not allocate: 0x",
     .ends = ")\n"},
    {.options = {"LOAM_SHOW_ERRORS=0"},
     .behaviour = "foreign",
     .exact = "",
     .signal_number = SIGABRT},
    {.options = {"LOAM_ON_ERROR=ignore"},
     .behaviour = "foreign",
     .begins = "loam: free of a pointer that loam did not allocate: 0x",
     .ends = ")\n"},
    {.options = {"LOAM_ON_ERROR=ignore", "LOAM_SHOW_ERRORS=0"},
     .behaviour = "foreign",
     .exact = ""},
    {.options = {"LOAM_PURGE_DELAY=3600000"}, .behaviour = "keeps", .exact = ""},
    {.options = {"LOAM_PURGE_DELAY=0"}, .behaviour = "returns", .exact = ""},
    {.behaviour = "returns", .exact = ""},
    {.options = {"LOAM_PURGE_THREAD=0"}, .behaviour = "alone", .exact = ""},
};

static char foreign[4096] __attribute__((aligned(4096)));

static void free_64_mib(void) {
    static char *blocks[1024];
    for (int i = 0; i < 1024; i++) {
        blocks[i] = malloc(64 * WORKS_KIB);
        CHECK(blocks[i] != NULL, "malloc");
        works_touch(blocks[i], 64 * WORKS_KIB);
    }
    for (int i = 0; i < 1024; i++) free(blocks[i]);
}

static int child(const char *behaviour) {
    if (!dlsym(RTLD_DEFAULT, "loam_version")) return 1;
    works_exercise(1, 200);
    if (strcmp(behaviour, "foreign") == 0) {
        void *volatile pointer = foreign + 64;
        free(pointer);
        works_exercise(2, 200);
    }
    if (strcmp(behaviour, "keeps") == 0 || strcmp(behaviour, "returns") == 0) {
        size_t start = works_rss_bytes();
        free_64_mib();
        bool keeps = strcmp(behaviour, "keeps") == 0;
        size_t most = start + 32 * WORKS_MIB;
        if (keeps) works_sleep_ms(700);
        size_t end = keeps ? works_rss_bytes() : works_settled(works_rss_bytes, most);
        CHECK((end > most) == keeps, "of 64 MiB that were freed, %zu KiB are resident",
              (end - start) / 1024);
    }
    if (strcmp(behaviour, "alone") == 0) {
        free_64_mib();
        for (int i = 0; i < 100; i++) {
            CHECK(works_thread_count() == 1, "LOAM_PURGE_THREAD=0, and the process has %d threads",
                  works_thread_count());
            works_sleep_ms(5);
        }
    }
    return 0;
}

static int lines_in(const char *text) {
    int lines = 0;
    for (; *text; text++) lines += *text == '\n';
    return lines;
}

static bool starts_with(const char *text, const char *begin) {
    return strncmp(text, begin, strlen(begin)) == 0;
}

static bool finishes_with(const char *text, const char *end) {
    size_t length = strlen(text), wanted = strlen(end);
    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

static int failures;

/* Failures are counted, not fatal: one run shows all the rows that are wrong. */
static void expect(const row *r) {
    char text[8192], *environment[4] = {NULL};
    for (int i = 0; i < 3; i++) environment[i] = (char *)r->options[i];
    char *arguments[] = {(char *)works_self(), (char *)"--child",
                         (char *)(r->behaviour ? r->behaviour : "work"), NULL};
    int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
    bool ended = r->signal_number ? WIFSIGNALED(status) && WTERMSIG(status) == r->signal_number
                                  : WIFEXITED(status) && WEXITSTATUS(status) == 0;
    bool said = r->exact ? strcmp(text, r->exact) == 0
                         : lines_in(text) == 1 && starts_with(text, r->begins) &&
                               finishes_with(text, r->ends);
    if (ended && said) return;
    failures++;
    const char *option = r->options[0] ? r->options[0] : "no option";
    works_say("FAIL %s%s%s, program '%s': status %d, wanted %s %d", option,
              r->options[0] && r->options[1] ? " " : "",
              r->options[0] && r->options[1] ? r->options[1] : "",
              r->behaviour ? r->behaviour : "work", status, r->signal_number ? "signal" : "exit",
              r->signal_number);
    works_say("  said   '%.150s'", text);
    if (r->exact)
        works_say("  wanted '%.150s'", r->exact);
    else
        works_say("  wanted one line '%s...%s'", r->begins, r->ends);
}

/* A value longer than any buffer: one line, cut or not, and no crash. */
static void expect_long_value(void) {
    static char option[100000], text[200000];
    int n = snprintf(option, sizeof option, "LOAM_PURGE_DELAY=");
    memset(option + n, '7', sizeof option - (size_t)n - 1);
    row r = {.options = {option},
             .begins = "loam: LOAM_PURGE_DELAY=777",
             .ends = "default 300ms used\n"};
    expect(&r);
    n = snprintf(option, sizeof option, "LOAM_");
    memset(option + n, 'Q', sizeof option - (size_t)n - 3);
    memcpy(option + sizeof option - 3, "=1", 3);
    char *environment[] = {option, NULL},
         *arguments[] = {(char *)works_self(), (char *)"--child", (char *)"work", NULL};
    int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "an option name of 100 kB ended the program with status %d", status);
    CHECK(lines_in(text) == 1 && starts_with(text, "loam: unknown option LOAM_QQQ") &&
              finishes_with(text, "ignored\n"),
          "an option name of 100 kB: %d lines, '%.60s...'", lines_in(text), text);
}

/* Statistics come at the end, on standard error, and leave the program's status alone. */
static void expect_statistics(void) {
    char text[65536], *environment[] = {(char *)"LOAM_SHOW_STATS=1", NULL};
    char *arguments[] = {(char *)works_self(), (char *)"--child", (char *)"work", NULL};
    int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
          "LOAM_SHOW_STATS=1 ended the program with status %d", status);
    CHECK(lines_in(text) >= 1, "LOAM_SHOW_STATS=1 printed nothing");
}

int main(int argc, char **argv) {
    if (argc > 2) return child(argv[2]);
    works_require_loam();
    works_limit(60);
    if (works_any_allocator()) SKIP("it is about loam's own options");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) expect(&rows[i]);
    expect_long_value();
    expect_statistics();
    CHECK(failures == 0, "%d of the rows above are wrong", failures);
    return 0;
}
