/* program.c: blocks of every kind for gdb_test.py to look at: each is a variable, named after what
 * gdb has to say. */
#include <loam/loam.h>

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

_Alignas(65536) static char memory[8 << 16]; /* of the user's, for an arena of its own */
void *in_range, *large_in_range, *free_in_range = memory + (7 << 16);
void *in_use, *at_offset, *offset_freed, *large_at_offset, *large_freed, *sampled, *sampled_freed,
    *freed, *freed_elsewhere, *never_used, *large, *own, *theirs, *of_heap, *large_of_heap;
loam_heap *heap;
void *many[100];
int on_stack;

const char *loam_config = "guard_sampling_slots=4";

__attribute__((noinline)) void stop_here(void) { __asm__ volatile("" ::: "memory"); }

static pthread_barrier_t barrier;

static void *other(void *context) {
    (void)context;
    theirs = loam_malloc(3000);
    for (int i = 0; i < 60; i++) loam_free(many[i]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    loam_free(theirs);
    return NULL;
}

int main(void) {
    loam_worker_allow(0); /* or it may give back what gdb is to see */
    in_use = loam_malloc(100);
    freed = loam_malloc(100);
    void *last = loam_malloc(20000);
    never_used = (char *)last + 8 * 20480;
    large = loam_malloc(300000);
    heap = loam_heap_create();
    of_heap = loam_heap_malloc(heap, 20);
    large_of_heap = loam_heap_malloc(heap, 100000);
    loam_arena *arena;
    if (loam_manage_memory(memory, sizeof memory, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &arena) != 0)
        return 1;
    loam_heap *other_heap = loam_heap_create_in(arena, false);
    in_range = loam_heap_malloc(other_heap, 200);
    large_in_range = loam_heap_malloc(other_heap, 100000);
    for (int i = 0; i < 100; i++) many[i] = loam_malloc(500);
    freed_elsewhere = many[7];
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_t thread;
    if (pthread_create(&thread, NULL, other, NULL) != 0) return 1;
    pthread_barrier_wait(&barrier);
    loam_free(freed);
    at_offset = loam_malloc_aligned_offset(700, 64, 8);
    offset_freed = loam_malloc_aligned_offset(700, 64, 8);
    large_at_offset = loam_malloc_aligned_offset(100000, 64, 8);
    large_freed = loam_malloc(90000);
    loam_sampling_set(1);
    sampled = loam_malloc(800);
    sampled_freed = loam_malloc(801);
    loam_free(sampled_freed);
    loam_sampling_set(0);
    loam_free(offset_freed);
    loam_free(large_freed);
    stop_here();
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    loam_heap_destroy(heap);
    loam_heap_destroy(other_heap);
    loam_free(in_use);
    loam_free(at_offset);
    loam_free(large_at_offset);
    loam_free(sampled);
    loam_free(last);
    loam_free(large);
    for (int i = 60; i < 100; i++) loam_free(many[i]);
    return 0;
}
