/* option_text.c: converts numbers with units, words, switches and paths of options.def from and to
 * text.
 *
 *   "2s"  "512MiB"  "512M"  "on"  "ignore"  ── lm_option_parse ──> a number
 *   a number  ── lm_option_text ──> "2000ms"  ...
 *
 * It allocates nothing, and does not know any option's present value. It accepts no fractions, and
 * does not know how much memory a share is.
 *
 * Invariant: lm_option_parse converts the text of lm_option_text back to the same number
 * (Options.EachRow).
 */
#include "api/option_text.h"

#include <string.h>

/* ---- Pieces ---- */

lm_piece_t lm_piece(const char *text) { return (lm_piece_t){text, strlen(text)}; }

bool lm_option_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

static lm_piece_t trimmed(const char *text, const char *end) {
    LM_ASSERT(text <= end);
    while (text < end && lm_option_blank(*text)) text++;
    while (end > text && lm_option_blank(end[-1])) end--;
    return (lm_piece_t){text, (size_t)(end - text)};
}

bool lm_option_pair(const char **config, lm_piece_t *name, lm_piece_t *value) {
    const char *at = *config, *end = at + strcspn(at, ",");
    if (*at == '\0') return false;
    *config = *end == ',' ? end + 1 : end;
    const char *equals = memchr(at, '=', (size_t)(end - at));
    *name = trimmed(at, equals != NULL ? equals : end);
    *value = equals != NULL ? trimmed(equals + 1, end) : (lm_piece_t){NULL, 0};
    return true;
}

lm_shown_t lm_option_show(lm_piece_t piece) {
    lm_shown_t shown;
    size_t most = sizeof shown.text - 4, n = piece.length < most ? piece.length : most;
    for (size_t i = 0; i < n; i++) {
        char c = piece.text[i];
        shown.text[i] = c >= ' ' && c <= '~' ? c : '?';
    }
    memcpy(shown.text + n, piece.length > most ? "..." : "", piece.length > most ? 4 : 1);
    return shown;
}

static char upper(char c) { return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c; }

bool lm_piece_same(lm_piece_t piece, const char *name, bool any_case) {
    for (size_t i = 0; i < piece.length; i++) {
        char a = piece.text[i], b = name[i];
        if (b == '\0' || (any_case ? upper(a) != upper(b) : a != b)) return false;
    }
    return name[piece.length] == '\0';
}

/* ---- Numbers ---- */

typedef struct suffix {
    const char *text;
    size_t factor;
} suffix_t;

/* The largest unit comes first. */
static const suffix_t suffixes_of_bytes[] = {{"TiB", (size_t)1 << 40},
                                             {"GiB", (size_t)1 << 30},
                                             {"MiB", (size_t)1 << 20},
                                             {"KiB", (size_t)1 << 10},
                                             {"", 1}};
static const suffix_t suffixes_of_ms[] = {{"min", 60000}, {"s", 1000}, {"ms", 1}, {"", 1}};
static const suffix_t no_suffix[] = {{"", 1}};

static const suffix_t *suffixes_of(lm_unit_t unit) {
    return unit == LM_UNIT_BYTES ? suffixes_of_bytes
           : unit == LM_UNIT_MS  ? suffixes_of_ms
                                 : no_suffix;
}

static void add_number(lm_line_t *line, lm_unit_t unit, size_t number) {
    const suffix_t *suffix = suffixes_of(unit);
    if (unit == LM_UNIT_MS)
        suffix += 2; /* always ms, as in the table, so that values can be compared at a glance */
    else
        while (*suffix->text != '\0' && (number == 0 || number % suffix->factor != 0)) suffix++;
    LM_ASSERT(number % suffix->factor == 0); /* the text says exactly this number */
    lm_line_add(line, "%zu%s", number / suffix->factor, suffix->text);
}

/* Returns whether the piece is a suffix. For bytes also accepts "M" and "MB" for "MiB", and "B":
 * people write limits as other programs accept them. */
static bool is_suffix(lm_piece_t piece, lm_unit_t unit, const suffix_t *suffix) {
    if (lm_piece_same(piece, suffix->text, true)) return true;
    if (unit != LM_UNIT_BYTES) return false;
    if (*suffix->text == '\0') return lm_piece_same(piece, "B", true);
    char shorter[] = {suffix->text[0], 'B', '\0'};
    if (lm_piece_same(piece, shorter, true)) return true;
    shorter[1] = '\0';
    return lm_piece_same(piece, shorter, true);
}

/* Parses a whole number with a suffix of its unit; without a suffix it counts units of `plain`.
 * Returns false iff it is no number, or too large for a word. */
static bool parse_number(lm_piece_t piece, lm_unit_t unit, size_t plain, size_t *number) {
    LM_ASSERT(plain > 0);
    size_t i = 0, value = 0;
    for (; i < piece.length && piece.text[i] >= '0' && piece.text[i] <= '9'; i++) {
        size_t digit = (size_t)(piece.text[i] - '0');
        if (value > (SIZE_MAX - digit) / 10) return false;
        value = value * 10 + digit;
    }
    if (i == 0) return false;
    lm_piece_t rest = {piece.text + i, piece.length - i};
    if (rest.length == 0) return lm_mul(value, plain, number);
    for (const suffix_t *suffix = suffixes_of(unit);; suffix++) {
        if (is_suffix(rest, unit, suffix)) return lm_mul(value, suffix->factor, number);
        if (*suffix->text == '\0') return false;
    }
}

/* Parses whole percents, followed by "%" or "%ram" for the machine's memory, or "%cgroup" for the
 * control group's. */
bool lm_option_share(lm_piece_t piece, lm_share_t *share) {
    unsigned percent = 0;
    size_t i = 0;
    for (; i < piece.length && piece.text[i] >= '0' && piece.text[i] <= '9'; i++) {
        percent = percent * 10 + (unsigned)(piece.text[i] - '0');
        if (percent > 100) return false;
    }
    if (percent == 0) return false;
    lm_piece_t rest = {piece.text + i, piece.length - i};
    *share = (lm_share_t){percent, lm_piece_same(rest, "%cgroup", true)};
    return share->of_group || lm_piece_same(rest, "%", true) || lm_piece_same(rest, "%ram", true);
}

/* ---- Words ---- */

/* Returns word `number` of "a|b|c"; its length is 0 iff there are not so many words. */
static lm_piece_t word(const char *words, size_t number) {
    for (; number > 0 && *words != '\0'; words++) number -= *words == '|';
    return (lm_piece_t){words, strcspn(words, "|")};
}

static bool parse_words(lm_piece_t piece, const char *words, size_t *number) {
    static const char *const others[] = {"no", "yes", "false", "true", "off", "on"};
    for (size_t i = 0;; i++) {
        lm_shown_t one = lm_option_show(word(words, i));
        if (*one.text == '\0') break;
        if (!lm_piece_same(piece, one.text, true)) continue;
        *number = i;
        return true;
    }
    if (strncmp(words, "0|1", 3) != 0) return false;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (!lm_piece_same(piece, others[i], true)) continue;
        *number = i % 2;
        return true;
    }
    return false;
}

/* ---- Sets of words: bit k of the number is word k + 1 ---- */

static bool parse_set(lm_piece_t piece, const char *words, size_t *number) {
    size_t bits = 0;
    for (size_t at = 0; at <= piece.length;) {
        size_t end = at, word_number;
        while (end < piece.length && piece.text[end] != '+' && piece.text[end] != ',') end++;
        if (!parse_words((lm_piece_t){piece.text + at, end - at}, words, &word_number))
            return false;
        LM_ASSERT(word_number <= 8 * sizeof bits);
        if (word_number > 0) bits |= (size_t)1 << (word_number - 1);
        at = end + 1;
    }
    *number = bits;
    return true;
}

static void add_set(lm_line_t *line, const char *words, size_t number) {
    if (number == 0) lm_line_add(line, "%s", lm_option_show(word(words, 0)).text);
    for (size_t k = 0; number >> k != 0; k++) {
        if ((number >> k & 1) == 0) continue;
        lm_line_add(line, "%s%s", line->used > 0 ? "+" : "",
                    lm_option_show(word(words, k + 1)).text);
    }
}

/* ---- Any kind of value ---- */

static bool is_path(lm_piece_t piece) {
    if (piece.length >= LM_OPTION_PATH) return false;
    for (size_t i = 0; i < piece.length; i++) {
        if ((unsigned char)piece.text[i] < ' ' || piece.text[i] == 127) return false;
    }
    return true;
}

bool lm_option_parse(const lm_option_t *option, size_t factor, lm_piece_t piece, size_t *number) {
    if (option->path) {
        *number = piece.length > 0;
        return is_path(piece);
    }
    if (option->set) return parse_set(piece, option->words, number);
    if (option->words != NULL) return parse_words(piece, option->words, number);
    size_t value;
    if (!parse_number(piece, option->unit, factor > 1 ? factor : 1, &value)) return false;
    *number = value;
    return value >= option->least && value <= option->most;
}

lm_line_t lm_option_text(const lm_option_t *option, size_t factor, size_t number) {
    LM_ASSERT(!option->path);
    lm_line_t line = {0};
    if (option->set) {
        add_set(&line, option->words, number);
    } else if (option->words != NULL) {
        lm_line_add(&line, "%s", lm_option_show(word(option->words, number)).text);
    } else if (factor <= 1) {
        add_number(&line, option->unit, number);
    } else if (number % factor == 0) {
        lm_line_add(&line, "%zu", number / factor);
    } else {
        /* A plain number would be multiplied by the factor. */
        add_number(&line, option->unit, number);
        if (option->unit == LM_UNIT_BYTES && number % 1024 != 0) lm_line_add(&line, "B");
    }
    return line;
}

bool lm_option_number(const lm_option_t *option, size_t factor, size_t value, size_t *number) {
    if (option->path || option->set) return false;
    if (option->words != NULL)
        return parse_number(word(option->words, value), LM_UNIT_NONE, 1, number);
    if (factor > 1 && value % factor != 0) return false;
    *number = factor > 1 ? value / factor : value;
    return true;
}

lm_line_t lm_option_wanted(const lm_option_t *option, size_t factor, lm_piece_t piece) {
    lm_line_t line = {0};
    if (option->unit == LM_UNIT_BYTES && memchr(piece.text, '%', piece.length) != NULL) {
        lm_line_add(&line, "a share from 1%% to 100%%, as 80%% or 80%%cgroup, ");
        lm_line_add(&line, "nor a size from ");
        add_number(&line, option->unit, option->least);
        lm_line_add(&line, " to ");
        add_number(&line, option->unit, option->most);
    } else if (option->path) {
        lm_line_add(&line, "a path of at most %zu printable characters",
                    (size_t)LM_OPTION_PATH - 1);
    } else if (option->words != NULL) {
        for (size_t i = 0; word(option->words, i).length > 0; i++) {
            if (i > 0) lm_line_add(&line, word(option->words, i + 1).length > 0 ? ", " : " or ");
            lm_line_add(&line, "%s", lm_option_show(word(option->words, i)).text);
        }
        if (option->set) lm_line_add(&line, ", or several joined by +");
    } else {
        bool plain = factor > 1;
        lm_unit_t unit = plain ? LM_UNIT_NONE : option->unit;
        lm_line_add(&line, "a %s from ",
                    unit == LM_UNIT_MS      ? "time"
                    : unit == LM_UNIT_BYTES ? "size"
                                            : "number");
        add_number(&line, unit, plain ? option->least / factor : option->least);
        lm_line_add(&line, " to ");
        add_number(&line, unit, plain ? option->most / factor : option->most);
    }
    return line;
}
