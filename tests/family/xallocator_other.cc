// xallocator_other.cc: part of xallocator_test: a second file with static objects, and one that is
// older than all.
#include "family/xallocator_statics.h"

#include <loam/xallocator.h>

#include <cstdlib>
#include <cstring>
#include <unistd.h>

static bool listed() {
    bool found = false;
    loam_registry_visit(
        [](const loam_usage *usage, void *context) {
            if (strcmp(usage->name, "xallocator") == 0) *static_cast<bool *>(context) = true;
        },
        &found);
    return found;
}
int xallocator_listed() { return listed(); }

namespace {

void say(const char *text) {
    if (write(2, text, strlen(text)) < 0) abort();
}

/* Older than any file's start of the allocator, and gone after the last one's end, which leaves it
 * what it has. */
struct Oldest {
    void *memory = xmalloc(100);
    Oldest() {
        memset(memory, 7, 100);
        say(listed() ? "" : "not started by its first use\n");
    }
    ~Oldest() {
        say(listed() ? "still there after the last file\n" : "ended with the last file\n");
        for (int i = 0; i < 100; i++) {
            if (static_cast<char *>(memory)[i] != 7) say("written over\n");
        }
        xfree(memory);
        xfree(nullptr);
    }
};
__attribute__((init_priority(101))) Oldest oldest;

struct Other {
    Other() { xallocator_left[1] = memset(xmalloc(300), 1, 300); }
    ~Other() {
        if (!listed()) say("ended too early\n");
        if (static_cast<char *>(xallocator_left[0])[199] != 2) say("written over\n");
        xfree(xallocator_left[0]);
        say("the other file freed\n");
    }
};
Other other;

} // namespace
