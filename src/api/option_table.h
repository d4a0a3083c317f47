/* option_table.h: the options by number, their values and the sources that have set them. For
 * options.c, which has the table and the values; option_read.c, which reads the sources before
 * main; and option_limits.c, where two options depend on each other.
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

/* When an option may be set. ANYTIME: at any time. START: before main. PROGRAM: in the program's
 * string, or by a call before main. */
enum { ANYTIME, START, PROGRAM };

/* The source that has set an option; a later value is stronger. BY_DEFAULTS is
 * loam_option_set_default. */
typedef enum source {
    BY_DEFAULT,
    BY_PROGRAM,
    BY_DEFAULTS,
    BY_ENVIRONMENT,
    BY_CALL,
    SOURCES
} source_t;

extern LM_HIDDEN const lm_option_t lm_option_table[OPTION_COUNT];

/* Finds an option by its name or an alias. Returns false iff no option has the name. Sets *factor
 * to the alias's factor, or to 0. */
bool lm_option_find(lm_piece_t name, bool any_case, option_name_t *option, size_t *factor);

/* Returns the value as a number; for a path, 1 iff it is set. */
size_t lm_option_get(option_name_t option);

/* Returns the source that has set the option. */
source_t lm_option_source(option_name_t option);

/* Returns the value of METER, the only path. */
const char *lm_option_path(void);

/* Stores a value and applies it. piece: the text of a path, which is copied; unused for other
 * options. */
void lm_option_store(option_name_t option, lm_piece_t piece, size_t value, source_t source);

/* Reads a value. Returns 0; -EINVAL iff the text is no valid value; -ENODATA iff it is a share of
 * memory and the system does not tell how much memory there is; -ENOTSUP iff only another build of
 * loam supports it. */
int lm_option_read(option_name_t option, size_t factor, lm_piece_t text, size_t *number);

/* Returns the explanation of -ENOTSUP. */
const char *lm_option_elsewhere(option_name_t option);

/* Returns value `number` of an option as text, for the name that has this factor. */
lm_line_t lm_option_value_text(option_name_t option, size_t factor, size_t number);

/* Returns the name of an option as a source writes it, for the start of a message:
 * "LOAM_PURGE_DELAY", "loam_config: purge_delay". */
lm_line_t lm_option_named(option_name_t option, source_t source);

/* Returns whether the sources before main have been read. */
bool lm_options_started(void);

/* Returns the prefix of an option's name, as the source writes it. */
const char *lm_option_prefix(source_t source);

/* Returns "default", "program", "environment" or "call". */
const char *lm_option_source_name(source_t source);

/* ---- LIMIT_SOFT and LIMIT_HARD (option_limits.c) ---- */

/* Returns whether an option is one of the two limits. */
LM_INLINE bool lm_option_limits(option_name_t option) {
    return option == OPTION_LIMIT_SOFT || option == OPTION_LIMIT_HARD;
}

/* Forgets all values that sources have given. */
void lm_option_limits_reset(void);

/* Records the value of a source before main. lm_option_limits_settle decides which value counts. */
void lm_option_limit_note(option_name_t option, size_t bytes, source_t source);

/* Sets both options to the result of all sources, and reports each value that is ignored. */
void lm_option_limits_settle(void);

/* Sets a limit for a call. Returns 0; -EINVAL iff the other limit has a contradicting value of a
 * source that is as strong or stronger. Nothing has changed in that case. */
int lm_option_limit_set(option_name_t option, size_t bytes, source_t source);

#endif
