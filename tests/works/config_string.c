/* 
 * config_string.c - options from a string in the program: found where the program is linked with
 * loam, where loam is linked into it, and by a preloaded loam if the program exports the string.
 *
 * With CONFIG_ARRAY the string is an array, with CONFIG_SHORT one that is no longer than a pointer.
 *
 * Catches: a string that is not found, or found but read after the environment instead of before;
 * an array that is followed as a pointer; mistakes in it that stop the program; a program without
 * the string that does not start.
 *
 *     config_string [library [hidden]]     library: to be preloaded; hidden: it cannot see the
 *                                          string
 *
 * The program starts itself and compares what the child says on standard error.
 */
#include "works.h"

#if !defined(CONFIG_ARRAY) && !defined(CONFIG_SHORT)
#include <loam/options.h> /* with it an array does not compile */
#endif

#define OPTIONS "purge_delay=7s, show_errors=0,nonsense=1,verbose=1"
#ifdef CONFIG_ARRAY
extern const char loam_config[];
const char loam_config[] = OPTIONS;
#elif defined(CONFIG_SHORT)
extern const char loam_config[];
_Alignas(8) const char loam_config[8] = "a=1";
#else
const char *loam_config = OPTIONS;
#endif

#define UNKNOWN "loam: loam_config: unknown option nonsense ignored\n"
#define ERRORS "loam: LOAM_SHOW_ERRORS=0 (program; default 1)\n"

/* Whether the text, without the line of the version, is that; and a version where verbose. */
static bool said(const char *text, const char *before, const char *after) {
    size_t first = strlen(before);
    if (strncmp(text, before, first) != 0) return false;
    if (!after) return text[first] == 0;
    if (strncmp(text + first, "loam: version ", 14) != 0) return false;
    const char *rest = strchr(text + first, '\n');
    return rest && strcmp(rest + 1, after) == 0;
}

static void expect(const char *preload, const char *option, const char *before, const char *after) {
    char text[8192];
    char *arguments[] = {(char *)works_self(), (char *)"--child", NULL};
    char *environment[] = {(char *)(preload ? preload : option), (char *)(preload ? option : NULL),
                           NULL};
    int status = works_capture(arguments[0], arguments, environment, 2, text, sizeof text);
    works_expect_ok(status, option ? option : "no option");
    CHECK(said(text, before, after), "%s: said '%.400s'", option ? option : "no option", text);
}

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--child") == 0) {
        works_exercise(1, 200);
        return 0;
    }
    works_limit(30);
    char preload[4096], *library = NULL;
    if (argc > 1) {
        snprintf(preload, sizeof preload, "LD_PRELOAD=%s", argv[1]);
        library = preload;
    } else {
        works_require_loam();
    }
#ifdef CONFIG_SHORT
    expect(library, NULL, "loam: loam_config: unknown option a ignored\n", NULL);
    return 0;
#endif
    if (argc > 2) {
        expect(library, NULL, "", NULL);
        expect(library, "LOAM_VERBOSE=1", "", "loam: LOAM_VERBOSE=1 (environment; default 0)\n");
        return 0;
    }
    expect(library, NULL, UNKNOWN,
           "loam: LOAM_VERBOSE=1 (program; default 0)\n" ERRORS
           "loam: LOAM_PURGE_DELAY=7000ms (program; default 300ms)\n");
    expect(library, "LOAM_PURGE_DELAY=5", UNKNOWN,
           "loam: LOAM_VERBOSE=1 (program; default 0)\n" ERRORS
           "loam: LOAM_PURGE_DELAY=5ms (environment; default 300ms)\n");
    expect(
        library, "LOAM_PURGE_DELAY=x",
        UNKNOWN
        "loam: LOAM_PURGE_DELAY=x: not a time from 0ms to 3600000ms; loam_config's 7000ms used\n",
        "loam: LOAM_VERBOSE=1 (program; default 0)\n" ERRORS
        "loam: LOAM_PURGE_DELAY=7000ms (program; default 300ms)\n");
    expect(library, "LOAM_VERBOSE=0", UNKNOWN, NULL);
    return 0;
}
