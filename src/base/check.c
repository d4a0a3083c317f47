/* check.c: formats one line about a mistake and writes it without allocating.
 *
 * It has its own formatter, because printf may allocate and may be what failed. The formatter knows
 * %s %c %d %u %zu %lu %lx %p and %%. It truncates long lines (LM_LINE_BYTES), and supports no
 * widths or floats.
 */
#include "base/base.h"

LM_AT_START lm_misuse_policy_t lm_misuse_policy;
void (*lm_misuse_more)(bool written);

static void line_char(lm_line_t *line, char c) {
    /* Leaves room for the '\n'. */
    if (line->used < sizeof(line->text) - 1) line->text[line->used++] = c;
}

static void line_text(lm_line_t *line, const char *text) {
    for (; *text != '\0'; text++) line_char(line, *text);
}

/* uintptr_t holds every number that a format prints, and every processor divides it in one
 * instruction. */
static void line_number(lm_line_t *line, uintptr_t value, unsigned base) {
    char digits[20];
    unsigned n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (n > 0) line_char(line, digits[--n]);
}

void lm_line_add_v(lm_line_t *line, const char *format, va_list args) {
    for (const char *f = format; *f != '\0'; f++) {
        if (*f != '%') {
            line_char(line, *f);
            continue;
        }
        f++;
        bool wide = *f == 'z' || *f == 'l';
        if (wide) f++;
        switch (*f) {
        case 's': line_text(line, va_arg(args, const char *)); break;
        case 'c': line_char(line, (char)va_arg(args, int)); break;
        case 'p':
            line_text(line, "0x");
            line_number(line, (uintptr_t)va_arg(args, void *), 16);
            break;
        case 'x':
        case 'u':
            line_number(line, wide ? va_arg(args, size_t) : va_arg(args, unsigned),
                        *f == 'x' ? 16 : 10);
            break;
        case 'd': {
            intptr_t value = wide ? va_arg(args, ptrdiff_t) : va_arg(args, int);
            if (value < 0) line_char(line, '-');
            line_number(line, value < 0 ? 0 - (uintptr_t)value : (uintptr_t)value, 10);
            break;
        }
        default: line_char(line, *f); break;
        }
    }
}

static void line_write(lm_line_t *line) {
    line->text[line->used++] = '\n';
    lm_port_write_error(line->text, line->used);
}

void lm_report(const char *format, ...) {
    lm_line_t line = {0};
    va_list args;
    va_start(args, format);
    lm_line_add_v(&line, format, args);
    va_end(args);
    line_write(&line);
}

void lm_line_add(lm_line_t *line, const char *format, ...) {
    LM_ASSERT(line->used < sizeof line->text);
    va_list args;
    va_start(args, format);
    lm_line_add_v(line, format, args);
    va_end(args);
}

#if LM_HOSTED
void lm_print(const char *format, ...) {
    lm_line_t line = {0};
    va_list args;
    va_start(args, format);
    lm_line_add_v(&line, format, args);
    va_end(args);
    if (!lm_port_print(&line)) line_write(&line);
}
#endif

/* The mistakes that a report names, LM_MISTAKE_BITS bits each. The first comes lowest; further ones
 * follow until the rest is 0. */
static unsigned mistakes_of(lm_wrong_t wrong) { return wrong >> LM_MISTAKE_SHIFT; }
static unsigned line_first_of(unsigned mistakes) {
    return mistakes & ((1u << LM_MISTAKE_BITS) - 1);
}

/* Both loads are relaxed: each word is independent of other data. */
bool lm_wrong_goes_on(lm_wrong_t wrong) {
    unsigned mistakes = mistakes_of(wrong);
    uint32_t tolerated = lm_load_relaxed(&lm_misuse_policy.tolerated);
    bool goes_on = lm_load_relaxed(&lm_misuse_policy.ignore);
    do {
        LM_ASSERT(line_first_of(mistakes) < LM_MISTAKES);
        goes_on = goes_on || (tolerated >> line_first_of(mistakes) & 1) != 0;
        mistakes >>= LM_MISTAKE_BITS;
    } while (mistakes != 0);
    return goes_on;
}

#if LM_HOSTED
const char *lm_mistake_word(unsigned mistake) {
    static const char *const words[LM_MISTAKES] = {
        "other",       "double-free", "foreign",   "misaligned",     "wrong-size",
        "wrong-align", "overflow",    "underflow", "use-after-free", "copy",
    };
    LM_ASSERT(mistake < LM_MISTAKES);
    return words[mistake];
}

void lm_line_add_way_out(lm_line_t *line, lm_wrong_t wrong) {
    if (lm_wrong_goes_on(wrong)) return;
    unsigned mistakes = mistakes_of(wrong);
    lm_line_add(line, "; LOAM_IGNORE=%s", lm_mistake_word(line_first_of(mistakes)));
    while ((mistakes >>= LM_MISTAKE_BITS) != 0)
        lm_line_add(line, "+%s", lm_mistake_word(line_first_of(mistakes)));
    lm_line_add(line, " goes on");
}
#endif

size_t lm_wrong_count;

static void line_end(lm_line_t *line, lm_wrong_t wrong) {
    LM_ASSERT(line->used > 0 && line->used < sizeof line->text);
    LM_ASSERT((wrong & LM_WRONG_HOW) <= LM_WRONG_INSIDE);
    (void)__atomic_fetch_add(&lm_wrong_count, 1, __ATOMIC_RELAXED); /* relaxed: a statistic */
    line_text(line, "thread ");
    line_number(line, lm_port_thread_id(), 10);
    line_char(line, ')');
#if LM_HOSTED
    lm_line_add_way_out(line, wrong);
    lm_told_t told =
        (wrong & LM_WRONG_HOW) != LM_WRONG_INSIDE ? lm_port_tell(wrong, line) : LM_TOLD_NOBODY;
    bool taken = told != LM_TOLD_NOBODY, later = told == LM_TOLD_LATER;
#else
    bool taken = false, later = false;
#endif
    /* Relaxed: the word is independent of other data. */
    bool written = !taken && !lm_load_relaxed(&lm_misuse_policy.quiet);
#if LM_HOSTED
    if (written) lm_port_report_begin();
#endif
    if (written) line_write(line);
    /* Acquire: see the data that the function reads. */
    void (*more)(bool) = lm_load_acquire(&lm_misuse_more);
    if (more != NULL) more(written);
#if LM_HOSTED
    if (written) lm_port_report_end();
#endif
    if (later) return;
    if (!lm_wrong_goes_on(wrong)) lm_port_abort();
}

void lm_misuse_line(lm_line_t *line) { line_end(line, LM_WRONG_CALL); }

void lm_misuse(const char *format, ...) {
    lm_line_t line = {0};
    line_text(&line, "loam: ");
    va_list args;
    va_start(args, format);
    lm_line_add_v(&line, format, args);
    va_end(args);
    line_end(&line, LM_WRONG_CALL);
}

#if LM_HOSTED
void lm_wrong(lm_wrong_t wrong, const char *format, ...) {
    lm_line_t line = {0};
    line_text(&line, "loam: ");
    va_list args;
    va_start(args, format);
    lm_line_add_v(&line, format, args);
    va_end(args);
    line_end(&line, wrong);
}
#endif

void lm_assert_failed(const char *text, const char *file, int line) {
    lm_report("loam: assertion failed: %s, %s:%d", text, file, line);
    lm_port_abort();
}
