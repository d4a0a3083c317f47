/* particles.c: a particle system on a fixed pool, and the same on malloc.
 *
 * Fountains throw particles up; gravity takes them down again, and each lives for as long as it was
 * given. All of them are on one list, which a step walks once: it moves the living and frees the
 * dead. How many there may be at once is decided at the start: the pool is a static array, and when
 * it is full a fountain pauses.
 *
 *   fountains ──> loam_pool_alloc ──> list ──> step ──> loam_pool_free
 *                 NULL: full          ^─────────┘
 *
 * Positions are whole numbers (1/256 of a pixel) and chance is a small generator, so that every run
 * does the same: the program compares what both ways come to, and prints what a step of each costs.
 */
#include "loam/pool.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    MOST = 20000, /* particles at once */
    FOUNTAINS = 8,
    EACH = 50,    /* that a fountain throws in a step */
    LONGEST = 90, /* steps that a particle lives, at most */
    STEPS = 600,
    ROUNDS = 3, /* the best is told */
    GRAVITY = 9,
};

/* ---- A particle ---- */

typedef struct particle {
    struct particle *next;
    int32_t x, y, vx, vy;
    uint32_t colour;
    uint16_t age, life;
} particle_t;

typedef struct random {
    uint64_t state;
} random_t;

static uint32_t random_below(random_t *random, uint32_t limit) {
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((random->state >> 33) % limit);
}

static void particle_begin(particle_t *particle, random_t *random, int fountain) {
    particle->x = (fountain * 100 + 50) * 256;
    particle->y = 0;
    particle->vx = (int32_t)random_below(random, 1024) - 512;
    particle->vy = (int32_t)random_below(random, 512) + 256;
    particle->colour = random_below(random, 1u << 24);
    particle->age = 0;
    particle->life = (uint16_t)(LONGEST / 3 + random_below(random, LONGEST * 2 / 3));
}

/* false iff its life is over. */
static bool particle_step(particle_t *particle) {
    particle->x += particle->vx;
    particle->y += particle->vy;
    particle->vy -= GRAVITY;
    if (particle->y < 0) { /* it bounces, and loses a quarter of its speed */
        particle->y = -particle->y;
        particle->vy = -particle->vy * 3 / 4;
    }
    return ++particle->age < particle->life;
}

/* ---- Where particles live ---- */

/* Room for as many as there may be at once. A checked build (LOAM_CHECK, or the library's debug
 * build) puts guards around each, and has room for fewer: fountains pause earlier then, and the
 * sums differ. */
static _Alignas(64) char memory[MOST * sizeof(particle_t)];
static loam_pool pool;

typedef struct heap {
    particle_t *(*alloc)(void);
    void (*free)(particle_t *particle);
} heap_t;

static particle_t *pool_alloc(void) { return (particle_t *)loam_pool_alloc(&pool); }
static void pool_free(particle_t *particle) { loam_pool_free(&pool, particle); }

/* malloc with the same limit. */
static size_t malloc_room, malloc_used;
static particle_t *malloc_alloc(void) {
    if (malloc_used == malloc_room) return NULL;
    particle_t *particle = (particle_t *)malloc(sizeof(particle_t));
    if (particle != NULL) malloc_used++;
    return particle;
}
static void malloc_free(particle_t *particle) {
    free(particle);
    malloc_used--;
}

/* ---- The system ---- */

typedef struct result {
    size_t born, refused, most;
    uint64_t sum; /* of all positions of all steps, in order */
    double step_ns;
} result_t;

typedef struct particles {
    heap_t heap;
    particle_t *first;
    size_t alive;
    random_t random;
} particles_t;

static void spawn(particles_t *all, result_t *result) {
    for (int fountain = 0; fountain < FOUNTAINS; fountain++) {
        for (int i = 0; i < EACH; i++) {
            particle_t *particle = all->heap.alloc();
            if (particle == NULL) {
                result->refused++;
                continue;
            }
            particle_begin(particle, &all->random, fountain);
            particle->next = all->first;
            all->first = particle;
            all->alive++;
            result->born++;
        }
    }
    if (all->alive > result->most) result->most = all->alive;
}

static void step(particles_t *all, result_t *result) {
    for (particle_t **link = &all->first, *particle; (particle = *link) != NULL;) {
        if (particle_step(particle)) {
            result->sum = result->sum * 31 + (uint32_t)(particle->x ^ particle->y);
            link = &particle->next;
        } else {
            *link = particle->next;
            all->heap.free(particle);
            all->alive--;
        }
    }
}

static double now_ns(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static result_t show(heap_t heap) {
    result_t result = {0};
    particles_t all = {.heap = heap, .random = {.state = 2012}};
    double begin = now_ns();
    for (int i = 0; i < STEPS; i++) {
        spawn(&all, &result);
        step(&all, &result);
    }
    result.step_ns = (now_ns() - begin) / STEPS;
    for (particle_t *particle = all.first, *next; particle != NULL; particle = next) {
        next = particle->next;
        heap.free(particle);
    }
    return result;
}

static result_t best_of(heap_t heap) {
    result_t best = show(heap);
    for (int round = 1; round < ROUNDS; round++) {
        result_t again = show(heap);
        if (again.sum != best.sum) best.sum = 0;
        if (again.step_ns < best.step_ns) best.step_ns = again.step_ns;
    }
    return best;
}

int main(void) {
    if (loam_pool_init_buffer(&pool, memory, sizeof memory, sizeof(particle_t), NULL) != 0)
        return 1;

    /* How many fit: all that it gives. A reset takes them back at once. */
    while (loam_pool_alloc(&pool) != NULL) malloc_room++;
    loam_pool_reset(&pool);

    result_t by_pool = best_of((heap_t){pool_alloc, pool_free});
    result_t by_malloc = best_of((heap_t){malloc_alloc, malloc_free});

    loam_usage usage;
    loam_pool_usage(&pool, &usage);
    printf("%zu particles of %zu bytes, %zu at most, %zu refused, %zu left\n", by_pool.born,
           sizeof(particle_t), by_pool.most, by_pool.refused, usage.objects);
    printf("a step: %.0f ns by the pool, %.0f ns by malloc\n", by_pool.step_ns, by_malloc.step_ns);
    if (by_pool.sum != by_malloc.sum || by_pool.sum == 0 || by_pool.born != by_malloc.born ||
        by_pool.most > malloc_room || usage.objects != 0 || !loam_pool_check(&pool)) {
        fprintf(stderr, "particles: the two do not agree\n");
        return 1;
    }
    loam_pool_deinit(&pool);
    return 0;
}
