// align.cpp: the table `align` of seed 002: what does it cost to keep an alignment, by its form?
//
// The seed's stack first rounded addresses and sizes, by the alignment's logarithm; then addresses
// alone, by the power of two itself, which made its allocation code 9% faster. Rows are the ways:
//
//   log-both, log            shifts make the masks; address and size, or the address alone
//   full-both, full          the same by the power of two itself; `full` is the seed's choice
//   uniform                  no alignment is asked for: every size is rounded to 16
//   loam                     loam_stack, in which all this is one step of several; at-8 and int by
//                            its inline path, at-64 and at-mixed by the call behind it
//   limit                    nothing is rounded
//
//   function    an address rounded, moved on by 1 to 512 bytes and rounded again: the formula alone
//   at-8, at-64 blocks of 1 to 512 bytes, cut from memory that is there by a function that is
//               called, so that the alignment is a value and no constant
//   at-mixed    the same at 1 to 64, at random
//   int         4 bytes at multiples of 4: what is lost to alignment shows in `bytes`
//
// An operation is a block; `bytes` is what one takes, in cells.csv and printed with each cell.
// It says nothing about what unaligned accesses cost the program.
#include "family.h"

#include <cstddef>
#include <cstdint>
#include <loam/stack.h>

static const FamilyColumn columns[] = {
    {"function", "an address rounded again and again, at 1 to 64 at random", 40000000, 0},
    {"at-8", "blocks of 1 to 512 bytes at multiples of 8", 20000000, 0},
    {"at-64", "blocks of 1 to 512 bytes at multiples of 64", 20000000, 0},
    {"at-mixed", "blocks of 1 to 512 bytes at multiples of 1 to 64, at random", 20000000, 0},
    {"int", "blocks of 4 bytes at multiples of 4", 40000000, 0},
};
const FamilyTable family_table = {"002", "Alignment: by its logarithm or itself, of what", columns,
                                  sizeof columns / sizeof *columns};

namespace {

constexpr std::uint64_t request_count = 4096; // drawn before the clock runs
constexpr std::size_t size_most = 512, memory_bytes = 1 << 20;
constexpr std::uint64_t seed = 0x9E3779B97F4A7C15;

// ---- the ways --------------------------------------------------------------------------------

struct Log {
    static std::uintptr_t form(unsigned log) { return log; }
    static std::uintptr_t up(std::uintptr_t at, std::uintptr_t log) {
        std::uintptr_t below = (std::uintptr_t{1} << log) - 1, above = ~std::uintptr_t{0} << log;
        return (at + below) & above;
    }
};
struct Full {
    static std::uintptr_t form(unsigned log) { return std::uintptr_t{1} << log; }
    static std::uintptr_t up(std::uintptr_t at, std::uintptr_t align) {
        return (at + align - 1) & -align;
    }
};
struct None {
    static std::uintptr_t form(unsigned) { return 0; }
    static std::uintptr_t up(std::uintptr_t at, std::uintptr_t) { return at; }
};

template <class Form, bool of_sizes> struct Cut : Form {
    static std::size_t size_of(std::size_t size, std::uintptr_t form) {
        return of_sizes ? Form::up(size, form) : size;
    }
};
struct Uniform : None {
    static std::size_t size_of(std::size_t size, std::uintptr_t) { return Full::up(size, 16); }
};

// ---- the work --------------------------------------------------------------------------------

struct Request {
    std::uint32_t size;
    std::uint32_t form;
};

Request requests[request_count];

template <class Way> void draw(const FamilyRequest &asked) {
    std::uint64_t state = seed;
    const char *column = asked.column->name;
    bool ints = column[0] == 'i', at_8 = column[3] == '8', at_64 = column[3] == '6';
    for (Request &request : requests) {
        std::uint64_t drawn = family_random(&state) >> 32;
        request.size = ints ? 4 : static_cast<std::uint32_t>(1 + drawn % size_most);
        unsigned log = ints    ? 2
                       : at_8  ? 3
                       : at_64 ? 6
                               : static_cast<unsigned>(drawn / size_most % 7);
        request.form = static_cast<std::uint32_t>(Way::form(log));
    }
}

template <class Way> void function(const FamilyRequest *asked) {
    draw<Way>(*asked);
    std::uintptr_t at = 0;
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; i < asked->n; i++) {
        const Request &request = requests[i % request_count];
        at = Way::up(at, request.form) + Way::size_of(request.size, request.form);
    }
    family_consume(reinterpret_cast<const void *>(at));
    family_also("bytes", static_cast<double>(at) / static_cast<double>(asked->n));
    family_stop(&clock, "use", asked->n);
}

struct Memory {
    std::uintptr_t at, end;
};

// The fast path of such a stack: the address, the end, one comparison. NULL: the memory is full.
template <class Way>
[[gnu::noinline]] void *cut(Memory *memory, std::size_t size, std::uintptr_t form) {
    std::uintptr_t block = Way::up(memory->at, form), end = block + Way::size_of(size, form);
    if (__builtin_expect(end > memory->end, 0)) return nullptr;
    memory->at = end;
    return reinterpret_cast<void *>(block);
}

template <class Way> void blocks(const FamilyRequest *asked) {
    draw<Way>(*asked);
    void *start = family_table_of(memory_bytes, 1);
    const auto first = reinterpret_cast<std::uintptr_t>(start);
    Memory memory = {first, first + memory_bytes};
    std::uint64_t bytes = 0;
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; i < asked->n; i++) {
        const Request &request = requests[i % request_count];
        void *block = cut<Way>(&memory, request.size, request.form);
        if (__builtin_expect(!block, 0)) { // from the start again
            bytes += memory.at - first;
            memory.at = first;
            block = family_need(cut<Way>(&memory, request.size, request.form));
        }
        *static_cast<unsigned char *>(block) = 1;
    }
    bytes += memory.at - first;
    family_also("bytes", static_cast<double>(bytes) / static_cast<double>(asked->n));
    family_stop(&clock, "use", asked->n);
}

// ---- loam ------------------------------------------------------------------------------------

// Its inline path is for alignments of at most 16 that the compiler knows, as that of a type is:
// known, or 0: the request's.
template <std::size_t known>
[[gnu::noinline]] void *loam_cut(loam_stack *stack, std::size_t size, std::size_t align) {
    return loam_stack_alloc_aligned(stack, size, known ? known : align);
}

template <std::size_t known> void loam_blocks(const FamilyRequest *asked) {
    draw<Full>(*asked);
    loam_stack stack;
    if (loam_stack_init(&stack, loam_pages(), nullptr) != 0) family_fail("no stack");
    // The first frame's memory is asked for here; the frames below begin where it is now.
    loam_stack_frame base = loam_stack_push(&stack);
    family_need(loam_cut<0>(&stack, 1, 1));
    const std::uint64_t a_frame = asked->column->name[0] == 'i' ? 8000 : 100;
    std::uint64_t bytes = 0, left = asked->n;
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; left > 0;) {
        loam_stack_frame frame = loam_stack_push(&stack);
        std::uintptr_t begin = 0, end = 0;
        for (std::uint64_t k = 0; k < a_frame && left > 0; k++, i++, left--) {
            const Request &request = requests[i % request_count];
            void *block = family_need(loam_cut<known>(&stack, request.size, request.form));
            *static_cast<unsigned char *>(block) = 1;
            end = reinterpret_cast<std::uintptr_t>(block) + request.size;
            if (k == 0) begin = reinterpret_cast<std::uintptr_t>(block);
        }
        bytes += end > begin ? end - begin : 0;
        loam_stack_pop(&stack, frame);
    }
    family_also("bytes", static_cast<double>(bytes) / static_cast<double>(asked->n));
    family_stop(&clock, "use", asked->n);
    loam_stack_pop(&stack, base);
    loam_stack_deinit(&stack);
}

template <class Way>
constexpr FamilyCell cells[] = {{"function", function<Way>}, {"at-8", blocks<Way>},
                                {"at-64", blocks<Way>},      {"at-mixed", blocks<Way>},
                                {"int", blocks<Way>},        {nullptr, nullptr}};
// Without an alignment: the columns that ask for none, or one that it keeps.
constexpr FamilyCell uniform_cells[] = {
    {"at-8", blocks<Uniform>}, {"int", blocks<Uniform>}, {nullptr, nullptr}};
constexpr FamilyCell loam_cells[] = {{"at-8", loam_blocks<8>},
                                     {"at-64", loam_blocks<0>},
                                     {"at-mixed", loam_blocks<0>},
                                     {"int", loam_blocks<4>},
                                     {nullptr, nullptr}};

using Log_both = Cut<Log, true>;
using Log_alone = Cut<Log, false>;
using Full_both = Cut<Full, true>;
using Full_alone = Cut<Full, false>;
using Limit = Cut<None, false>;

} // namespace

FAMILY_ROW(log_both_row, "log-both", "as published", "by logarithm, address and size",
           FAMILY_RENDITION, cells<Log_both>)
FAMILY_ROW(log_row, "log", "as published", "by logarithm, the address alone", FAMILY_RENDITION,
           cells<Log_alone>)
FAMILY_ROW(full_both_row, "full-both", "as published", "by the power of two, address and size",
           FAMILY_RENDITION, cells<Full_both>)
FAMILY_ROW(full_row, "full", "as published", "by the power of two, the address alone",
           FAMILY_RENDITION, cells<Full_alone>)
FAMILY_ROW(uniform_row, "uniform", "as published", "every size rounded to 16, no address",
           FAMILY_RENDITION, uniform_cells)
FAMILY_ROW(loam_row, "loam", LOAM_VERSION_TEXT, "loam_stack, by the power of two", FAMILY_LOAM,
           loam_cells)
FAMILY_ROW(limit_row, "limit", "-", "nothing is rounded: the loop and the call", FAMILY_LIMIT,
           cells<Limit>)
