/* model.c: random programs on a region, compared with a plain record of the objects and their
 * contents.
 *
 * Each object is full of a pattern that differs from others. The model sees objects that overlap,
 * that moved without their bytes, or that ended too early. If the source refuses, NULL is a valid
 * answer, and older objects stay. */
#include "module.h"

#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

enum { OBJECTS = 96, DEPTH = 4, STEPS = 6000, MOST_BYTES = 80 * 1024 };

struct object {
    /* The object, or NULL. */
    u8 *p;
    size_t bytes, align;
    /* Number of marks when it was allocated. */
    unsigned born;
    u8 pattern;
};

struct model {
    loam_region region;
    struct object object[OBJECTS];
    loam_region_mark mark[DEPTH];
    unsigned marks;
    /* Number of cleanups added while so many marks were set. */
    unsigned cleanups_due[DEPTH + 1];
    unsigned cleaned;
    u32 state;
    bool checked;
};

u32 lm_random(u32 *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Returns a random number below `most`. */
static u32 below(struct model *model, u32 most) { return lm_random(&model->state) % most; }

static size_t random_bytes(struct model *model) {
    switch (below(model, 32)) {
    case 0: return below(model, MOST_BYTES);
    case 1:
    case 2:
    case 3: return below(model, 6000);
    case 4: return 0;
    default: return below(model, 300);
    }
}

/* Writes the object's pattern from byte `from` on. */
static void fill(struct object *object, size_t from) {
    for (size_t i = from; i < object->bytes; i++) object->p[i] = (u8)(object->pattern + i * 7);
}

/* Returns whether the object's first bytes hold its pattern. */
static bool intact(const struct object *object, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        if (object->p[i] != (u8)(object->pattern + i * 7)) return false;
    return true;
}

/* Checks all objects and the region. */
static void look(struct model *model) {
    bool good = true;
    for (unsigned i = 0; i < OBJECTS; i++) {
        const struct object *object = &model->object[i];
        if (object->p == NULL) continue;
        good = good && intact(object, object->bytes);
        if (object->bytes > 0) LM_EXPECT(loam_region_contains(&model->region, object->p));
    }
    LM_EXPECT(good);
    LM_EXPECT(loam_region_check(&model->region));
}

static void take(struct model *model, struct object *object) {
    size_t bytes = random_bytes(model), align = below(model, 4) ? 16 : (size_t)1 << below(model, 9);
    u8 *p = loam_region_alloc_aligned(&model->region, bytes, align);
    if (p == NULL) return;
    LM_EXPECT((unsigned long)p % align == 0);
    *object = (struct object){p, bytes, align, model->marks, (u8)lm_random(&model->state)};
    fill(object, 0);
}

static void give(struct model *model, struct object *object) {
    loam_region_free_aligned(&model->region, object->p, object->bytes, object->align);
    object->p = NULL;
}

static void resize(struct model *model, struct object *object) {
    size_t old = object->bytes, bytes = random_bytes(model);
    u8 *p = loam_region_realloc_aligned(&model->region, object->p, old, bytes, object->align);
    if (p == NULL) {
        LM_EXPECT(intact(object, old));
        return;
    }
    LM_EXPECT((unsigned long)p % object->align == 0);
    if (p != object->p) object->born = model->marks;
    object->p = p;
    object->bytes = bytes;
    LM_EXPECT(intact(object, old < bytes ? old : bytes));
    fill(object, old < bytes ? old : bytes);
}

static void extend(struct model *model, struct object *object) {
    size_t old = object->bytes, bytes = random_bytes(model);
    if (object->align != 16) return;
    if (!loam_region_extend(&model->region, object->p, old, bytes)) return;
    object->bytes = bytes;
    LM_EXPECT(intact(object, old < bytes ? old : bytes));
    fill(object, old < bytes ? old : bytes);
}

static void clean(void *model) { ((struct model *)model)->cleaned++; }

static void add_cleanup(struct model *model) {
    if (loam_region_add_cleanup(&model->region, clean, model) != NULL)
        model->cleanups_due[model->marks]++;
}

/* Removes all objects newer than the first `marks` marks from the record, and expects that their
 * cleanups have run. before: number of cleanups that had run earlier. */
static void forget(struct model *model, unsigned marks, unsigned before) {
    unsigned due = 0;
    for (unsigned depth = marks; depth <= model->marks; depth++) {
        due += model->cleanups_due[depth];
        model->cleanups_due[depth] = 0;
    }
    LM_EXPECT(model->cleaned == before + due);
    for (unsigned i = 0; i < OBJECTS; i++)
        if (model->object[i].born >= marks) model->object[i].p = NULL;
}

static void rewind(struct model *model) {
    unsigned marks = model->marks, to = below(model, marks), before = model->cleaned;
    loam_region_rewind(&model->region, &model->mark[to]);
    forget(model, to + 1, before);
    model->marks = to;
}

static void keep(struct model *model) {
    unsigned marks = --model->marks;
    loam_region_keep(&model->region, &model->mark[marks]);
    for (unsigned i = 0; i < OBJECTS; i++)
        if (model->object[i].born > marks) model->object[i].born = marks;
    model->cleanups_due[marks] += model->cleanups_due[marks + 1];
    model->cleanups_due[marks + 1] = 0;
}

static void reset(struct model *model) {
    unsigned before = model->cleaned;
    loam_region_reset(&model->region);
    forget(model, 0, before);
    model->marks = 0;
}

/* One random step. */
static void step(struct model *model) {
    struct object *object = &model->object[below(model, OBJECTS)];
    u32 what = below(model, 256);
    if (what == 0) {
        reset(model);
    } else if (what == 1) {
        loam_region_trim(&model->region);
    } else if (what < 6) {
        if (model->marks < DEPTH) {
            model->mark[model->marks] = loam_region_mark_here(&model->region);
            model->marks++;
        }
    } else if (what < 9) {
        if (model->marks > 0) rewind(model);
    } else if (what < 11) {
        if (model->marks > 0) keep(model);
    } else if (what < 16) {
        add_cleanup(model);
    } else if (object->p == NULL) {
        take(model, object);
    } else if (what < 100) {
        resize(model, object);
    } else if (what < 140) {
        extend(model, object);
    } else {
        give(model, object);
    }
}

/* Overwrites a byte of an object: the fault LM_BREAK_OBJECT. */
static void damage(struct model *model) {
    for (unsigned i = 0; i < OBJECTS; i++) {
        struct object *object = &model->object[i];
        if (object->p == NULL || object->bytes == 0) continue;
        object->p[object->bytes / 2] ^= 1;
        return;
    }
}

void lm_model_run(loam_source *source, const loam_region_options *options, u32 seed, bool broken) {
    struct model *model = kzalloc(sizeof(*model), GFP_KERNEL);
    LM_EXPECT(model != NULL);
    if (model == NULL) return;
    model->state = seed;
    LM_EXPECT(loam_region_init(&model->region, source, options) == 0);
    for (unsigned i = 1; i <= STEPS; i++) {
        step(model);
        if (i % 128 == 0) {
            look(model);
            cond_resched();
        }
    }
    if (broken) damage(model);
    look(model);
    unsigned before = model->cleaned;
    loam_region_deinit(&model->region);
    forget(model, 0, before);
    kfree(model);
}
