// replaces.cpp: a program with operators new and delete of its own, linked to loam.
//
// The forms that it does not define are loam's, and have to call these (forms.cpp). Distributions'
// linker flags may bind libloam.so's references to its own functions; then the counts below stay 0.
#include <cstdio>
#include <cstdlib>
#include <new>

static int news, deletes;

void *operator new(std::size_t size) {
    news++;
    if (void *p = std::malloc(size)) return p;
    throw std::bad_alloc();
}
void operator delete(void *p) noexcept {
    deletes++;
    std::free(p);
}
void operator delete(void *p, std::size_t) noexcept { operator delete(p); }

int main() {
    void *array = ::operator new[](100);
    ::operator delete[](array);
    void *quiet = ::operator new(100, std::nothrow);
    ::operator delete(quiet, std::nothrow);
    if (news == 2 && deletes == 2) return 0;
    std::printf("replaces: %d of 2 news and %d of 2 deletes came to the program's own\n", news,
                deletes);
    return 1;
}
