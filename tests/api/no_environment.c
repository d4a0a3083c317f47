/* no_environment.c: a library that was built with -DLOAM_READ_ENVIRONMENT=OFF takes options from
 * the program's string and from calls, and not from the environment. ctest sets LOAM_PURGE_DELAY
 * and others for it.
 */
#include <errno.h>
#include <loam/options.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *loam_config = "show_errors=0";

static int failures;

static void expect(const char *name, const char *value, const char *source) {
    char now[32];
    if (loam_option_get(name, now, sizeof now) > 0 && strcmp(now, value) == 0 &&
        strcmp(loam_option_source(name), source) == 0)
        return;
    failures++;
    printf("%s is %s (%s), not %s (%s)\n", name, now, loam_option_source(name), value, source);
}

int main(void) {
    if (getenv("LOAM_PURGE_DELAY") == NULL || getenv("LOAM_LIMIT_HARD") == NULL) {
        printf("the environment has no options: this test would show nothing\n");
        return 1;
    }
    expect("purge_delay", "300ms", "default");
    expect("limit_hard", "0", "default");
    expect("verbose", "0", "default");
    expect("environment", "0", "default");
    expect("show_errors", "0", "program");
    if (loam_option_set("purge_delay", "2s") != 0) failures++;
    expect("purge_delay", "2000ms", "call");
    if (loam_option_set("environment", "1") != -ENOTSUP) failures++;
    return failures != 0;
}
