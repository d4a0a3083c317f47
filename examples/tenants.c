/* tenants.c: plugins of several tenants in one process, each with memory of its own, bounded and
 * dropped as a whole.
 *
 * Each tenant's requests build an index of words in memory: nodes, strings, a table that grows.
 * That is code which knows malloc only (build_index), and so it runs with the tenant's heap as the
 * thread's default. One tenant sends ever more: it is warned at its soft limit, refused at its hard
 * one, and the others never notice. Then each is thrown out, with one call, and the time is
 * compared with freeing every object.
 *
 *     ./tenants [words]
 */
#include <loam/loam.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TENANTS = 4, BUCKETS = 1 << 16, SOFT = 24 << 20, HARD = 32 << 20 };

/* ---- Code that only knows an allocator by malloc's names ---- */

struct word {
    struct word *next;
    unsigned count;
    char text[];
};

struct index {
    struct word *bucket[BUCKETS];
    unsigned long *offsets;
    size_t used, room;
};

static unsigned hash(const char *text) {
    unsigned h = 2166136261u;
    while (*text != '\0') h = (h ^ (unsigned char)*text++) * 16777619u;
    return h % BUCKETS;
}

/* false iff there is no memory; what is in the index stays. */
static bool add_word(struct index *index, const char *text) {
    struct word **at = &index->bucket[hash(text)];
    for (struct word *word = *at; word != NULL; word = word->next) {
        if (strcmp(word->text, text) != 0) continue;
        word->count++;
        return true;
    }
    if (index->used == index->room) {
        size_t room = index->room == 0 ? 64 : 2 * index->room;
        unsigned long *grown = loam_realloc(index->offsets, room * sizeof *grown);
        if (grown == NULL) return false;
        index->offsets = grown;
        index->room = room;
    }
    struct word *word = loam_malloc(sizeof *word + strlen(text) + 1);
    if (word == NULL) return false;
    *word = (struct word){*at, 1};
    memcpy(word->text, text, strlen(text) + 1);
    index->offsets[index->used++] = (unsigned long)hash(text);
    *at = word;
    return true;
}

static void free_index(struct index *index) {
    for (unsigned i = 0; i < BUCKETS; i++) {
        for (struct word *word = index->bucket[i], *next; word != NULL; word = next) {
            next = word->next;
            loam_free(word);
        }
    }
    loam_free(index->offsets);
    loam_free(index);
}

/* ---- Tenants ---- */

struct tenant {
    const char *name;
    loam_heap *heap;
    struct index *index;
    unsigned warnings;
};

static void nearly_full(loam_heap *heap, size_t bytes, void *context) {
    struct tenant *tenant = context;
    (void)heap;
    tenant->warnings++;
    printf("%-6s warned at %zu MiB\n", tenant->name, bytes >> 20);
}

static bool open_tenant(struct tenant *tenant, const char *name) {
    *tenant = (struct tenant){.name = name, .heap = loam_heap_create()};
    if (tenant->heap == NULL) return false;
    loam_heap_set_limits(tenant->heap, SOFT, HARD, nearly_full, tenant);
    tenant->index = loam_heap_zalloc(tenant->heap, sizeof *tenant->index);
    return tenant->index != NULL;
}

/* Returns how many words there was room for. */
static unsigned serve(struct tenant *tenant, unsigned from, unsigned words) {
    loam_heap *before;
    unsigned done = 0;
    char text[32];
    if (loam_heap_set_default(tenant->heap, &before) != 0) return 0;
    for (; done < words; done++) {
        snprintf(text, sizeof text, "%s-%u", tenant->name, from + done);
        if (!add_word(tenant->index, text)) break;
    }
    (void)loam_heap_set_default(before, NULL);
    return done;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    unsigned words = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000;
    static const char *const names[TENANTS] = {"acme", "birch", "cargo", "delta"};
    static struct tenant tenants[TENANTS];
    unsigned refused = 0;
    for (int t = 0; t < TENANTS; t++) {
        if (!open_tenant(&tenants[t], names[t])) return 1;
    }
    /* The last one is greedy. */
    for (int t = 0; t < TENANTS; t++) {
        unsigned wanted = t == TENANTS - 1 ? 1000000 : words;
        unsigned served = serve(&tenants[t], 0, wanted);
        if (served < wanted) {
            refused++;
            printf("%-6s refused after %u words\n", tenants[t].name, served);
        }
    }
    for (int t = 0; t < TENANTS; t++) {
        loam_heap_numbers numbers;
        loam_heap_usage(tenants[t].heap, &numbers);
        printf("%-6s %7zu objects of %5zu KiB in %5zu KiB (limit %zu)\n", tenants[t].name,
               numbers.objects, numbers.object_bytes >> 10, numbers.committed_bytes >> 10,
               numbers.hard_limit >> 10);
        if (numbers.committed_bytes > HARD) return 1;
    }
    double start = seconds();
    free_index(tenants[0].index);
    double each = seconds() - start;
    start = seconds();
    loam_heap_destroy(tenants[1].heap);
    double whole = seconds() - start;
    printf("%u words freed one by one: %.0f us; a heap destroyed: %.0f us\n", words, each * 1e6,
           whole * 1e6);
    loam_heap_destroy(tenants[0].heap);
    loam_heap_destroy(tenants[2].heap);
    loam_heap_destroy(tenants[3].heap);
    return refused == 1 && tenants[TENANTS - 1].warnings == 1 ? 0 : 1;
}
