/*
 * unload.c - plugins that use the family are loaded, used by threads that live on, and closed, many
 * times.
 *
 * Catches: a pool of a class that stays in the library's lists when its plugin is gone, so that the
 * end of a thread or a walk over all allocators reads unmapped memory; xmalloc's blocks that a
 * closing C++ plugin destroys under a C program; code of libloam.a inside a plugin that the end of
 * a thread or the worker runs when the plugin is gone; memory that each round leaves behind;
 * thread-local variables for which the fifth plugin finds no room.
 *
 * unload closes PLUGIN     the plugin is unmapped each time (it uses the program's loam)
 *        stays PLUGIN      libloam.a is inside: the plugin stays, and works when it is opened again
 *        keeps PLUGIN      the plugin leaves objects in use behind; they stay as they are
 *        many PLUGIN N     N copies of the plugin at once, with libloam.a inside each
 */
#include "works.h"

#include <loam/registry.h>
#include <loam/xallocator.h>

#include <pthread.h>

enum { threads = 3, rounds = 40, warm = 8, objects = 100 };

typedef int work_function(int keep);

/* What the threads that live on are to call; NULL: to end. */
static struct {
    pthread_barrier_t begin, end;
    work_function *work;
} team;

static void call(work_function *work) {
    int done = work(0);
    CHECK(done == objects, "the plugin made %d of %d objects", done, objects);
}

static void *member(void *argument) {
    for (;;) {
        pthread_barrier_wait(&team.begin);
        if (team.work == NULL) return argument;
        call(team.work);
        pthread_barrier_wait(&team.end);
    }
}

static void *once(void *work) {
    call(*(work_function **)work);
    return NULL;
}

static size_t class_pools; /* of the plugin, in the library's list for good */

static void *open_plugin(const char *path, work_function **work) {
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL, "dlopen: %s", dlerror());
    *(void **)work = dlsym(plugin, "work");
    if (dlsym(plugin, "is_pooled") != NULL) class_pools = 1;
    CHECK(*work != NULL, "no work in the plugin");
    return plugin;
}

static size_t listed;

static void look(const loam_usage *usage, void *context) {
    (void)context;
    listed += strstr(usage->name, "unload_") != NULL;
}

/* Walks over all allocators; how many of them a plugin has named, but for one: the pool of a pooled
 * class is the library's, and serves the plugin again when it comes back. */
static size_t plugins_listed(void) {
    listed = 0;
    CHECK(loam_registry_check() == 0, "an allocator is broken");
    loam_registry_visit(look, NULL);
    return listed > 0 ? listed - class_pools : 0;
}

static void use(work_function *work) {
    pthread_t thread;
    call(work);
    team.work = work;
    pthread_barrier_wait(&team.begin);
    pthread_barrier_wait(&team.end);
    CHECK(pthread_create(&thread, NULL, once, &work) == 0 && pthread_join(thread, NULL) == 0,
          "a thread in the plugin");
}

static void cycle(const char *path, bool stays) {
    work_function *work;
    void *plugin = open_plugin(path, &work);
    use(work);
    CHECK(dlclose(plugin) == 0, "dlclose: %s", dlerror());
    void *there = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    if (there != NULL) (void)dlclose(there);
    CHECK((there != NULL) == stays, "%s", stays ? "unloaded" : "not unloaded: nothing is tested");
    if (!stays) CHECK(plugins_listed() == 0, "%zu allocators of the plugin are listed", listed);
}

/* Threads that have used the plugin end behind it, and their successors begin. */
static void let_threads_end(pthread_t *ids, bool again) {
    team.work = NULL;
    pthread_barrier_wait(&team.begin);
    for (int i = 0; i < threads; i++) CHECK(pthread_join(ids[i], NULL) == 0, "join");
    for (int i = 0; i < threads && again; i++)
        CHECK(pthread_create(&ids[i], NULL, member, NULL) == 0, "pthread_create");
}

static void many(const char *path, int copies, pthread_t *ids) {
    char folder[] = "/tmp/loam-unload-XXXXXX", copy[64], part[65536];
    work_function *work[64];
    CHECK(copies <= 64 && mkdtemp(folder) != NULL, "mkdtemp");
    for (int i = 0; i < copies; i++) {
        (void)snprintf(copy, sizeof copy, "%s/%d.so", folder, i);
        int from = open(path, O_RDONLY), to = open(copy, O_WRONLY | O_CREAT, 0700);
        CHECK(from >= 0 && to >= 0, "open %s", copy);
        for (ssize_t n; (n = read(from, part, sizeof part)) > 0;) works_write(to, part, (size_t)n);
        (void)close(from), (void)close(to);
        void *plugin = dlopen(copy, RTLD_NOW | RTLD_LOCAL);
        (void)unlink(copy);
        if (plugin == NULL) (void)rmdir(folder);
        CHECK(plugin != NULL, "plugin %d of %d: %s", i + 1, copies, dlerror());
        *(void **)&work[i] = dlsym(plugin, "work");
        use(work[i]);
        CHECK(dlclose(plugin) == 0, "dlclose: %s", dlerror());
    }
    (void)rmdir(folder);
    works_sleep_ms(500); /* their workers work */
    for (int round = 0; round < 2; round++) {
        let_threads_end(ids, true);
        for (int i = 0; i < copies; i++) use(work[i]);
    }
}

int main(int argc, char **argv) {
    pthread_t ids[threads];
    works_limit(120);
    CHECK(argc > 2, "usage: %s closes|stays|keeps|many PLUGIN [N]", argv[0]);
    pthread_barrier_init(&team.begin, NULL, threads + 1);
    pthread_barrier_init(&team.end, NULL, threads + 1);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&ids[i], NULL, member, NULL) == 0, "pthread_create");
    char *kept = xmalloc(100);
    strcpy(kept, "kept by the program");
    if (strcmp(argv[1], "many") == 0) {
        many(argv[2], argc > 3 ? atoi(argv[3]) : 1, ids);
    } else if (strcmp(argv[1], "keeps") == 0) {
        work_function *work;
        void *plugin = open_plugin(argv[2], &work);
        use(work);
        char *left = NULL;
        char *(*leave)(void);
        *(void **)&leave = dlsym(plugin, "leave");
        CHECK(leave != NULL && (left = leave()) != NULL, "leave");
        CHECK(dlclose(plugin) == 0, "dlclose: %s", dlerror());
        CHECK(plugins_listed() == 0, "the plugin's allocator is listed");
        let_threads_end(ids, true);
        for (int i = 0; i < 1000; i++) memset(xmalloc(100), 1, 100);
        CHECK(strcmp(left, "left by the plugin") == 0, "the object has changed: %.20s", left);
    } else {
        bool stays = strcmp(argv[1], "stays") == 0;
        for (int i = 0; i < warm; i++) cycle(argv[2], stays);
        let_threads_end(ids, true);
        works_sleep_ms(800);
        size_t start = works_rss_bytes();
        for (int i = 0; i < rounds; i++) {
            cycle(argv[2], stays);
            if (i % 7 == 0) let_threads_end(ids, true);
        }
        size_t allowed = start + start / 10 + 4 * WORKS_MIB,
               end = works_settled(works_rss_bytes, allowed);
        CHECK(end <= allowed, "resident memory rose from %zu KiB to %zu KiB", start / 1024,
              end / 1024);
    }
    let_threads_end(ids, false);
    char *next = xmalloc(100), *more = xmalloc(100);
    CHECK(next != kept && more != kept && strcmp(kept, "kept by the program") == 0,
          "the program's block has gone to another owner");
    (void)plugins_listed();
    return 0;
}
