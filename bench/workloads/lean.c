// lean.c: a compiler for a functional language: threads elaborate declarations over a library.
//
// Asks: what do the immutable, reference-counted terms of a theorem prover cost? It stands for the
// row leanN of other reports, in which the Lean compiler compiles its own library: no package that
// this project may install has that compiler (decision 0036), so this workload has its pattern of
// allocation, not its program. Each thread takes declarations in turn. For each it reads terms of
// the library, which any thread may have made, applies one to another by rebuilding the path to
// each variable, drops what came between, keeps names in strings and hypotheses in an array that
// grows, and publishes the result in place of an older one. Terms are of 24 to 56 bytes, die young
// for the most part, and are freed by the thread that drops the last reference. A term counts its
// references without atomic instructions until it is published, as Lean's do.
// Of its instructions on glibc, 62% are malloc's and free's. Cannot say anything about Lean's own
// speed, nor about its file input and its caches.
#include "workload.h"

#include <pthread.h>
#include <stdatomic.h>

enum { SLOTS = 4096, STRIPES = 64, DEPTH = 7, SIZE_MOST = 600, VARIABLES = 4, NAME_MOST = 40 };

typedef enum { VARIABLE, CONSTANT, APPLICATION, LAMBDA } Kind;

typedef struct Term {
    _Atomic int32_t references;             // plain until `shared`
    uint8_t kind, shared, variables, index; // variables: a bit for each free one
    uint32_t size;                          // nodes, each as often as it is reached
    struct Term *parts[];                   // a constant has its name in parts[0]
} Term;

typedef struct {
    pthread_mutex_t locks[STRIPES];
    Term *slots[SLOTS];
    uint64_t declarations;
} Library;

static Term *keep(Term *term) {
    if (term->shared)
        atomic_fetch_add_explicit(&term->references, 1, memory_order_relaxed);
    else
        atomic_store_explicit(&term->references,
                              atomic_load_explicit(&term->references, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    return term;
}

static unsigned parts_of(const Term *term) { return term->kind >= APPLICATION ? 2 : 0; }

static void drop(Term *term) {
    int32_t left;
    if (term->shared) {
        left = atomic_fetch_sub_explicit(&term->references, 1, memory_order_acq_rel) - 1;
    } else {
        left = atomic_load_explicit(&term->references, memory_order_relaxed) - 1;
        atomic_store_explicit(&term->references, left, memory_order_relaxed);
    }
    if (left > 0) return;
    for (unsigned i = 0; i < parts_of(term); i++) drop(term->parts[i]);
    if (term->kind == CONSTANT) free(term->parts[0]);
    free(term);
}

static Term *make(Kind kind, size_t bytes) {
    Term *term = wl_malloc(sizeof(Term) + bytes);
    atomic_init(&term->references, 1);
    term->kind = (uint8_t)kind;
    term->shared = term->variables = term->index = 0;
    term->size = 1;
    return term;
}

static Term *variable(unsigned index) {
    Term *term = make(VARIABLE, 8);
    term->index = (uint8_t)index;
    term->variables = (uint8_t)(1u << index);
    term->parts[0] = NULL;
    return term;
}

static Term *constant(WlRandom *random) {
    Term *term = make(CONSTANT, 16);
    uint64_t length = wl_between(random, 4, NAME_MOST);
    char *name = wl_malloc(length + 1);
    memset(name, 'a' + (int)wl_below(random, 26), length);
    name[length] = 0;
    term->parts[0] = (Term *)name;
    return term;
}

// Takes over both parts. A lambda binds variable `index` of its second.
static Term *node(Kind kind, unsigned index, Term *first, Term *second) {
    Term *term = make(kind, kind == LAMBDA ? 40 : 16);
    term->index = (uint8_t)index;
    term->parts[0] = first;
    term->parts[1] = second;
    unsigned inner = second->variables & ~(kind == LAMBDA ? 1u << index : 0u);
    term->variables = (uint8_t)(first->variables | inner);
    term->size = 1 + first->size + second->size;
    return term;
}

static Term *build(WlRandom *random, unsigned depth) {
    uint64_t what = depth == 0 ? wl_below(random, 4) : wl_below(random, 16);
    if (what < 2) return variable((unsigned)wl_below(random, VARIABLES));
    if (what < 4) return constant(random);
    Term *first = build(random, depth - 1), *second = build(random, depth - 1);
    return node(what < 11 ? APPLICATION : LAMBDA, (unsigned)wl_below(random, VARIABLES), first,
                second);
}

// The term with `value` for a variable: what does not contain it is shared, the path to it is new.
static Term *instantiate(Term *term, unsigned index, Term *value) {
    if ((term->variables & 1u << index) == 0) return keep(term);
    if (term->kind == VARIABLE) return keep(value);
    Term *first = instantiate(term->parts[0], index, value);
    bool binds = term->kind == LAMBDA && term->index == index;
    Term *second = binds ? keep(term->parts[1]) : instantiate(term->parts[1], index, value);
    return node((Kind)term->kind, term->index, first, second);
}

// Applies lambdas to arguments from the outside in, a few steps; takes the term over.
static Term *reduce(Term *term, unsigned steps) {
    while (steps-- > 0 && term->kind == APPLICATION && term->size <= SIZE_MOST) {
        Term *function = term->parts[0];
        if (function->kind != LAMBDA) break;
        Term *next = instantiate(function->parts[1], function->index, term->parts[1]);
        drop(term);
        term = next;
    }
    return term;
}

// Before other threads can reach it. What is shared already has only shared parts.
static void share(Term *term) {
    if (term->shared) return;
    term->shared = 1;
    for (unsigned i = 0; i < parts_of(term); i++) share(term->parts[i]);
}

static uint64_t check(const Term *term) {
    uint64_t sum = term->kind;
    if (term->kind == CONSTANT) {
        const char *name = (const char *)term->parts[0];
        size_t length = strlen(name);
        if (length < 4 || length > NAME_MOST || name[0] != name[length - 1])
            wl_fail("a name of %zu letters reads \"%s\"", length, name);
        return sum + (uint64_t)name[0];
    }
    for (unsigned i = 0; i < parts_of(term); i++) sum += check(term->parts[i]);
    return sum;
}

static Term *look_up(Library *library, uint64_t slot) {
    pthread_mutex_lock(&library->locks[slot % STRIPES]);
    Term *term = library->slots[slot] != NULL ? keep(library->slots[slot]) : NULL;
    pthread_mutex_unlock(&library->locks[slot % STRIPES]);
    return term;
}

static void publish(Library *library, uint64_t slot, Term *term) {
    share(term);
    pthread_mutex_lock(&library->locks[slot % STRIPES]);
    Term *old = library->slots[slot];
    library->slots[slot] = term;
    pthread_mutex_unlock(&library->locks[slot % STRIPES]);
    if (old != NULL) drop(old);
}

static uint64_t elaborate(Library *library, WlRandom *random) {
    // Hypotheses: an array that grows as the declaration is read.
    size_t room = 2, count = 0;
    Term **hypotheses = wl_malloc(room * sizeof *hypotheses);
    uint64_t wanted = wl_between(random, 2, 12);
    while (count < wanted) {
        Term *term = look_up(library, wl_below(random, SLOTS));
        if (term == NULL) term = build(random, DEPTH);
        if (count == room) hypotheses = wl_realloc(hypotheses, (room *= 2) * sizeof *hypotheses);
        hypotheses[count++] = term;
    }
    Term *result = build(random, DEPTH - 2);
    for (size_t at = 0; at < count; at++) {
        unsigned index = (unsigned)wl_below(random, VARIABLES);
        Term *function = node(LAMBDA, index, constant(random), result);
        result = reduce(node(APPLICATION, 0, function, hypotheses[at]), 8);
        if (result->size > SIZE_MOST) {
            drop(result);
            result = build(random, DEPTH - 2);
        }
    }
    free(hypotheses);
    uint64_t sum = check(result);
    publish(library, wl_below(random, SLOTS), result);
    return sum;
}

static WlTally body(WlWorker *me) {
    Library *library = me->shared;
    WlTally tally = {wl_share(me, library->declarations), 0};
    for (uint64_t n = 0; n < tally.ops; n++) tally.sum += elaborate(library, &me->random);
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{0}};
    wl_begin(argc, argv, "lean", WL_THREADED, options);
    Library *library = wl_table(1, sizeof *library);
    for (int i = 0; i < STRIPES; i++) pthread_mutex_init(&library->locks[i], NULL);
    library->declarations = wl_scaled(80000);
    WlTally tally = wl_run(wl.threads, body, library);
    for (int i = 0; i < SLOTS; i++)
        if (library->slots[i] != NULL) drop(library->slots[i]);
    return wl_end(tally);
}
