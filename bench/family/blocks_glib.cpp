// blocks_glib.cpp: GLib's slice allocator in the table `blocks`.
//
// Its slices end at about 1 KiB: the blocks of `benchmark` come from g_malloc behind it. What it
// can do is in `pair`.
#include "blocks_work.hpp"

#include <glib.h>

struct Slices {
    explicit Slices(const FamilyRequest &) {}
    void *alloc(std::size_t size) { return g_slice_alloc(size); }
    void free(void *block, std::size_t size) { g_slice_free1(size, block); }
};

FAMILY_ROW(slice_row, "glib-slice", FAMILY_VERSION,
           "g_slice_alloc and g_slice_free1; malloc above 1 KiB", FAMILY_RIVAL,
           blocks_work::cells<Slices>)
