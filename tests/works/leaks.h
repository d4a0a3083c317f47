/* leaks.h: an agent of leaks.py in each module of a program (the program, libraries, a plugin).
 *
 *   LEAKS_PLAN="a:c:20001:s p:m:20008:n ..."    module : allocates when : bytes : frees when
 *
 *   moments    e  constructor(101)        c  constructor
 *              o  constructor of a static object
 *              m  main, or after dlopen   t  destructor of a thread's object
 *              x  atexit                  s  destructor of a static object
 *              d  destructor              y  destructor(101)
 *              k  on_exit, registered by a constructor               n  none
 *
 * Every item is one malloc, and one free at its moment. The plan is a script, so that one build of
 * the program has all cases.
 */
#ifndef LEAKS_H
#define LEAKS_H

#include <stddef.h>
#include <stdlib.h>

#ifndef LEAKS_MODULE
#error "LEAKS_MODULE is a character: the module's name in plans"
#endif

namespace {

struct item {
    char module, allocates, frees;
    size_t bytes;
    void *at;
};

constexpr size_t ITEMS = 64;
item items[ITEMS];
bool read_plan;

void read_items() {
    const char *text = getenv("LEAKS_PLAN");
    read_plan = true;
    for (size_t i = 0; text != nullptr && *text != '\0' && i < ITEMS; i++) {
        char *end;
        items[i].module = text[0];
        items[i].allocates = text[2];
        items[i].bytes = strtoul(text + 4, &end, 10);
        items[i].frees = end[1];
        text = end[2] == ' ' ? end + 3 : end + 2;
    }
}

/* The two ends of an item are in functions of their own, which reports name. */
__attribute__((noinline)) void allocate(item &it) {
    void *volatile p = malloc(it.bytes);
    it.at = p;
}

void at(char moment) {
    if (!read_plan) read_items();
    for (item &it : items) {
        if (it.module != LEAKS_MODULE) continue;
        if (it.allocates == moment) allocate(it);
        if (it.frees == moment) free(it.at);
    }
}

struct static_object {
    static_object() { at('o'); }
    ~static_object() { at('s'); }
} object;

struct threads_object {
    bool used = false;
    ~threads_object() {
        if (used) at('t');
    }
};
thread_local threads_object threads;

__attribute__((constructor(101))) void constructor_101() { at('e'); }
bool frees_at(char moment) {
    for (const item &it : items) {
        if (it.module == LEAKS_MODULE && it.frees == moment) return true;
    }
    return false;
}

__attribute__((constructor)) void constructor() {
    at('c');
    /* Only then: a plugin may be closed before. */
    if (frees_at('k')) (void)on_exit([](int, void *) { at('k'); }, nullptr);
}
__attribute__((destructor)) void destructor() { at('d'); }
__attribute__((destructor(101))) void destructor_101() { at('y'); }

/* Returns what was allocated here first, NULL iff nothing was. */
void *in_main() {
    void *first = nullptr;
    at('m');
    (void)atexit([] { at('x'); });
    if (frees_at('t')) threads.used = true; /* only then: it keeps a plugin loaded */
    for (item &it : items) {
        if (it.module != LEAKS_MODULE) continue;
        if (first == nullptr && it.allocates == 'm') first = it.at;
    }
    return first;
}

} // namespace

#endif
