/*
 * statics_lib.cpp - the library half of statics.cpp: constructed before the program, destroyed
 * after it.
 */
#include "statics.h"

#include <list>
#include <string>

works_block *statics_lib_blocks[64];
works_block *statics_program_blocks[64];
int statics_report_fd = -1;

namespace {

struct LibraryState {
    std::list<std::string> names;
    LibraryState() {
        uint64_t seed = 11;
        for (auto &block : statics_lib_blocks)
            block = works_block_new(works_random_size(&seed), seed);
        for (size_t i = 0; i < 100; i++) names.emplace_back(i * 50, 'l');
    }
    ~LibraryState() {
        for (auto &name : names)
            CHECK(name.find_first_not_of('l') == std::string::npos,
                  "a string of the library changed");
        names.clear();
        works_exercise(3, 200);
    }
} state;

} // namespace

__attribute__((constructor)) static void begin(void) { works_exercise(1, 200); }

/* Runs after every destructor of the program and after ~LibraryState: the last user of malloc that
   a program can have. */
__attribute__((destructor)) static void end(void) {
    for (auto &block : statics_program_blocks)
        if (block) works_block_free(block);
    for (auto &block : statics_lib_blocks)
        if (block) works_block_free(block);
    works_exercise(2, 200);
    if (statics_report_fd >= 0) works_write(statics_report_fd, "end", 3);
}
