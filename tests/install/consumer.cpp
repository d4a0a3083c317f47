/* consumer.cpp: a program in C++ that uses an installed loam, exceptions included.
 *
 * As consumer.c, for operator new and delete: TAKES_OVER=1 where they have to be loam's.
 */
#include <loam/blocks.hpp>
#include <loam/loam.h>
#include <loam/pool.hpp>

#include <cstdint>
#include <cstdio>
#include <map>
#include <new>
#include <string>

int main() {
    std::map<std::string, std::string> words;
    for (int i = 0; i < 1000; i++) words[std::to_string(i)] = std::string(100, 'x');
    loam::pool_of<std::string> names;
    loam::blocks blocks;
    for (int i = 0; i < 1000; i++) {
        auto name = names.make("a name that is too long for the string itself");
        auto *copy = blocks.make<std::string>(*name);
        if (*copy != *name) return 1;
        blocks.destroy(copy);
        names.destroy(name);
    }
#if TAKES_OVER
    loam_free(::operator new(100));
    ::operator delete(loam_malloc(100));
    loam_free(::operator new(100, std::align_val_t(256)));
#endif
    volatile std::size_t too_much = PTRDIFF_MAX;
    try {
        ::operator delete(::operator new(too_much));
        std::puts("consumer: no exception from an impossible size");
        return 1;
    } catch (const std::bad_alloc &) {}
    std::printf("consumer: loam %d, operator new %s\n", loam_version(),
                TAKES_OVER ? "taken over" : "untouched");
    return 0;
}
