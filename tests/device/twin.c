/* twin.c: see twin.h. What is alive stands in an array; every look at it is a walk. */
#include "twin.h"

enum { SLOTS = 48, CHECK_EVERY = 64 };

struct slot {
    unsigned char *p;
    size_t bytes, align;
    unsigned char fill;
};

static struct slot slots[SLOTS];

static bool overlaps(const struct slot *slot) {
    for (int i = 0; i < SLOTS; i++) {
        const struct slot *other = &slots[i];
        if (other != slot && other->p != NULL && slot->p < other->p + other->bytes &&
            other->p < slot->p + slot->bytes)
            return true;
    }
    return false;
}

static bool unchanged(const struct slot *slot) {
    for (size_t i = 0; i < slot->bytes; i++) {
        if (slot->p[i] != slot->fill) return false;
    }
    return true;
}

static void give_back(const struct twin_subject *kind, void *subject, struct slot *slot) {
    CHECK(unchanged(slot));
    kind->free(subject, slot->p, slot->bytes, slot->align);
    slot->p = NULL;
}

struct twin_result twin_run(const struct twin_subject *kind, void *subject, uint32_t seed,
                            unsigned steps) {
    struct twin_result result = {0, 0};
    for (unsigned step = 0; step < steps; step++) {
        struct slot *slot = &slots[device_random(&seed, SLOTS)];
        if (slot->p != NULL) {
            give_back(kind, subject, slot);
        } else {
            uint32_t range = (uint32_t)(kind->most_bytes - kind->least_bytes + 1);
            size_t align = 1;
            while (align < kind->most_align && device_random(&seed, 2) == 0) align *= 2;
            *slot = (struct slot){
                .bytes = kind->least_bytes + device_random(&seed, range),
                .align = align,
                .fill = (unsigned char)(step + 1),
            };
            slot->p = kind->alloc(subject, slot->bytes, align);
            if (slot->p == NULL) {
                result.refused++;
                continue;
            }
            result.served++;
            CHECK_EQUAL((uintptr_t)slot->p % align, 0);
            CHECK(!overlaps(slot));
            for (size_t i = 0; i < slot->bytes; i++) slot->p[i] = slot->fill;
        }
        if (step % CHECK_EVERY == 0) CHECK(kind->check(subject));
    }
    for (int i = 0; i < SLOTS; i++) {
        if (slots[i].p != NULL) give_back(kind, subject, &slots[i]);
    }
    CHECK(kind->check(subject));
    return result;
}
