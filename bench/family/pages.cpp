// pages.cpp: the table `pages` of seed 002: where does a pool get its pages from, by their size?
//
//   calloc, mmap               a ring of 8 pages, the oldest freed and a new one taken; nobody
//                              looks at the memory
//   calloc-touch, mmap-touch   the same, every 4 KiB of each page written once: what a pool that
//                              fills its pages pays in the end
//   fifo-calloc, fifo-mmap     seed 002's figure: the FIFO pool, new policy, 10,000 slots in turn,
//                              over pages of that size; an operation is a block
//
// calloc keeps what was freed below its threshold (128 KiB at first, up to 32 MiB as it learns) and
// clears it again; mmap gets fresh zero pages, with a fault for each 4 KiB. --huge madvise changes
// both. It says nothing about memory held.
#include "fifo_work.hpp"
#include "intersec_fifo.h"

#include <cstdlib>
#include <gnu/libc-version.h>
#include <sys/mman.h>

// Pages, chosen for about the same time; the benchmark's blocks are blocks_of_fifo for that many.
static const FamilyColumn columns[] = {
    {"4KiB", "pages of 4 KiB", 200000, 0},  {"16KiB", "pages of 16 KiB", 100000, 0},
    {"64KiB", "pages of 64 KiB", 40000, 0}, {"256KiB", "pages of 256 KiB", 8000, 0},
    {"1MiB", "pages of 1 MiB", 2000, 0},    {"4MiB", "pages of 4 MiB", 500, 0},
    {"16MiB", "pages of 16 MiB", 128, 0},
};
constexpr std::size_t sizes[] = {4 << 10, 16 << 10, 64 << 10, 256 << 10,
                                 1 << 20, 4 << 20,  16 << 20};
const FamilyTable family_table = {"002", "Pages: by calloc or by mmap, by their size", columns,
                                  sizeof columns / sizeof *columns};

namespace {

constexpr std::uint64_t blocks_of_fifo = 4000000;
constexpr std::size_t ring = 8, system_page = 4096;

std::size_t page_size(const FamilyRequest &asked) { return sizes[asked.column - columns]; }

struct Calloc {
    static void *get(std::size_t size) { return std::calloc(1, size); }
    static void put(void *page, std::size_t) { std::free(page); }
};

struct Mmap {
    static void *get(std::size_t size) {
        void *page =
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return page == MAP_FAILED ? nullptr : page;
    }
    static void put(void *page, std::size_t size) { munmap(page, size); }
};

template <class Source, bool touch> void pages(const FamilyRequest *asked) {
    const std::size_t size = page_size(*asked);
    unsigned char *pages[ring] = {};
    FamilyClock clock = family_start();
    for (std::uint64_t i = 0; i < asked->n; i++) {
        unsigned char *&page = pages[i % ring];
        if (page) Source::put(page, size);
        page = static_cast<unsigned char *>(family_need(Source::get(size)));
        if (touch) {
            for (std::size_t at = 0; at < size; at += system_page) page[at] = 1;
            if (page[size - 1]) family_fail("a page of %zu bytes was not zero", size);
        }
        family_consume(page);
    }
    family_stop(&clock, "use", asked->n);
    for (unsigned char *page : pages) {
        if (page) Source::put(page, size);
    }
}

template <fifo_source source> class Pool {
  public:
    explicit Pool(const FamilyRequest &asked) {
        if (!fifo_new_start(&pool_, page_size(asked), source)) family_fail("out of memory");
    }
    ~Pool() { fifo_stop(&pool_); }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;
    void *alloc(std::size_t size) { return fifo_new_alloc(&pool_, size); }
    void free(void *block, std::size_t) { fifo_new_free(&pool_, block); }

  private:
    fifo pool_;
};

template <fifo_source source> void benchmark(const FamilyRequest *asked) {
    FamilyRequest blocks = *asked;
    blocks.n = blocks_of_fifo * asked->n / asked->column->n + 1;
    fifo_work::slots<Pool<source>, fifo_work::In_turn>(&blocks);
}

template <void (*run)(const FamilyRequest *)>
constexpr FamilyCell cells[] = {{"4KiB", run}, {"16KiB", run}, {"64KiB", run}, {"256KiB", run},
                                {"1MiB", run}, {"4MiB", run},  {"16MiB", run}, {nullptr, nullptr}};

} // namespace

FAMILY_ROW(calloc_row, "calloc", gnu_get_libc_version(), "a page, not touched", FAMILY_RIVAL,
           (cells<pages<Calloc, false>>))
FAMILY_ROW(mmap_row, "mmap", "Linux", "a page, not touched", FAMILY_RIVAL,
           (cells<pages<Mmap, false>>))
FAMILY_ROW(calloc_touch_row, "calloc-touch", gnu_get_libc_version(), "a page, all of it touched",
           FAMILY_RIVAL, (cells<pages<Calloc, true>>))
FAMILY_ROW(mmap_touch_row, "mmap-touch", "Linux", "a page, all of it touched", FAMILY_RIVAL,
           (cells<pages<Mmap, true>>))
FAMILY_ROW(fifo_calloc_row, "fifo-calloc", "as published", "the FIFO pool over calloc, per block",
           FAMILY_RIVAL, cells<benchmark<FIFO_CALLOC>>)
FAMILY_ROW(fifo_mmap_row, "fifo-mmap", "as published", "the FIFO pool over mmap, per block",
           FAMILY_RIVAL, cells<benchmark<FIFO_MMAP>>)
