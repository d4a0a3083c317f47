/* sizes.cpp: operator delete and C23's sized frees are told another size, or are not those of the
 * allocation.
 *
 * Stopped: the process dies, at the latest in the work after. Where a library lacks free_sized,
 * free stands in.
 */
#include "misuse.h"
#include <new>

namespace {

struct Small {
    long word[1];
};
struct Row {
    long word[12];
};
struct Named { // its array has the number of objects in front of the first
    long word[3];
    ~Named() { word[0] = 0; }
};
struct Base {
    long word[2];
};
struct Derived : Base {
    long more[60];
};
struct alignas(256) Wide {
    long word[32];
};

// The same pointer, of unknown origin.
template <class T> T *hidden(T *p) { return reinterpret_cast<T *>(hide(p)); }

CASE(array_by_delete,
     "an array of ten objects from new[] is deleted by delete, as one of 8 bytes") {
    Small *p = new Small[10];
    expect(p);
    delete hidden(p);
    survived(80);
}

CASE(counted_array_by_delete,
     "the same where new[] keeps the number: delete gets a pointer inside") {
    Named *p = new Named[10];
    expect(p);
    delete hidden(p);
    survived(240);
}

CASE(derived_by_base, "an object of 496 bytes is deleted through its base of 16, without virtual") {
    Base *p = new Derived;
    expect(p);
    delete hidden(p);
    survived(496);
}

CASE(malloc_by_delete, "a block of 200 from malloc is deleted as an object of 8 bytes") {
    Small *p = reinterpret_cast<Small *>(block(200));
    expect(p);
    delete hidden(p);
    survived(200);
}

void deleted(size_t size, size_t said) {
    void *p = ::operator new(size);
    memset(p, 0x11, size);
    expect(p);
    ::operator delete(hidden(static_cast<char *>(p)), said);
    survived(size);
}

CASE(medium_size, "operator delete is told 1000 of a block of 3000") { deleted(MEDIUM, 1000); }
CASE(large_size, "operator delete is told 2 MiB of a block of 1 MiB") { deleted(LARGE, 2 * LARGE); }

CASE(aligned_by_plain,
     "an object aligned to 256 is deleted by the delete for unaligned ones, as 8 bytes") {
    auto *p = reinterpret_cast<Small *>(new Wide);
    expect(p);
    delete hidden(p);
    survived(256);
}

CASE(aligned_size, "operator delete with alignment is told 4096 of an object of 256") {
    Wide *p = new Wide;
    expect(p);
    ::operator delete(hidden(reinterpret_cast<char *>(p)), 4096, std::align_val_t(256));
    survived(256);
}

CASE(plain_by_aligned, "an object of 96 bytes is deleted as one that was aligned to 4096") {
    char *first = reinterpret_cast<char *>(new Row);
    char *p = reinterpret_cast<char *>(new Row);
    p = reinterpret_cast<uintptr_t>(p) % 4096 == 0 ? first : p;
    expect(p);
    ::operator delete(hidden(p), sizeof(Row), std::align_val_t(4096));
    survived(96);
}

CASE(deleted_twice, "an object is deleted twice") {
    Row *p = new Row;
    expect(p);
    delete p;
    delete hidden(p);
    survived(96);
}

CASE(free_sized_small, "free_sized is told 8 of a block of 200") {
    char *p = block(200);
    expect(p);
    free_of_size(hide(p), 8);
    survived(200);
}

} // namespace
