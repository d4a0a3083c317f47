/* option_text.h: options' values as texts: what is parsed, and what is said of them. For
 * option_table.h and its files, and for glibc.c. */
#ifndef LM_OPTION_TEXT_H
#define LM_OPTION_TEXT_H

#include "api/api.h"

typedef enum lm_unit { LM_UNIT_NONE, LM_UNIT_MS, LM_UNIT_BYTES } lm_unit_t;

/* A row of options.def. */
typedef struct lm_option {
    const char *name;
    size_t initial, least, most;
    const char *words; /* "a|b|c"; NULL: a number, or a path */
    lm_unit_t unit;
    bool path;
    bool set; /* any number of the words but the first, which stands for none of them */
    int when;
    int build; /* in others, values other than 0 are none */
    const char *sentence;
} lm_option_t;

/* A piece of a text: the environment's end with a 0, the program's with a comma. */
typedef struct lm_piece {
    const char *text;
    size_t length;
} lm_piece_t;

lm_piece_t lm_piece(const char *text);

/* any_case: of letters. */
bool lm_piece_same(lm_piece_t piece, const char *name, bool any_case);

bool lm_option_blank(char c);

/* Takes the next pair off a program's string. Returns false iff there is none left. value.text is
 * NULL where it has no =: name is all of it then, and may be empty. */
bool lm_option_pair(const char **config, lm_piece_t *name, lm_piece_t *value);

/* As it may be shown: short, and nothing that moves a terminal's cursor. */
typedef struct lm_shown {
    char text[48];
} lm_shown_t;

lm_shown_t lm_option_show(lm_piece_t piece);

/* The most bytes of a path, with the 0 behind it. */
enum { LM_OPTION_PATH = 1024 };

/* factor: of an alias, or 0. Of a path, whether it is one: number is 0 for an empty one, else 1. */
bool lm_option_parse(const lm_option_t *option, size_t factor, lm_piece_t piece, size_t *number);

/* A part of the machine's memory, or of what the control group may hold. */
typedef struct lm_share {
    unsigned percent; /* 1 ... 100 */
    bool of_group;
} lm_share_t;

/* Returns whether the text is a share: "80%", "80%ram", "80%cgroup". */
bool lm_option_share(lm_piece_t piece, lm_share_t *share);

/* Value `number` of an option that is no path, as lm_option_parse takes it by the same name. */
lm_line_t lm_option_text(const lm_option_t *option, size_t factor, size_t number);

/* Writes the value as a number by itself. Returns false iff it has none: it is a word, a set of
 * words or a path, or no multiple of the factor. */
bool lm_option_number(const lm_option_t *option, size_t factor, size_t value, size_t *number);

/* What would have been a value in place of the piece: "0 or 1", "a time from 0ms to 5ms". */
lm_line_t lm_option_wanted(const lm_option_t *option, size_t factor, lm_piece_t piece);

#endif
