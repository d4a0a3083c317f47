// region_protobuf.cpp: table 000's row of Protocol Buffers' arena. It frees nothing singly; its
// blocks double up to 8 KiB (its default).

#include "region.h"

#include <google/protobuf/arena.h>

namespace {

using google::protobuf::Arena;

void *protobuf_create(size_t, uint64_t) { return new Arena; }
inline void *protobuf_alloc(void *pool, size_t size) {
    return Arena::CreateArray<char>(static_cast<Arena *>(pool), size);
}
void protobuf_destroy(void *pool) { delete static_cast<Arena *>(pool); }

#define REGION protobuf
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_NONE
#include "region.h"
FAMILY_ROW(protobuf, "protobuf-arena", FAMILY_VERSION, "google::protobuf::Arena", FAMILY_RIVAL,
           protobuf_cells)

} // namespace
