// server.c: requests, sessions and a cache: three lifetimes in one heap.
//
// Asks: what does an allocator do with the mixture of a long-running server? A request allocates a
// dozen strings, now and then a body of up to 64 KiB, and a response that grows by realloc, and
// frees all at its end, in no particular order. A session lives for 50 requests. A cache shared by
// all threads holds 4096 values of 128 B to 16 KiB, one put in by every fourth request; the value
// that it drives out was as a rule allocated by another thread and long ago. The short-lived
// decide the time, the long-lived between them the memory.
// The cache has 64 locks, held for an exchange of pointers. Of its instructions on glibc, 62% are
// malloc's, realloc's and free's, under 1% locks; the rest draws sizes, writes and checks.
// Cannot say anything about memory after the load; see burst.c.
#include "batch.h"

static uint64_t connections = 2000, body_most = 64 << 10;

enum { SHARDS = 64, VALUES = 64, FIELDS = 6, STRINGS = 20, SESSION = 50 };

typedef struct {
    _Alignas(128) pthread_mutex_t lock;
    Item *values[VALUES];
} Shard;

typedef struct {
    Item *fields[FIELDS]; // all NULL before its first request and after its last
} Session;

typedef struct {
    Shard *shards;
    Session *sessions;
    uint64_t requests;
} Server;

static Item *make(WlTally *tally, WlRandom *random, size_t least, size_t most) {
    tally->ops++;
    return item_make(wl_skewed(random, least, most), (unsigned char)wl_next(random));
}

static void drop(WlTally *tally, Item *item) {
    if (item == NULL) return;
    tally->ops++;
    tally->sum += item_free(item);
}

static void put(Server *server, WlTally *tally, WlRandom *random) {
    Item *item = make(tally, random, 128, 16 << 10);
    Shard *shard = &server->shards[wl_below(random, SHARDS)];
    uint64_t slot = wl_below(random, VALUES);
    pthread_mutex_lock(&shard->lock);
    Item *old = shard->values[slot];
    shard->values[slot] = item;
    pthread_mutex_unlock(&shard->lock);
    drop(tally, old);
}

// What is found depends on how the threads run, so nothing of it is counted.
static void get(Server *server, WlRandom *random) {
    Shard *shard = &server->shards[wl_below(random, SHARDS)];
    uint64_t slot = wl_below(random, VALUES);
    pthread_mutex_lock(&shard->lock);
    if (shard->values[slot] != NULL) item_check(shard->values[slot]);
    pthread_mutex_unlock(&shard->lock);
}

static void request(Server *server, Session *session, WlTally *tally, WlRandom *random) {
    if (session->fields[0] == NULL) {
        session->fields[0] = make(tally, random, 1024, 4096);
        for (int at = 1; at < FIELDS; at++) session->fields[at] = make(tally, random, 16, 256);
    }
    Item *strings[STRINGS];
    uint64_t count = wl_between(random, 8, STRINGS);
    for (uint64_t at = 0; at < count; at++) strings[at] = make(tally, random, 16, 512);
    bool posted = wl_below(random, 8) == 0;
    Item *posting = posted ? make(tally, random, 512, body_most) : NULL;

    if (wl_below(random, 4) == 0) {
        put(server, tally, random);
    } else {
        get(server, random);
    }
    // A field of the session changes; the old one has lived for some requests.
    Item **field = &session->fields[wl_between(random, 1, FIELDS - 1)];
    drop(tally, *field);
    *field = make(tally, random, 16, 256);

    size_t size = 200, full = wl_skewed(random, 256, 32 << 10);
    Item *response = item_make(size, (unsigned char)full);
    for (; size < full; tally->ops++) {
        size = size * 2 < full ? size * 2 : full;
        response = item_resize(response, size);
    }
    tally->ops++;

    uint64_t at = wl_below(random, count); // from the middle to the end, then the others
    for (uint64_t done = 0; done < count; done++) drop(tally, strings[(at + done) % count]);
    drop(tally, response);
    drop(tally, posting);
    if (wl_below(random, SESSION) == 0) {
        for (int part = 0; part < FIELDS; part++) {
            drop(tally, session->fields[part]);
            session->fields[part] = NULL;
        }
    }
}

static WlTally body(WlWorker *me) {
    Server *server = me->shared;
    uint64_t count = (uint64_t)me->count, first = connections * (uint64_t)me->index / count;
    uint64_t mine = connections * ((uint64_t)me->index + 1) / count - first;
    uint64_t requests = wl_share(me, server->requests);
    WlTally tally = {0, 0};
    for (uint64_t at = 0; at < requests; at++) {
        Session *session = &server->sessions[first + wl_below(&me->random, mine)];
        request(server, session, &tally, &me->random);
    }
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {
        {"--connections", &connections, 1024, 1000000, "open at a time, all threads together"},
        {"--body", &body_most, 512, 16 << 20, "largest body of a request in bytes"},
        {0}};
    wl_begin(argc, argv, "server", WL_THREADED, options);
    Server server = {.shards = wl_table(SHARDS, sizeof(Shard)),
                     .sessions = wl_table(connections, sizeof(Session)),
                     .requests = wl_scaled(380000)};
    for (int at = 0; at < SHARDS; at++) pthread_mutex_init(&server.shards[at].lock, NULL);
    WlTally total = wl_run(wl.threads, body, &server);
    for (int at = 0; at < SHARDS; at++) {
        for (int slot = 0; slot < VALUES; slot++) drop(&total, server.shards[at].values[slot]);
    }
    for (uint64_t at = 0; at < connections; at++) {
        for (int part = 0; part < FIELDS; part++) drop(&total, server.sessions[at].fields[part]);
    }
    return wl_end(total);
}
