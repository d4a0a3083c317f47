// cache_drift.c: a cache that evicts the least recently used, while its entries' sizes drift.
//
// Asks: how much more memory than its budget does a cache take that runs for long? The budget (24
// MiB of keys and values) is the same all along; the sizes of the values wander from small to large
// and back, one entry in a thousand is pinned for good, and what is asked for often lives longer
// than the rest. Blocks of every age lie side by side: the memory of one size is needed by another.
// The peak tells; the time tells what such a mixture costs. An entry is two blocks, a node and its
// value, as in most caches. Cannot show what a cache for many threads does.
#include "workload.h"

enum { BUDGET = 24 << 20, BUCKETS = 1 << 16, KEYS = 400000, DRIFTS = 6 };

typedef struct Entry {
    struct Entry *next_in_bucket;
    struct Entry *newer, *older;
    unsigned char *value;
    uint32_t key, size;
    bool pinned;
    char name[]; // the key's text, 10 to 40 bytes
} Entry;

static Entry **buckets;
static Entry *newest, *oldest; // pinned entries are in neither list
static uint64_t bytes;
static WlTally tally;

static Entry **place_of(uint32_t key) {
    Entry **place = &buckets[key * UINT32_C(2654435761) >> 16];
    while (*place != NULL && (*place)->key != key) place = &(*place)->next_in_bucket;
    return place;
}

static void push(Entry *entry) {
    entry->older = newest;
    entry->newer = NULL;
    if (newest != NULL) newest->newer = entry;
    newest = entry;
    if (oldest == NULL) oldest = entry;
}

static void take_out(Entry *entry) {
    if (entry->newer != NULL) entry->newer->older = entry->older;
    if (entry->older != NULL) entry->older->newer = entry->newer;
    if (newest == entry) newest = entry->older;
    if (oldest == entry) oldest = entry->newer;
}

static uint64_t name_length(uint32_t key) { return 10 + key % 31; }

static void evict(Entry *entry) {
    tally.sum += wl_check(entry->value, entry->size, (unsigned char)entry->key);
    tally.sum += wl_check(entry->name, name_length(entry->key), (unsigned char)entry->key);
    bytes -= entry->size + sizeof(Entry) + name_length(entry->key);
    free(entry->value);
    free(entry);
    tally.ops += 2;
}

static void insert(uint32_t key, uint32_t size, bool pinned) {
    Entry *entry = wl_malloc(sizeof(Entry) + name_length(key));
    entry->key = key;
    entry->size = size;
    entry->pinned = pinned;
    entry->value = wl_malloc(size);
    wl_write(entry->name, name_length(key), (unsigned char)key);
    wl_write(entry->value, size, (unsigned char)key);
    bytes += size + sizeof(Entry) + name_length(key);
    Entry **place = place_of(key);
    entry->next_in_bucket = *place;
    *place = entry;
    if (!pinned) push(entry);
    while (bytes > BUDGET && oldest != NULL) {
        Entry *victim = oldest, **link = place_of(victim->key);
        *link = victim->next_in_bucket;
        take_out(victim);
        evict(victim);
    }
    tally.ops += 2;
}

static WlTally body(WlWorker *me) {
    WlRandom *random = &me->random;
    const uint64_t requests = wl_scaled(1600000);
    buckets = wl_table(BUCKETS, sizeof(Entry *));
    for (uint64_t done = 0; done < requests; done++) {
        // Some keys are asked for much more often than others: the product of two even draws.
        uint32_t key = (uint32_t)(wl_below(random, KEYS) * wl_below(random, KEYS) / KEYS);
        Entry *entry = *place_of(key);
        if (entry != NULL) {
            tally.sum += wl_check(entry->value, entry->size, (unsigned char)key);
            if (!entry->pinned) {
                take_out(entry);
                push(entry);
            }
            continue;
        }
        // The middle of the sizes goes up and down, from about 100 to about 3000 bytes and back.
        uint64_t along = done * DRIFTS * 512 / requests % 1024;
        uint64_t middle = 100 + 6 * (along < 512 ? along : 1024 - along);
        insert(key, (uint32_t)wl_between(random, middle / 3, middle * 5 / 3),
               wl_below(random, 1000) == 0);
    }
    for (uint32_t bucket = 0; bucket < BUCKETS; bucket++) {
        while (buckets[bucket] != NULL) {
            Entry *entry = buckets[bucket];
            buckets[bucket] = entry->next_in_bucket;
            evict(entry);
        }
    }
    return tally;
}

int main(int argc, char **argv) {
    wl_begin(argc, argv, "cache-drift", WL_SINGLE, NULL);
    return wl_end(wl_run(1, body, NULL));
}
