/* option_limits.c: LIMIT_SOFT and LIMIT_HARD, which several sources may set to values that
 * contradict each other.
 *
 *            program   set_default   environment   call
 *    soft       80          -            100         -        100, of the environment
 *    hard       50          -             -          -        50, of the program: weaker, ignored
 *
 * A soft limit above the hard one is a contradiction: the value of the weaker source is ignored,
 * and the next weaker source's value of that option counts. If both values are of one source, the
 * hard limit counts. Every value is recorded, so both limits follow from what the sources say, in
 * whatever order. 0 means no limit, and contradicts nothing.
 *
 * Any thread may set the limits at any time, without a lock: see lm_option_limit_set. It cannot
 * know that a value is too small for a program.
 *
 * Invariant: soft <= hard if both are set.
 */
#include "api/option_table.h"

#include <errno.h>

enum { SOFT, HARD, LIMITS };

static const option_name_t options[LIMITS] = {OPTION_LIMIT_SOFT, OPTION_LIMIT_HARD};

/* Value of each source. Atomic. 0: the source has said nothing; otherwise the bytes plus one. */
static size_t option_limits_given[LIMITS][SOURCES];
static bool any_given; /* atomic: some source has given a value */

typedef struct limits {
    source_t by[LIMITS];
    size_t bytes[LIMITS];
} limits_t;

static int limit_of(option_name_t option) {
    LM_ASSERT(lm_option_limits(option));
    return option == OPTION_LIMIT_HARD ? HARD : SOFT;
}

/* Returns whether the source has given a value, and stores it in *bytes. Sequentially consistent,
 * with the store in note: of two threads that set limits at once, the one that settles last sees
 * both values. */
static bool option_limits_said(int limit, source_t source, size_t *bytes) {
    size_t value = __atomic_load_n(&option_limits_given[limit][source], __ATOMIC_SEQ_CST);
    *bytes = value > 0 ? value - 1 : 0;
    return value > 0 || source == BY_DEFAULT;
}

static void option_limits_note(int limit, source_t source, size_t bytes) {
    LM_ASSERT(source > BY_DEFAULT && source < SOURCES);
    LM_ASSERT(bytes < SIZE_MAX); /* it is stored plus one */
    /* Relaxed: the thread that records a value settles afterwards. */
    lm_store_relaxed(&any_given, true);
    /* Sequentially consistent: see said(). */
    __atomic_store_n(&option_limits_given[limit][source], bytes + 1, __ATOMIC_SEQ_CST);
}

/* Returns the strongest source weaker than `below` that has given a value. */
static source_t strongest(int limit, source_t below, size_t *bytes) {
    LM_ASSERT(below > BY_DEFAULT && below <= SOURCES);
    source_t source = below - 1;
    while (!option_limits_said(limit, source, bytes)) source--;
    return source;
}

static bool agree(size_t soft, size_t hard) { return soft == 0 || hard == 0 || soft <= hard; }

static limits_t decide(void) {
    limits_t now;
    for (int i = 0; i < LIMITS; i++) now.by[i] = strongest(i, SOURCES, &now.bytes[i]);
    /* The loop ends, because the default agrees with everything. */
    while (!agree(now.bytes[SOFT], now.bytes[HARD])) {
        int weaker = now.by[SOFT] > now.by[HARD] ? HARD : SOFT;
        now.by[weaker] = strongest(weaker, now.by[weaker], &now.bytes[weaker]);
    }
    return now;
}

static bool option_limits_same(const limits_t *a, const limits_t *b) {
    return a->by[SOFT] == b->by[SOFT] && a->by[HARD] == b->by[HARD] &&
           a->bytes[SOFT] == b->bytes[SOFT] && a->bytes[HARD] == b->bytes[HARD];
}

/* Stores both limits until the decision is still the current one. Returns it. */
static limits_t option_limits_settle(void) {
    limits_t now;
    do {
        now = decide();
        for (int i = 0; i < LIMITS; i++)
            lm_option_store(options[i], (lm_piece_t){0}, now.bytes[i], now.by[i]);
        limits_t after = decide();
        if (option_limits_same(&now, &after)) return now;
    } while (true);
}

/* Returns a limit as the end of a sentence: "LOAM_LIMIT_HARD=1GiB", "limit_hard=1GiB of
 * loam_config". */
static lm_line_t cause(const limits_t *now, int limit) {
    static const char *const of[SOURCES] = {[BY_PROGRAM] = " of loam_config",
                                            [BY_DEFAULTS] = " of loam_option_set_default",
                                            [BY_CALL] = " of loam_option_set"};
    source_t source = now->by[limit];
    lm_line_t line = {0};
    lm_line_add(&line, "%s=%s%s",
                source == BY_ENVIRONMENT ? (limit == SOFT ? "LOAM_LIMIT_SOFT" : "LOAM_LIMIT_HARD")
                : limit == SOFT          ? "limit_soft"
                                         : "limit_hard",
                lm_option_value_text(options[limit], 0, now->bytes[limit]).text,
                of[source] != NULL ? of[source] : "");
    return line;
}

/* Reports that the value of `source` is ignored. */
static void option_limits_report(const limits_t *now, int limit, source_t source, size_t bytes) {
    LM_ASSERT(source > now->by[limit] && source < SOURCES);
    lm_report("loam: %s=%s ignored: it is %s %s", lm_option_named(options[limit], source).text,
              lm_option_value_text(options[limit], 0, bytes).text,
              limit == SOFT ? "above" : "below", cause(now, 1 - limit).text);
}

void lm_option_limits_reset(void) {
    /* Relaxed, both: called at the start, or by a test. */
    lm_store_relaxed(&any_given, false);
    for (int i = 0; i < LIMITS; i++) {
        for (int source = 0; source < SOURCES; source++)
            lm_store_relaxed(&option_limits_given[i][source], 0);
    }
}

void lm_option_limit_note(option_name_t option, size_t bytes, source_t source) {
    option_limits_note(limit_of(option), source, bytes);
}

void lm_option_limits_settle(void) {
    /* Relaxed: a call settles what it has recorded itself. */
    if (!lm_load_relaxed(&any_given)) return;
    limits_t now = option_limits_settle();
    size_t bytes;
    for (int i = 0; i < LIMITS; i++) {
        for (source_t source = strongest(i, SOURCES, &bytes); source > now.by[i];
             source = strongest(i, source, &bytes))
            option_limits_report(&now, i, source, bytes);
    }
}

/* Reports the user's value if a call of the program has just overridden it. */
static void report_users(const limits_t *before, const limits_t *now, int limit) {
    size_t bytes;
    if (before->by[limit] == BY_ENVIRONMENT && now->by[limit] < BY_ENVIRONMENT &&
        option_limits_said(limit, BY_ENVIRONMENT, &bytes))
        option_limits_report(now, limit, BY_ENVIRONMENT, bytes);
}

int lm_option_limit_set(option_name_t option, size_t bytes, source_t source) {
    int limit = limit_of(option), other = 1 - limit;
    size_t soft_or_hard;
    source_t by = strongest(other, SOURCES, &soft_or_hard);
    /* The program's string and its call of loam_option_set_default are equally strong. */
    if (by >= source || (source == BY_DEFAULTS && by == BY_PROGRAM)) {
        size_t soft = limit == SOFT ? bytes : soft_or_hard;
        if (!agree(soft, limit == SOFT ? soft_or_hard : bytes)) return -EINVAL;
    }
    limits_t before = decide();
    option_limits_note(limit, source, bytes);
    limits_t now = option_limits_settle();
    report_users(&before, &now, other);
    return 0;
}

bool lm_options_limit(size_t soft, size_t hard) {
    if (soft > lm_option_table[OPTION_LIMIT_SOFT].most ||
        hard > lm_option_table[OPTION_LIMIT_HARD].most || !agree(soft, hard))
        return false;
    option_limits_note(SOFT, BY_CALL, soft);
    option_limits_note(HARD, BY_CALL, hard);
    (void)option_limits_settle();
    return true;
}
