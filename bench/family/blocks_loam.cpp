// blocks_loam.cpp: loam's rows in the table `blocks`: loam/blocks.h over its pages.
//
// `loam` is an instance of one thread, `loam-threads` one with a cache for each thread, both with
// the default classes; `loam-fitted` has classes of exactly the sizes that are asked for, so that
// the last line of a block is the first of the next; `loam-fixed` is a heap pool: its memory is
// there before the first run, and the owner of a block is looked up out of line.
#include "blocks_work.hpp"

#include <loam/blocks.h>

#include <string_view>

namespace {

// The sizes of the columns themselves, as loam_blocks_fit finds them.
constexpr uint32_t fitted_classes[] = {112, 2000, 4000};

template <unsigned flags, bool fitted = false> class Blocks {
  public:
    explicit Blocks(const FamilyRequest &asked) {
        loam_blocks_options options{};
        options.flags = flags;
        if (fitted) {
            options.classes = fitted_classes;
            options.class_count = sizeof fitted_classes / sizeof *fitted_classes;
        }
        if (flags & LOAM_FIXED) {
            bool benchmark = std::string_view(asked.column->name) == "benchmark";
            options.blocks_each = benchmark ? static_cast<uint32_t>(asked.n) : 100;
        }
        if (loam_blocks_init(&blocks_, &options) != 0) family_fail("no memory for the blocks");
    }
    ~Blocks() { loam_blocks_deinit(&blocks_); }
    Blocks(const Blocks &) = delete;
    Blocks &operator=(const Blocks &) = delete;

    void *alloc(std::size_t size) { return loam_blocks_alloc(&blocks_, size); }
    void free(void *block, std::size_t) { loam_blocks_free(&blocks_, block); }

  private:
    loam_blocks blocks_;
};

using Fitted = Blocks<0, true>;

} // namespace

FAMILY_ROW(loam_row, "loam", LOAM_VERSION_TEXT, "blocks of one thread", FAMILY_LOAM,
           blocks_work::cells_of_one_thread<Blocks<0>>)
FAMILY_ROW(loam_fitted_row, "loam-fitted", LOAM_VERSION_TEXT,
           "blocks of one thread, classes fitted to the column", FAMILY_LOAM,
           blocks_work::cells_of_one_thread<Fitted>)
FAMILY_ROW(loam_threads_row, "loam-threads", LOAM_VERSION_TEXT, "blocks with a cache per thread",
           FAMILY_LOAM, blocks_work::cells<Blocks<LOAM_THREADS>>)
FAMILY_ROW(loam_fixed_row, "loam-fixed", LOAM_VERSION_TEXT, "a heap pool of blocks", FAMILY_LOAM,
           blocks_work::cells_of_one_thread<Blocks<LOAM_FIXED>>)
