/* tool_program.c: makes one mistake with a checked object, or none; tool_test.cc runs it under memory tools.
 *
 *     tool_program none|past|before|freed|unset
 *
 * Exits 0 after no mistake of its own; what a tool makes of the others is the tool's business. Prints whether loam
 * takes itself for watched.
 */
#include "family/family.h"

#include <stdio.h>
#include <string.h>

static void no_usage(const loam_entry *entry, loam_usage *usage) { (void)entry, (void)usage; }
static bool check(const loam_entry *entry) { return lm_guard_check(entry); }
static const loam_kind kind = {"thing", no_usage, check};

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "none";
    printf("watched: %s\n", lm_tool_watches() ? "yes" : "no");
    fflush(stdout);

    size_t bytes = 40, got;
    loam_entry entry;
    lm_entry_init(&entry, &kind, "box", true);
    void *raw = loam_source_get(loam_pages(), lm_guard_whole(bytes, 16), 16, &got);
    if (raw == NULL) return 2;
    volatile char *p = (volatile char *)lm_guard_open(&entry, raw, got, bytes, 16, "made.c", 1);
    int result = 0;
    if (strcmp(what, "unset") == 0 && p[8] == 1) result = 3;
    for (size_t i = 0; i < bytes; i++) p[i] = 1;
    if (strcmp(what, "past") == 0) p[bytes] = 1;
    if (strcmp(what, "before") == 0) p[-1] = 1;
    loam_tag *tag = lm_guard_find(&entry, (const void *)p, "free", NULL, 0);
    if (tag == NULL) return 4;
    (void)lm_guard_close(&entry, tag, NULL, 0);
    if (strcmp(what, "freed") == 0) p[0] = 1;
    if (!lm_guard_check_freed(&entry, tag)) return 5;
    lm_entry_deinit(&entry);
    /* As an allocator does it: what goes back is nobody's object any more. */
    lm_tool_show_undefined(raw, got);
    memset(raw, 0, got);
    loam_source_put(loam_pages(), raw, got);
    return result;
}
