// fifo_glib.cpp: GLib's slice allocator in the table `fifo`. g_slice_alloc0 clears what it gives.
#include "fifo_work.hpp"

#include <glib.h>

struct Slices {
    explicit Slices(const FamilyRequest &) {}
    void *alloc(std::size_t size) { return g_slice_alloc0(size); }
    void free(void *block, std::size_t size) { g_slice_free1(size, block); }
};

FAMILY_ROW(slice_row, "glib-slice", FAMILY_VERSION, "g_slice_alloc0 and g_slice_free1: zeroed",
           FAMILY_RIVAL, fifo_work::cells<Slices>)
