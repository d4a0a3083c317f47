// region_rust.c: table 000's rows of two Rust crates, bumpalo and typed-arena. Their loops are in
// rust/src/lib.rs, built by cargo into region_rust.so beside this program. Where cargo, or the
// crates, could not be had the library is not there, and the rows say so.

#include "region.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// As in rust/Cargo.toml.
#define BUMPALO_VERSION "3.20.3"
#define TYPED_ARENA_VERSION "2.0.2"

static void *function(const char *name) {
    static void *library;
    if (!library) {
        char path[PATH_MAX];
        ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
        if (length < 0) {
            family_fail("/proc/self/exe cannot be read");
        }
        path[length] = 0;
        char *slash = strrchr(path, '/');
        snprintf(slash + 1, sizeof path - (size_t)(slash + 1 - path), "region_rust.so");
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            fprintf(stderr,
                    "family: the Rust arenas are not built: that needs cargo and crates.io\n");
            exit(77);
        }
    }
    void *found = dlsym(library, name);
    if (!found) {
        family_fail("region_rust.so has no %s", name);
    }
    return found;
}

// A function's address out of dlsym's object pointer, as POSIX has it.
#define FUNCTION(place, name) (*(void **)&(place) = function(name))

static void bulk(const FamilyRequest *asked, const char *crate, const char *use, size_t size) {
    char name[64];
    RegionBulk loops = {.size = size};
    snprintf(name, sizeof name, "%s_create", crate);
    FUNCTION(loops.create, name);
    snprintf(name, sizeof name, "%s_%s", crate, use);
    FUNCTION(loops.use, name);
    snprintf(name, sizeof name, "%s_destroy", crate);
    FUNCTION(loops.destroy, name);
    region_bulk(asked, &loops);
}

static void create_destroy(const FamilyRequest *asked, const char *name) {
    void (*use)(uint64_t pools);
    FUNCTION(use, name);
    uint64_t pools = asked->n / REGION_IN_POOL;
    FamilyClock clock = family_start();
    use(pools);
    family_stop(&clock, "use", pools * REGION_IN_POOL);
}

static void bump_small(const FamilyRequest *asked) {
    bulk(asked, "bumpalo", "small", REGION_SMALL);
}
static void bump_big(const FamilyRequest *asked) { bulk(asked, "bumpalo", "big", REGION_BIG); }
static void bump_mix(const FamilyRequest *asked) { bulk(asked, "bumpalo", "mix", 0); }
static void bump_pools(const FamilyRequest *asked) {
    create_destroy(asked, "bumpalo_create_destroy");
}

static const FamilyCell bump_cells[] = {
    {"small", bump_small},          {"big", bump_big}, {"mix", bump_mix},
    {"mix-free", bump_mix}, // it frees nothing singly
    {"create-destroy", bump_pools}, FAMILY_END,
};
FAMILY_ROW(bump, "bumpalo", BUMPALO_VERSION, "Rust: bumpalo::Bump", FAMILY_RIVAL, bump_cells)

static void typed_small(const FamilyRequest *asked) {
    bulk(asked, "typed_arena", "use", REGION_SMALL);
}
static void typed_big(const FamilyRequest *asked) { bulk(asked, "typed_arena", "use", REGION_BIG); }
static void typed_pools(const FamilyRequest *asked) {
    create_destroy(asked, "typed_arena_create_destroy");
}

static const FamilyCell typed_cells[] = {
    {"small", typed_small},
    {"big", typed_big},
    {"create-destroy", typed_pools},
    FAMILY_END,
};
FAMILY_ROW(typed, "typed-arena", TYPED_ARENA_VERSION, "Rust: typed_arena::Arena", FAMILY_RIVAL,
           typed_cells)
