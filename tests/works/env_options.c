/*
 * env_options.c - options from the environment: what is said of unknown ones and of bad values, and that they are obeyed.
 *
 * Catches: a mistake in the environment that stays silent, stops the program, or takes more than one line; a bad value that
 * is half obeyed; prefixes taken for names; a library that prints when nobody asked it to; options without effect.
 *
 * The program starts itself once for each row of the table and compares its standard error, to the letter where the
 * text is promised, otherwise by beginning and end.
 */
#include "works.h"

/* One start: the environment, how the started program behaves, what it must write, how it must end. */
typedef struct row {
  const char *options[3];
  const char *behaviour;
  const char *exact;              /* the whole of standard error, or NULL: */
  const char *begins, *ends;      /* exactly one line, of which this is the beginning and the end */
  int signal_number;              /* 0: the program ends with status 0 */
} row;

#define DELAY_LINE(value) "loam: LOAM_PURGE_DELAY=" value ": not a number from 0 to 3600000; default 300 used\n"

static const row rows[] = {
    /* nothing is printed by default, nor for what does not concern loam, nor for good values */
    {{NULL}, "work", "", NULL, NULL, 0},
    {{"LOAMY=1", "loam_verbose=1", "XLOAM_VERBOSE=1"}, "work", "", NULL, NULL, 0},
    {{"LOAM_VERBOSE=0", "LOAM_SHOW_STATS=0", "LOAM_SHOW_ERRORS=1"}, "work", "", NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=0"}, "work", "", NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=3600000"}, "work", "", NULL, NULL, 0},
    {{"LOAM_PURGE_THREAD=0"}, "work", "", NULL, NULL, 0},
    {{"LOAM_ON_ERROR=abort"}, "work", "", NULL, NULL, 0},
    {{"LOAM_ON_ERROR=ignore"}, "work", "", NULL, NULL, 0},

    /* unknown options: one line, then ignored; names are compared whole, and in their own case */
    {{"LOAM_X=1"}, "work", "loam: unknown option LOAM_X ignored\n", NULL, NULL, 0},
    {{"LOAM_NO_SUCH_OPTION=anything at all"}, "work", "loam: unknown option LOAM_NO_SUCH_OPTION ignored\n", NULL, NULL, 0},
    {{"LOAM_PURGE=1"}, "work", "loam: unknown option LOAM_PURGE ignored\n", NULL, NULL, 0},
    {{"LOAM_PURGE_DELAYS=1"}, "work", "loam: unknown option LOAM_PURGE_DELAYS ignored\n", NULL, NULL, 0},
    {{"LOAM_verbose=1"}, "work", "loam: unknown option LOAM_verbose ignored\n", NULL, NULL, 0},
    {{"LOAM_X=1", "LOAM_Y=2"}, "work", "loam: unknown option LOAM_X ignored\nloam: unknown option LOAM_Y ignored\n", NULL, NULL, 0},

    /* bad values: option, value, what is allowed, what is used instead */
    {{"LOAM_PURGE_DELAY=abc"}, "work", DELAY_LINE("abc"), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY="}, "work", DELAY_LINE(""), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=-1"}, "work", DELAY_LINE("-1"), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=3600001"}, "work", DELAY_LINE("3600001"), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=300ms"}, "work", DELAY_LINE("300ms"), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=0x10"}, "work", DELAY_LINE("0x10"), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY= 5"}, "work", DELAY_LINE(" 5"), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=1.5"}, "work", DELAY_LINE("1.5"), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=18446744073709551616"}, "work", DELAY_LINE("18446744073709551616"), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=18446744073709551916"}, "work", DELAY_LINE("18446744073709551916"), NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=1\n2"}, "work", NULL, "loam: LOAM_PURGE_DELAY=1", "default 300 used\n", 0},
    {{"LOAM_PURGE_DELAY=%s%n%s%n"}, "work", DELAY_LINE("%s%n%s%n"), NULL, NULL, 0},
    {{"LOAM_VERBOSE=2"}, "work", NULL, "loam: LOAM_VERBOSE=2: not ", "default 0 used\n", 0},
    {{"LOAM_VERBOSE=yes"}, "work", NULL, "loam: LOAM_VERBOSE=yes: not ", "default 0 used\n", 0},
    {{"LOAM_SHOW_STATS=-"}, "work", NULL, "loam: LOAM_SHOW_STATS=-: not ", "default 0 used\n", 0},
    {{"LOAM_SHOW_ERRORS=2"}, "work", NULL, "loam: LOAM_SHOW_ERRORS=2: not ", "default 1 used\n", 0},
    {{"LOAM_PURGE_THREAD=2"}, "work", NULL, "loam: LOAM_PURGE_THREAD=2: not ", "default 1 used\n", 0},
    {{"LOAM_ON_ERROR=explode"}, "work", NULL, "loam: LOAM_ON_ERROR=explode: not ", "default abort used\n", 0},
    {{"LOAM_ON_ERROR=aborted"}, "work", NULL, "loam: LOAM_ON_ERROR=aborted: not ", "default abort used\n", 0},

    /* the options do what they say */
    {{"LOAM_VERBOSE=1"}, "work", NULL, "loam: version ", "\n", 0},
    {{NULL}, "foreign", NULL, "loam: free of a pointer that loam did not allocate: 0x", ")\n", SIGABRT},
    {{"LOAM_SHOW_ERRORS=0"}, "foreign", "", NULL, NULL, SIGABRT},
    {{"LOAM_ON_ERROR=ignore"}, "foreign", NULL, "loam: free of a pointer that loam did not allocate: 0x", ")\n", 0},
    {{"LOAM_ON_ERROR=ignore", "LOAM_SHOW_ERRORS=0"}, "foreign", "", NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=3600000"}, "keeps", "", NULL, NULL, 0},
    {{"LOAM_PURGE_DELAY=0"}, "returns", "", NULL, NULL, 0},
    {{NULL}, "returns", "", NULL, NULL, 0},
    {{"LOAM_PURGE_THREAD=0"}, "alone", "", NULL, NULL, 0},
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
    works_sleep_ms(700);
    size_t end = works_rss_bytes();
    bool stayed = end > start + 32 * WORKS_MIB;
    CHECK(stayed == (strcmp(behaviour, "keeps") == 0), "of 64 MiB that were freed, %zu KiB are resident after 700 ms",
          (end - start) / 1024);
  }
  if (strcmp(behaviour, "alone") == 0) {
    free_64_mib();
    for (int i = 0; i < 100; i++) {
      CHECK(works_thread_count() == 1, "LOAM_PURGE_THREAD=0, and the process has %d threads", works_thread_count());
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

static bool starts_with(const char *text, const char *begin) { return strncmp(text, begin, strlen(begin)) == 0; }

static bool finishes_with(const char *text, const char *end) {
  size_t length = strlen(text), wanted = strlen(end);
  return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

static int failures;

/* Failures are counted, not fatal: one run shows all the rows that are wrong. */
static void expect(const row *r) {
  char text[8192], *environment[4] = {NULL};
  for (int i = 0; i < 3; i++) environment[i] = (char *)r->options[i];
  char *arguments[] = {(char *)works_self(), (char *)"--child", (char *)r->behaviour, NULL};
  int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
  bool ended = r->signal_number ? WIFSIGNALED(status) && WTERMSIG(status) == r->signal_number
                                : WIFEXITED(status) && WEXITSTATUS(status) == 0;
  bool said = r->exact ? strcmp(text, r->exact) == 0
                       : lines_in(text) == 1 && starts_with(text, r->begins) && finishes_with(text, r->ends);
  if (ended && said) return;
  failures++;
  const char *option = r->options[0] ? r->options[0] : "no option";
  works_say("FAIL %s%s%s, program '%s': status %d, wanted %s %d", option, r->options[0] && r->options[1] ? " " : "",
            r->options[0] && r->options[1] ? r->options[1] : "", r->behaviour, status,
            r->signal_number ? "signal" : "exit", r->signal_number);
  works_say("  said   '%.150s'", text);
  if (r->exact) works_say("  wanted '%.150s'", r->exact);
  else works_say("  wanted one line '%s...%s'", r->begins, r->ends);
}

/* A value longer than any buffer: one line, cut or not, and no crash. */
static void expect_long_value(void) {
  static char option[100000], text[200000];
  int n = snprintf(option, sizeof option, "LOAM_PURGE_DELAY=");
  memset(option + n, '7', sizeof option - (size_t)n - 1);
  row r = {{option}, "work", NULL, "loam: LOAM_PURGE_DELAY=777", "default 300 used\n", 0};
  expect(&r);
  n = snprintf(option, sizeof option, "LOAM_");
  memset(option + n, 'Q', sizeof option - (size_t)n - 3);
  memcpy(option + sizeof option - 3, "=1", 3);
  char *environment[] = {option, NULL}, *arguments[] = {(char *)works_self(), (char *)"--child", (char *)"work", NULL};
  int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "an option name of 100 kB ended the program with status %d", status);
  CHECK(lines_in(text) == 1 && starts_with(text, "loam: unknown option LOAM_QQQ") && finishes_with(text, "ignored\n"),
        "an option name of 100 kB: %d lines, '%.60s...'", lines_in(text), text);
}

/* Statistics come at the end, on standard error, and leave the program's status alone. */
static void expect_statistics(void) {
  char text[65536], *environment[] = {(char *)"LOAM_SHOW_STATS=1", NULL};
  char *arguments[] = {(char *)works_self(), (char *)"--child", (char *)"work", NULL};
  int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "LOAM_SHOW_STATS=1 ended the program with status %d", status);
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
