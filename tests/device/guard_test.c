/* guard_test.c: objects of checked allocators, and the list of named and checked ones. */
#include "harness.h"

#include "family/family.h"
#include "loam/port.h"

static void thing_usage(const loam_entry *entry, loam_usage *usage) {
    (void)entry;
    usage->held_bytes = 1024;
    usage->used_bytes = 100;
    usage->peak_bytes = 2048;
    usage->chunks = 1;
    usage->requests = 3;
    usage->objects = 2;
}
static bool thing_check(const loam_entry *entry) { return lm_guard_check(entry); }
static const loam_kind thing_kind = {"thing", thing_usage, thing_check, NULL};

static _Alignas(16) char raw[512];
static loam_entry thing;

/* A live object of `bytes` bytes of a checked thing called "t"; line 11 of "a.c". */
static char *object_of(size_t bytes, size_t align) {
    lm_entry_init(&thing, &thing_kind, "t", true);
    size_t whole = lm_guard_whole(bytes, align);
    CHECK(whole != 0 && whole <= sizeof(raw));
    char *object = lm_guard_open(&thing, raw, whole, bytes, align, "a.c", 11);
    CHECK_EQUAL((uintptr_t)object % (align < 16 ? 16 : align), 0);
    return object;
}

static void free_it(loam_entry *owner, void *object) {
    loam_tag *tag = lm_guard_find(owner, object, "free", "b.c", 22);
    if (tag != NULL) lm_guard_close(owner, tag, "b.c", 22);
}

TEST(object_lives_and_dies) {
    char *object = object_of(10, 8);
    for (int i = 0; i < 10; i++) object[i] = 1;
    CHECK(lm_guard_check(&thing));
    CHECK_EQUAL(loam_registry_leaks(), 1);
    CHECK_EQUAL(device_said_times("loam: thing t: leak of 10 bytes at "), 1);
    CHECK_EQUAL(device_said_times("allocated at a.c:11\n"), 1);
    free_it(&thing, object);
    CHECK_EQUAL(loam_registry_leaks(), 0);
    lm_entry_deinit(&thing);
}

TEST(overflow_is_found_at_free) {
    char *object = object_of(10, 8);
    object[10] = 0;
    CHECK_ABORTS(free_it(&thing, object),
                 "byte 11 of 10 written, allocated at a.c:11 (at b.c:22, thread 7)");
    lm_entry_deinit(&thing);
}

TEST(underflow_is_found_at_free) {
    char *object = object_of(10, 8);
    object[-1] = 0;
    CHECK_ABORTS(free_it(&thing, object), "1 byte(s) before it written");
    lm_entry_deinit(&thing);
}

TEST(double_free_is_found) {
    char *object = object_of(10, 8);
    free_it(&thing, object);
    CHECK_ABORTS(free_it(&thing, object), "after its free at b.c:22, allocated at a.c:11");
    lm_entry_deinit(&thing);
}

TEST(free_by_another_owner_is_found) {
    char *object = object_of(10, 8);
    loam_entry other;
    lm_entry_init(&other, &thing_kind, "u", true);
    CHECK_ABORTS(free_it(&other, object), "loam: thing u: free of ");
    CHECK_EQUAL(device_said_times("which belongs to thing t"), 1);
    lm_entry_deinit(&other);
    lm_entry_deinit(&thing);
}

TEST(foreign_pointers_are_found) {
    char *object = object_of(200, 8);
    CHECK_ABORTS(free_it(&thing, object + 160), "which is no object of it");
    CHECK_ABORTS(free_it(&thing, object + 1), "which is no object of it");
    CHECK_ABORTS(free_it(&thing, (void *)16), "which is no object of it");
    lm_entry_deinit(&thing);
}

TEST(write_after_free_is_found) {
    char *object = object_of(10, 8);
    free_it(&thing, object);
    const loam_tag *tag = (const loam_tag *)(const void *)object - 1;
    CHECK(lm_guard_check_freed(&thing, tag));
    object[3] = 0;
    CHECK_ABORTS((void)lm_guard_check_freed(&thing, tag), "byte 4 of ");
    lm_entry_deinit(&thing);
}

TEST(check_of_all_finds_what_is_broken) {
    char *object = object_of(10, 8);
    CHECK_EQUAL(loam_registry_check(), 0);
    object[12] = 0;
    CHECK_ABORTS((void)loam_registry_check(), "overflow of ");
    loam_port_ignore_mistakes(true);
    CHECK_EQUAL(loam_registry_check(), 1);
    loam_port_ignore_mistakes(false);
    lm_entry_deinit(&thing);
}

TEST(sizes_that_cannot_be_guarded) {
    CHECK_EQUAL(lm_guard_whole(PTRDIFF_MAX, 8), 0);
    CHECK_EQUAL(lm_guard_whole(SIZE_MAX, 8), 0);
    CHECK(lm_guard_whole(0, 1) >= sizeof(loam_tag) + LM_GUARD_BYTES);
    for (size_t align = 1; align <= 128; align *= 2) {
        CHECK_EQUAL(lm_guard_head(align) % (align < 16 ? 16 : align), 0);
        CHECK_EQUAL(lm_guard_whole(33, align) % 16, 0);
    }
}

static unsigned visited;
static void visit(const loam_usage *usage, void *context) {
    visited++;
    CHECK(context == &visited);
    CHECK_EQUAL(usage->held_bytes, 1024);
}

TEST(list_holds_the_named_and_the_checked) {
    loam_entry named, checked, neither;
    lm_entry_init(&named, &thing_kind, "one", false);
    lm_entry_init(&checked, &thing_kind, NULL, true);
    lm_entry_init(&neither, &thing_kind, NULL, false);
    visited = 0;
    loam_registry_visit(visit, &visited);
    CHECK_EQUAL(visited, 2);
    loam_registry_print();
    CHECK_EQUAL(
        device_said_times("loam: thing one: 2 objects, 100 of 1024 bytes used, 2048 at most, "
                          "1 chunks, 3 requests\n"),
        1);
    CHECK_EQUAL(device_said_times("loam: thing -: "), 1);
    lm_entry_deinit(&checked);
    lm_entry_deinit(&neither);
    lm_entry_deinit(&named);
    visited = 0;
    loam_registry_visit(visit, &visited);
    CHECK_EQUAL(visited, 0);
}
