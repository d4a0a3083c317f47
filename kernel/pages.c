/* pages.c: the kernel's pages as a source, with a cache for each processor (loam/kernel_pages.h).
 *
 *   cache of a processor: busy │ count │ page[0] page[1] ... page[count-1] <── last in, first out
 *
 * Discipline: only its own processor touches a cache, with preemption off. Only interrupts of the
 * same processor can come in between, and they end before the interrupted code continues. `busy`
 * tells them that a use is in progress: then they call the page allocator. Neither atomic
 * instructions nor disabled interrupts are needed. Another processor drains the cache of a
 * processor that has gone, after its last step. loam_kernel_pages_drain runs on each processor, in
 * a task.
 *
 * Invariant: pages taken - returned == out + cached. The sums are over all possible processors,
 * because one processor may take a page and another may return it. */
#include "module.h"

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/kernel.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/preempt.h>
#include <linux/shrinker.h>
#include <linux/smp.h>
#include <linux/topology.h>
#include <linux/version.h>

/* The largest run that the page allocator has. Linux has changed its name, and what it counts. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
#define MOST_ORDER MAX_PAGE_ORDER
#elif LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
#define MOST_ORDER MAX_ORDER
#else
#define MOST_ORDER (MAX_ORDER - 1)
#endif
#define RUN_MOST ((size_t)PAGE_SIZE << MOST_ORDER)

/* A processor's cache. */
struct cache {
    /* A use is in progress; number of pages in the cache. */
    unsigned busy, count;
    /* Counters, changed by this_cpu operations, which interrupts do not tear. */
    unsigned long taken, returned, passed;
    /* The pages; the last one is taken first. */
    void *page[LOAM_KERNEL_CACHE_PAGES];
};

/* A cache for each possible processor. */
static struct cache __percpu *caches;
/* What cpuhp_setup_state_nocalls returned. */
static int hotplug_state;

/* ---- The cache ---- */

/* Begins a use of the processor's cache; until leave, interrupts call the page allocator. Returns
 * false if the cache is busy. An interrupt between the test and the mark has left again before the
 * mark is made. Preemption must be off. */
static bool enter(struct cache *cache) {
    if (READ_ONCE(cache->busy)) {
        this_cpu_inc(caches->passed);
        return false;
    }
    WRITE_ONCE(cache->busy, 1);
    /* The compiler's order is enough: interrupts run on this processor. */
    barrier();
    return true;
}

/* Ends a use of the processor's cache. */
static void leave(struct cache *cache) {
    barrier();
    WRITE_ONCE(cache->busy, 0);
}

/* Takes a page from this processor's cache. Returns NULL iff the cache is empty or busy. */
static void *pop(void) {
    struct cache *cache = get_cpu_ptr(caches);
    void *page = NULL;
    if (enter(cache)) {
        if (cache->count > 0) page = cache->page[--cache->count];
        leave(cache);
    }
    put_cpu_ptr(caches);
    return page;
}

/* Puts a page into this processor's cache. Returns false iff the cache is full or busy. */
static bool push(void *page) {
    struct cache *cache = get_cpu_ptr(caches);
    bool pushed = false;
    if (enter(cache)) {
        pushed = cache->count < LOAM_KERNEL_CACHE_PAGES;
        if (pushed) cache->page[cache->count++] = page;
        leave(cache);
    }
    put_cpu_ptr(caches);
    return pushed;
}

/* Returns whether a page may be cached. A page of another node would make its next use here slow. A
 * page of the emergency reserve would be kept from the tasks that may use it. */
static bool may_cache(const void *p) {
    const struct page *page = virt_to_page(p);
    return page_to_nid(page) == numa_mem_id() && !page_is_pfmemalloc(page);
}

/* ---- The source ---- */

static void *pages_get(loam_source *source, size_t bytes, size_t align, size_t *got) {
    const loam_kernel_pages *pages = container_of(source, loam_kernel_pages, source);
    void *p;
    if (bytes <= PAGE_SIZE && align <= PAGE_SIZE) {
        p = pages->cached ? pop() : NULL;
        if (p != NULL) {
            if (pages->gfp & __GFP_ZERO) clear_page(p);
        } else {
            p = (void *)__get_free_page(pages->gfp);
            if (p == NULL) return NULL;
            this_cpu_inc(caches->taken);
        }
        *got = PAGE_SIZE;
        return p;
    }
    /* A run is aligned to its size, rounded up to a power of two. */
    if (bytes < align) bytes = align;
    if (bytes > RUN_MOST) return NULL;
    /* Runs often fail, and regions then try a smaller one: the log need not show it. */
    p = alloc_pages_exact(bytes, pages->gfp | __GFP_NOWARN);
    if (p == NULL) return NULL;
    *got = PAGE_ALIGN(bytes);
    this_cpu_add(caches->taken, *got >> PAGE_SHIFT);
    return p;
}

static void pages_put(loam_source *source, void *chunk, size_t got) {
    const loam_kernel_pages *pages = container_of(source, loam_kernel_pages, source);
    if (got == PAGE_SIZE && pages->cached && may_cache(chunk) && push(chunk)) return;
    free_pages_exact(chunk, got);
    this_cpu_add(caches->returned, got >> PAGE_SHIFT);
}

int loam_kernel_pages_init(loam_kernel_pages *pages, gfp_t gfp) {
    if (gfp & __GFP_HIGHMEM) return -EINVAL;
    *pages = (loam_kernel_pages){
        .source = {.get = pages_get,
                   .put = pages_put,
                   .name = "kernel pages",
                   .flags = LOAM_SOURCE_THREADS | (gfp & __GFP_ZERO ? LOAM_SOURCE_ZEROED : 0)},
        .gfp = gfp,
        /* Cached pages have no owner: they are of the normal zone, of any node, charged to no
         * group. */
        .cached = !(gfp & (GFP_ZONEMASK | __GFP_ACCOUNT | __GFP_THISNODE)),
    };
    return 0;
}
EXPORT_SYMBOL_GPL(loam_kernel_pages_init);

/* ---- All processors ---- */

/* Returns all pages of a cache that no processor uses, and their number. */
static unsigned long empty(struct cache *cache) {
    unsigned long pages = cache->count;
    while (cache->count > 0) free_page((unsigned long)cache->page[--cache->count]);
    cache->returned += pages;
    return pages;
}

/* Returns the pages of this processor's cache. In a task bound to the processor. Page by page, so
 * that preemption is never off for long. */
static int drain_here(void *sum) {
    void *page;
    while ((page = pop()) != NULL) {
        free_page((unsigned long)page);
        this_cpu_inc(caches->returned);
        *(unsigned long *)sum += 1;
    }
    return 0;
}

unsigned long loam_kernel_pages_drain(void) {
    unsigned long sum = 0;
    int cpu;
    cpus_read_lock();
    for_each_online_cpu(cpu) smp_call_on_cpu(cpu, drain_here, &sum, false);
    cpus_read_unlock();
    return sum;
}
EXPORT_SYMBOL_GPL(loam_kernel_pages_drain);

loam_kernel_pages_usage loam_kernel_pages_ask(void) {
    loam_kernel_pages_usage usage = {0};
    int cpu;
    for_each_possible_cpu(cpu) {
        const struct cache *cache = per_cpu_ptr(caches, cpu);
        usage.taken += READ_ONCE(cache->taken);
        usage.returned += READ_ONCE(cache->returned);
        usage.passed += READ_ONCE(cache->passed);
        usage.cached += READ_ONCE(cache->count);
    }
    usage.out = usage.taken - usage.returned - usage.cached;
    return usage;
}
EXPORT_SYMBOL_GPL(loam_kernel_pages_ask);

static int processor_gone(unsigned cpu) {
    unsigned long pages = empty(per_cpu_ptr(caches, cpu));
    pr_info("loam_region: processor %u has gone, %lu cached pages returned\n", cpu, pages);
    return 0;
}

/* ---- When memory becomes scarce: shrink the cache of the processor that looks for memory ---- */

static unsigned long count_here(struct shrinker *shrinker, struct shrink_control *control) {
    /* The count may change at once: a guess is enough. */
    unsigned long count = READ_ONCE(raw_cpu_ptr(caches)->count);
    return count != 0 ? count : SHRINK_EMPTY;
}

static unsigned long shrink_here(struct shrinker *shrinker, struct shrink_control *control) {
    unsigned long freed = 0;
    void *page;
    while (freed < control->nr_to_scan && (page = pop()) != NULL) {
        free_page((unsigned long)page);
        this_cpu_inc(caches->returned);
        freed++;
    }
    return freed != 0 ? freed : SHRINK_STOP;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 7, 0)
static struct shrinker *shrinker;
static int begin_shrinker(void) {
    shrinker = shrinker_alloc(0, "loam_region");
    if (shrinker == NULL) return -ENOMEM;
    shrinker->count_objects = count_here;
    shrinker->scan_objects = shrink_here;
    shrinker_register(shrinker);
    return 0;
}
static void end_shrinker(void) { shrinker_free(shrinker); }
#else
static struct shrinker shrinker = {
    .count_objects = count_here,
    .scan_objects = shrink_here,
    .seeks = DEFAULT_SEEKS,
};
static int begin_shrinker(void) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 0, 0)
    return register_shrinker(&shrinker, "loam_region");
#else
    return register_shrinker(&shrinker);
#endif
}
static void end_shrinker(void) { unregister_shrinker(&shrinker); }
#endif

/* ---- Start and end ---- */

int lm_pages_begin(void) {
    caches = alloc_percpu(struct cache);
    if (caches == NULL) return -ENOMEM;
    hotplug_state = cpuhp_setup_state_nocalls(CPUHP_BP_PREPARE_DYN, "mm/loam_region:prepare", NULL,
                                              processor_gone);
    int wrong = hotplug_state < 0 ? hotplug_state : begin_shrinker();
    if (wrong == 0) return 0;
    if (hotplug_state >= 0) cpuhp_remove_state_nocalls(hotplug_state);
    free_percpu(caches);
    return wrong;
}

unsigned long lm_pages_end(void) {
    int cpu;
    end_shrinker();
    cpuhp_remove_state_nocalls(hotplug_state);
    /* No module uses the sources any more. */
    for_each_possible_cpu(cpu) empty(per_cpu_ptr(caches, cpu));
    loam_kernel_pages_usage usage = loam_kernel_pages_ask();
    if (usage.out == 0) {
        pr_info("loam_region: pages balanced: %lu taken, %lu returned\n", usage.taken,
                usage.returned);
    } else {
        pr_err("loam_region: pages lost: %lu taken, %lu returned\n", usage.taken, usage.returned);
    }
    free_percpu(caches);
    return usage.out;
}
