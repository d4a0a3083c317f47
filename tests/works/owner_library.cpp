/*
 * owner_library.cpp - a library with an allocator of its own: operators new and delete that it
 * exports, and an operator new that it hides.
 *
 * With loam as malloc the exported operators are loam's, for the library too, and the hidden one is
 * not. So objects of the hidden kind reach loam's delete (see owner.cpp).
 */
#include <cstddef>
#include <cstdint>
#include <new>

namespace {

alignas(64) unsigned char own[1 << 20];
std::size_t used, given_back;

bool is_own(const void *p) {
    auto at = reinterpret_cast<std::uintptr_t>(p), start = reinterpret_cast<std::uintptr_t>(own);
    return at - start < sizeof own;
}

void *take(std::size_t bytes, std::size_t align) {
    std::size_t at = (used + align - 1) & ~(align - 1);
    if (bytes > sizeof own - at) return nullptr;
    used = at + bytes;
    return own + at;
}

void give(void *p) noexcept {
    if (is_own(p)) given_back++;
}

struct hidden { // its memory is the library's own
    char bytes[40];
};
struct alignas(64) hidden_aligned {
    char bytes[64];
};

} // namespace

__attribute__((visibility("default"))) void *operator new(std::size_t bytes) {
    return take(bytes, 16);
}
__attribute__((visibility("default"))) void operator delete(void *p) noexcept { give(p); }
__attribute__((visibility("default"))) void operator delete(void *p, std::size_t) noexcept {
    give(p);
}
__attribute__((visibility("default"))) void operator delete(void *p, std::align_val_t) noexcept {
    give(p);
}

/* Deletes `count` objects of each kind; returns how many came back to the library's allocator. */
extern "C" __attribute__((visibility("default"))) std::size_t owner_deletes(std::size_t count) {
    std::size_t before = given_back;
    for (std::size_t i = 0; i < count; i++) {
        void *plain = take(sizeof(hidden), 16);
        void *aligned = take(sizeof(hidden_aligned), 64);
        if (plain == nullptr || aligned == nullptr) return 0;
        delete new (plain) hidden();
        delete new (aligned) hidden_aligned();
        ::operator delete(take(10, 16));
        ::operator delete[](take(10, 16));
    }
    return given_back - before;
}

/* An object by the exported operator, which is loam's. */
extern "C" __attribute__((visibility("default"))) void *owner_new(std::size_t bytes) {
    return ::operator new(bytes);
}
