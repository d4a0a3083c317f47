/*
 * binding.c - libraries that are loaded with RTLD_DEEPBIND, and those that ask dlsym for the next
 * free, share the program's malloc.
 *
 * Catches: a library that binds to libc's free and gets an object of loam's, or the reverse; a
 * dlopen of loam's that libc takes for its caller, so that the RUNPATH of the real caller and its
 * namespace are lost; a flag that is cleared although LOAM_ALLOW_DEEPBIND=1 is set; a dlsym that
 * answers for its caller where it should not.
 *
 * Compiled three times: as the library that allocates (LIBRARY=1), as one that opens it by its bare
 * name, which only this one's RUNPATH makes possible (LIBRARY=2), and as the program.
 */
#include "works.h"

typedef void *give_t(size_t bytes);
typedef void take_t(void *p);
typedef void *grow_t(void *p, size_t bytes);
typedef char *text_t(const char *text);
typedef take_t *free_t(void);
typedef void *next_t(const char *name);

#if LIBRARY == 1
give_t give;
take_t take;
grow_t grow;
text_t text, line;
free_t whose_free;
next_t next_of;

void *give(size_t bytes) { return malloc(bytes); }
void take(void *p) { free(p); }
void *grow(void *p, size_t bytes) { return realloc(p, bytes); }
char *text(const char *from) { return strdup(from); }
/* libc allocates it. */
char *line(const char *from) {
    char *to = NULL;
    return asprintf(&to, "%s\n", from) < 0 ? NULL : to;
}
take_t *whose_free(void) { return free; }
/* A test of what the call returns keeps it from being a jump. */
void *next_of(const char *name) {
    void *volatile found = dlsym(RTLD_NEXT, name);
    return found;
}

/* What is allocated while the library is loaded is freed by the program. */
void *at_load;
__attribute__((constructor)) static void loaded(void) { at_load = malloc(100); }

#elif LIBRARY == 2
void *open_neighbour(const char *name, int flags);
void *open_neighbour_in(Lmid_t space, const char *name, int flags);
/* A test of what the call returns keeps it from being a jump, which would hide this caller. */
void *open_neighbour(const char *name, int flags) {
    void *volatile found = dlopen(name, flags);
    return found;
}
void *open_neighbour_in(Lmid_t space, const char *name, int flags) {
    void *volatile found = dlmopen(space, name, flags);
    return found;
}

#else

/* ISO C has no conversion from object to function pointers; POSIX promises it. */
static void *function_of(void *library, const char *name) {
    void *found = dlsym(library, name);
    CHECK(found != NULL, "%s: %s", name, dlerror());
    return found;
}
#define GET(library, type, name) \
    type *name; \
    *(void **)&name = function_of(library, #name)

static void exchange(void *library) {
    GET(library, give_t, give);
    GET(library, take_t, take);
    GET(library, grow_t, grow);
    GET(library, text_t, text);
    GET(library, text_t, line);
    for (size_t bytes = 0; bytes < 3 * WORKS_MIB; bytes = bytes * 5 / 4 + 1) {
        char *theirs = give(bytes), *ours = malloc(bytes), *mixed = malloc(bytes);
        CHECK(theirs != NULL && ours != NULL && mixed != NULL, "no memory for %zu bytes", bytes);
        works_fill(mixed, bytes, bytes);
        mixed = grow(mixed, bytes * 2 + 1);
        CHECK(mixed != NULL && works_filled(mixed, bytes, bytes), "realloc of %zu bytes", bytes);
        free(theirs);
        take(ours);
        free(mixed);
    }
    char *copy = text("a text"), *made = line("a text");
    CHECK(copy != NULL && made != NULL && strcmp(made, "a text\n") == 0, "no texts");
    free(copy);
    free(made);
    GET(library, void *, at_load);
    free(*at_load);
    *at_load = NULL;
}

static const char *const allocating[] = {
    "malloc",         "free",          "calloc", "realloc", "reallocarray",       "memalign",
    "posix_memalign", "aligned_alloc", "valloc", "pvalloc", "malloc_usable_size",
};

/* What the library gets as the next definitions, and from libc's own handle. */
static void questions(void *library) {
    GET(library, next_t, next_of);
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    CHECK(libc != NULL, "%s", dlerror());
    for (size_t i = 0; i < sizeof allocating / sizeof *allocating; i++) {
        const char *name = allocating[i];
        void *ours = dlsym(RTLD_DEFAULT, name);
        CHECK(ours != NULL, "%s: %s", name, dlerror());
        CHECK(next_of(name) == ours, "the next %s is not the program's", name);
        CHECK(dlsym(libc, name) == ours, "libc's %s is not the program's", name);
        CHECK(dlsym(library, name) == ours, "the library's %s is not the program's", name);
    }
    CHECK(next_of("fclose") == dlsym(libc, "fclose"), "the next fclose is not libc's");
    CHECK(next_of("loam_version") == NULL, "loam is found behind a library that came later");
    CHECK(dlerror() != NULL, "no error");
    CHECK(dlsym(library, "give") != NULL && dlsym(RTLD_DEFAULT, "give") == NULL, "give");
    (void)dlerror();
    CHECK(dlclose(libc) == 0, "%s", dlerror());
}

static void close_it(void *library) { CHECK(dlclose(library) == 0, "%s", dlerror()); }

static void loads(const char *caller_path, const char *name) {
    int deep = RTLD_NOW | RTLD_DEEPBIND;
    void *caller = dlopen(caller_path, deep);
    CHECK(caller != NULL, "%s", dlerror());
    void *(*open_neighbour)(const char *, int), *(*open_neighbour_in)(Lmid_t, const char *, int);
    *(void **)&open_neighbour = function_of(caller, "open_neighbour");
    *(void **)&open_neighbour_in = function_of(caller, "open_neighbour_in");
    CHECK(dlopen(name, RTLD_NOW) == NULL, "%s is found without a RUNPATH", name);
    for (int round = 0; round < 3; round++) {
        void *library = round < 2 ? open_neighbour(name, deep | (round == 1 ? RTLD_GLOBAL : 0))
                                  : open_neighbour_in(LM_ID_BASE, name, deep);
        CHECK(library != NULL, "round %d: %s", round, dlerror());
        GET(library, free_t, whose_free);
        CHECK(whose_free() == free, "round %d: the library has another free", round);
        exchange(library);
        if ((round & 1) == 0) questions(library); /* the library's names are its own */
        close_it(library);
    }
    /* A namespace has a libc, and a malloc, of its own: nothing may pass. */
    void *apart = open_neighbour_in(LM_ID_NEWLM, name, deep);
    if (apart != NULL) {
        GET(apart, give_t, give);
        GET(apart, take_t, take);
        take(give(1000));
        close_it(apart);
    }
    /* The program itself, and errors. */
    void *self = dlopen(NULL, deep);
    CHECK(self != NULL, "%s", dlerror());
    close_it(self);
    CHECK(dlopen("/does/not/exist.so", deep) == NULL, "a file that must not exist does");
    const char *why = dlerror();
    CHECK(why != NULL && strstr(why, "/does/not/exist.so") != NULL, "dlerror says %s", why);
    CHECK(dlopen("/does/not/exist.so", RTLD_DEEPBIND) == NULL && dlerror() != NULL, "no mode");
    close_it(caller);
}

/* In a process of its own, with LOAM_ALLOW_DEEPBIND=1: the library has libc's free. */
static int keeps(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_DEEPBIND);
    CHECK(library != NULL, "%s", dlerror());
    GET(library, free_t, whose_free);
    GET(library, give_t, give);
    GET(library, take_t, take);
    GET(library, next_t, next_of);
    CHECK(whose_free() != free, "the flag was cleared");
    CHECK(next_of("free") == (void *)whose_free(), "dlsym still answers");
    take(give(1000));
    return 0;
}

int main(int argc, char **argv) {
    works_require_loam();
    works_limit(60);
    CHECK(argc >= 4, "usage: binding CALLER PATH NAME [keeps]");
    if (argc == 5) return keeps(argv[2]);
    loads(argv[1], argv[3]);

    static char said[1 << 14];
    char *again[] = {argv[0], argv[1], argv[2], argv[3], NULL, NULL};
    char *verbose[] = {(char *)"LOAM_VERBOSE=1", NULL};
    if (getenv("LOAM_VERBOSE") != NULL) return 0;
    works_expect_ok(works_capture(works_self(), again, verbose, 2, said, sizeof said), "verbose");
    CHECK(strstr(said, argv[1]) != NULL && strstr(said, "RTLD_DEEPBIND") != NULL,
          "LOAM_VERBOSE=1 says: %s", said);
    again[4] = (char *)"keeps";
    char *allowed[] = {(char *)"LOAM_VERBOSE=1", (char *)"LOAM_ALLOW_DEEPBIND=1", NULL};
    works_expect_ok(works_capture(works_self(), again, allowed, 2, said, sizeof said), "allowed");
    CHECK(strstr(said, "LOAM_ALLOW_DEEPBIND=1 (environment") != NULL, "options: %s", said);
    CHECK(strstr(said, argv[2]) == NULL, "a library is named that has the flag: %s", said);
    return 0;
}
#endif
