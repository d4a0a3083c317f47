/* sites_early.c: reads LOAM_RECORD_SITES for constructors that allocate before loam's own runs.
 *
 *   libc's constructor ─> libraries' constructors ─> loam's: all options ─> the program's ─> main
 *                         └─ malloc ─> lm_sites_expected: this one
 *
 * The constructor of a preloaded library runs after those of most libraries, and one in a program
 * after those of all libraries. Objects of these libraries have call sites only if the option is
 * known by then. It is read by itself here, and mistakes are not reported: loam's constructor reads
 * it again, and reports them.
 */
#include "api/api.h"
#include "api/option_table.h"

#include <string.h>

#if LOAM_DEBUG

/* The value of an option in a source, if it is valid. Of several values the first counts, as in
 * option_read.c. */
typedef struct early {
    option_name_t option;
    bool given;
    size_t value;
} early_t;

static void sites_early_take(early_t *early, lm_piece_t name, bool any_case, lm_piece_t value) {
    const lm_option_t *row = &lm_option_table[early->option];
    size_t number;
    if (early->given || !lm_piece_same(name, row->name, any_case)) return;
    early->given = true;
    if (lm_option_parse(row, 0, value, &number)) early->value = number;
}

static void sites_early_read_program(const char *config, early_t *sites, early_t *environment) {
    lm_piece_t name, value;
    while (lm_option_pair(&config, &name, &value)) {
        if (value.text == NULL) continue;
        sites_early_take(sites, name, true, value);
        sites_early_take(environment, name, true, value);
    }
}

static void sites_early_read_environment(char **environment, early_t *sites) {
    static const char PREFIX[] = "LOAM_";
    sites->given = false; /* the environment is stronger */
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, PREFIX, sizeof PREFIX - 1) != 0) continue;
        const char *name = *environment + sizeof PREFIX - 1, *equals = strchr(name, '=');
        if (equals == NULL) continue;
        sites_early_take(sites, (lm_piece_t){name, (size_t)(equals - name)}, false,
                         lm_piece(equals + 1));
    }
}

bool lm_sites_expected(unsigned *depth) {
    early_t sites = {.option = OPTION_RECORD_SITES, .value = 0};
    early_t environment = {.option = OPTION_ENVIRONMENT, .value = LOAM_READ_ENVIRONMENT};
    char **variables = lm_os_environment();
    if (variables == NULL) return false;
    const char *config = lm_program_options();
    if (config != NULL) sites_early_read_program(config, &sites, &environment);
    if (LOAM_READ_ENVIRONMENT && environment.value != 0 && !lm_os_secure())
        sites_early_read_environment(variables, &sites);
    LM_ASSERT(sites.value <= lm_option_table[OPTION_RECORD_SITES].most);
    *depth = (unsigned)sites.value;
    return true;
}

#endif
