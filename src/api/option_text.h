/* option_text.h: values of options as texts: parsing, and messages about them. For option_table.h
 * and its files, and for glibc.c. */
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
    /* A set: any number of the words except the first, which stands for the empty set. */
    bool set;
    int when;
    /* The build that supports the option. Other builds accept only the value 0. */
    int build;
    const char *sentence;
} lm_option_t;

/* A piece of a text. A value in the environment ends with a 0, one in the program's string with a
 * comma. */
typedef struct lm_piece {
    const char *text;
    size_t length;
} lm_piece_t;

/* Returns the whole text as a piece. */
lm_piece_t lm_piece(const char *text);

/* Returns whether the piece equals the name. any_case: ignores the case of letters. */
bool lm_piece_same(lm_piece_t piece, const char *name, bool any_case);

/* Returns whether the character is a blank. */
bool lm_option_blank(char c);

/* Takes the next pair from a program's string. Returns false iff there is none left. If the pair
 * has no =, value.text is NULL and the name is the whole pair; it may be empty. */
bool lm_option_pair(const char **config, lm_piece_t *name, lm_piece_t *value);

/* A piece as it may be printed: short, and without characters that move a terminal's cursor. */
typedef struct lm_shown {
    char text[48];
} lm_shown_t;

/* Returns the piece as it may be printed. */
lm_shown_t lm_option_show(lm_piece_t piece);

/* Maximum bytes of a path, including the 0 at its end. */
enum { LM_OPTION_PATH = 1024 };

/* Parses a value. factor: the alias's factor, or 0. For a path, *number is 0 if it is empty,
 * otherwise 1. Returns false iff the text is no valid value. */
bool lm_option_parse(const lm_option_t *option, size_t factor, lm_piece_t piece, size_t *number);

/* A share of the machine's memory, or of what the control group may hold. */
typedef struct lm_share {
    unsigned percent; /* 1 ... 100 */
    bool of_group;
} lm_share_t;

/* Parses a share: "80%", "80%ram", "80%cgroup". Returns false iff the text is no share. */
bool lm_option_share(lm_piece_t piece, lm_share_t *share);

/* Returns value `number` of an option that is no path as text. lm_option_parse accepts the text for
 * the same name. */
lm_line_t lm_option_text(const lm_option_t *option, size_t factor, size_t number);

/* Sets *number to the value as a number. Returns false iff it is none: a word, a set of words, a
 * path, or no multiple of the factor. */
bool lm_option_number(const lm_option_t *option, size_t factor, size_t value, size_t *number);

/* Returns a description of the valid values: "0 or 1", "a time from 0ms to 5ms". */
lm_line_t lm_option_wanted(const lm_option_t *option, size_t factor, lm_piece_t piece);

#endif
