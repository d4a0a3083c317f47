/* option_table.h: options by number, what each is set to and by which source. For options.c, which
 * has the table and the values, option_read.c, which reads the sources before main, and
 * option_limits.c, where two options depend on each other.
 */
#ifndef LM_OPTION_TABLE_H
#define LM_OPTION_TABLE_H

#include "api/option_text.h"

typedef enum option_name {
#define SWITCH(name, ...) OPTION_##name,
#define NUMBER(name, ...) OPTION_##name,
#define CHOICE(name, ...) OPTION_##name,
#define SET(name, ...) OPTION_##name,
#define PATH(name, ...) OPTION_##name,
#define ALIAS(name, ...)
#include "api/options.def"
    OPTION_COUNT
} option_name_t;

/* When an option may be set: at any time; before main; in the program's string or by a call before
 * main. */
enum { ANYTIME, START, PROGRAM };

/* Who has set an option; a later one of these counts more. BY_DEFAULTS is loam_option_set_default.
 * */
typedef enum source {
    BY_DEFAULT,
    BY_PROGRAM,
    BY_DEFAULTS,
    BY_ENVIRONMENT,
    BY_CALL,
    SOURCES
} source_t;

extern LM_HIDDEN const lm_option_t lm_option_table[OPTION_COUNT];

/* Finds an option by its name or an alias. Returns false iff no option has the name. factor: 0, or
 * the alias's. */
bool lm_option_find(lm_piece_t name, bool any_case, option_name_t *option, size_t *factor);

/* The value as a number; for a path, whether there is one. */
size_t lm_option_get(option_name_t option);

source_t lm_option_source(option_name_t option);

/* The value of METER, which is the only path. */
const char *lm_option_path(void);

/* Stores a value and acts on it. piece: the text of a path, which is kept; of other options unused.
 * */
void lm_option_store(option_name_t option, lm_piece_t piece, size_t value, source_t source);

/* Reads a value. Returns 0; or -EINVAL iff the text is no value; or -ENODATA iff it is a share of
 * memory and the system does not say how much memory there is; or -ENOTSUP iff another build of
 * loam alone can do it. */
int lm_option_read(option_name_t option, size_t factor, lm_piece_t text, size_t *number);

/* Why -ENOTSUP. */
const char *lm_option_elsewhere(option_name_t option);

/* Value `number` of an option, by the name that has this factor. */
lm_line_t lm_option_value_text(option_name_t option, size_t factor, size_t number);

/* What a source calls an option at the begin of a message: "LOAM_PURGE_DELAY", "loam_config:
 * purge_delay". */
lm_line_t lm_option_named(option_name_t option, source_t source);

/* Whether the sources before main have been read. */
bool lm_options_started(void);

/* In front of a name, as the source writes it. */
const char *lm_option_prefix(source_t source);

/* "default", "program", "environment" or "call". */
const char *lm_option_source_name(source_t source);

/* ---- LIMIT_SOFT and LIMIT_HARD (option_limits.c) ---- */

/* Whether an option is one of the two. */
LM_INLINE bool lm_option_limits(option_name_t option) {
    return option == OPTION_LIMIT_SOFT || option == OPTION_LIMIT_HARD;
}

/* Forgets what sources have said. */
void lm_option_limits_reset(void);

/* Notes what a source before main says. lm_option_limits_settle decides. */
void lm_option_limit_note(option_name_t option, size_t bytes, source_t source);

/* Sets both options to what the sources say together, and reports each value that is ignored. */
void lm_option_limits_settle(void);

/* Sets an option for a call. Returns 0; or -EINVAL iff the other limit has a value of as strong a
 * source, or a stronger one, that contradicts it: nothing has changed then. */
int lm_option_limit_set(option_name_t option, size_t bytes, source_t source);

#endif
