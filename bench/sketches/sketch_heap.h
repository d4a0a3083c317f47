/* sketch_heap.h: malloc, refill and the slow paths of free; included once, at the end of a layout.
 *
 * Invariant: live + bias == carved - length(free); the blocks in head[c] belong to current[c] and
 * count as live. No checker runs: the driver verifies contents instead (driver check).
 */
#include "sketch.h"

static heap_t heap_empty; /* all heads NULL: malloc needs no test for a thread without a heap */
static heap_t heap_main;
static __thread heap_t *heap_self INITIAL_EXEC = &heap_empty;

/* The head of a class's list: in the heap, or in thread-local memory itself (SKETCH_TLS=1), which
 * saves the load of heap_self and costs a kilobyte of static TLS. */
#if SKETCH_TLS
static __thread block_t *heads[CLASSES] INITIAL_EXEC;
#define HEAD(heap, size_class) (*((void)(heap), &heads[size_class]))
#else
#define HEAD(heap, size_class) ((heap)->head[size_class])
#endif

static uint64_t foreign_count;

EXPORT uint64_t sketch_foreign_count(void) { return foreign_count; }

static void heap_init(void) {
#if SKETCH_TABLE
    for (size_t i = 9; i <= BLOCK_MOST / 128; i++)
        heap_main.class_of[i] = (uint8_t)class_medium(i * 128);
#endif
    heap_self = &heap_main;
}

static void partial_push(heap_t *heap, page_t *page) {
    page_t **head = &heap->partial[page->size_class];
    page->previous = NULL;
    page->next = *head;
    if (*head != NULL) (*head)->previous = page;
    *head = page;
}

static void partial_remove(heap_t *heap, page_t *page) {
    if (page->next != NULL) page->next->previous = page->previous;
    if (page->previous != NULL) {
        page->previous->next = page->next;
    } else {
        heap->partial[page->size_class] = page->next;
    }
}

/* Every block of it is in use and known to nobody but the program: set the alarm. */
static void page_fill_up(page_t *page) {
    uint32_t early = page->capacity / 8;
    if (early > 16) early = 16;
    if (early == 0) early = 1;
    page->full = true;
    page->bias = page->live - early;
    page->live = early;
}

/* Blocks for the heap's list out of this page; NULL iff it has none. */
static block_t *page_blocks(page_t *page) {
    block_t *list = page->free;
    if (list != NULL) {
        page->free = NULL;
        page->live = page->carved;
        return list;
    }
    uint32_t count = EXTEND_BYTES / page->block_bytes;
    if (count == 0) count = 1;
    if (count > page->capacity - page->carved) count = page->capacity - page->carved;
    if (count == 0) return NULL;
    char *first = page->start + (size_t)page->carved * page->block_bytes;
    char *last = first + (size_t)(count - 1) * page->block_bytes;
    for (char *block = first; block != last; block += page->block_bytes)
        ((block_t *)block)->next = (block_t *)(block + page->block_bytes);
    ((block_t *)last)->next = NULL;
    page->carved += count;
    page->live += count;
    return (block_t *)first;
}

static page_t *page_new(size_t size_class) {
    size_t bytes = class_bytes(size_class), slices = class_slices(bytes);
    page_t *page = layout_take(slices);
    if (page == NULL) return NULL;
    page->free = NULL;
    page->live = page->bias = page->carved = 0;
    page->full = false;
    page->block_bytes = (uint32_t)bytes;
    page->capacity = (uint32_t)((slices << SLICE_SHIFT) / bytes);
    page->size_class = (uint32_t)size_class;
    page->owner = thread_token();
    return page;
}

HIDDEN NOINLINE void *sketch_malloc_slow(size_t bytes) {
    if (bytes > BLOCK_MOST) return NULL;
    if (heap_self == &heap_empty) heap_init();
    heap_t *heap = heap_self;
    size_t size_class =
        bytes <= SMALL_MOST ? class_small(bytes + (bytes == 0)) : class_medium(bytes);
    page_t *page = heap->current[size_class];
    block_t *list = page != NULL ? page_blocks(page) : NULL;
    while (list == NULL) {
        if (page != NULL) page_fill_up(page);
        page = heap->partial[size_class];
        if (page != NULL) {
            partial_remove(heap, page);
        } else {
            page = page_new(size_class);
            if (page == NULL) return NULL;
        }
        heap->current[size_class] = page;
        list = page_blocks(page);
    }
    HEAD(heap, size_class) = list->next;
    return list;
}

HIDDEN NOINLINE void sketch_event(void *p, page_t *page) {
    (void)p;
    heap_t *heap = heap_self;
    if (page->full) {
        page->full = false;
        page->live = page->bias;
        page->bias = 0;
        partial_push(heap, page);
        if (page->live != 0) return;
    }
    if (page == heap->current[page->size_class]) return; /* empty, but next in line */
    partial_remove(heap, page);
    page->owner = OWNER_NOBODY;
    layout_give(page);
}

/* The second tier: a later slice of a longer page. */
HIDDEN NOINLINE void sketch_slow(void *p, page_t *page) {
    if (page->owner != OWNER_INNER) {
        sketch_foreign(p);
        return;
    }
    page = page->first;
    if (page->owner != thread_token()) {
        sketch_foreign(p);
        return;
    }
    block_t *block = p;
    block->next = page->free;
    page->free = block;
    if (count_down(&page->live)) sketch_event(p, page);
}

HIDDEN NOINLINE void sketch_foreign(void *p) {
    if (p != NULL) foreign_count++;
}

EXPORT void *sketch_malloc(size_t bytes) {
    heap_t *heap;
    size_t size_class;
    block_t *block;
    /* The pop is written twice, and heap_self read in both halves. With one read before the test,
     * gcc lets the halves share an end, and the jump back to it makes batches of 3000 B a third
     * slower for the same number of instructions. The empty asm says that block is what we return,
     * which gcc otherwise learns too late and copies it. */
    if (LIKELY(bytes <= SMALL_MOST)) {
        size_class = class_small(bytes);
        heap = heap_self;
        block = HEAD(heap, size_class);
        __asm__("" : "+a"(block));
        if (UNLIKELY(block == NULL)) return sketch_malloc_slow(bytes);
        HEAD(heap, size_class) = block->next;
        return block;
    }
    if (LIKELY(bytes <= BLOCK_MOST)) {
#if SKETCH_TABLE
        heap = heap_self;
        size_class = heap->class_of[(bytes + 127) >> 7];
#else
        size_class = class_medium(bytes);
        heap = heap_self;
#endif
        block = HEAD(heap, size_class);
        __asm__("" : "+a"(block));
        if (UNLIKELY(block == NULL)) return sketch_malloc_slow(bytes);
        HEAD(heap, size_class) = block->next;
        return block;
    }
    return sketch_malloc_slow(bytes);
}
