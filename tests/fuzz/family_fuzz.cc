/* family_fuzz.cc: bytes as a program of calls to an allocator of the family: fuzz_kind
 * (family_kind.cc) says which.
 *
 *   byte 0 even   a row of the contract suite (tests/contract): kind, source, checked or not; byte
 *                 1 chooses it
 *          odd    the kind's own program (tests/family/<kind>_program.h), with all that only that
 *                 kind can do
 *   the rest      the program's choices
 *
 * The oracles are those of the tests, which run the same programs by seeds.
 */
#include "fuzz.h"

#include "contract/program.h"
#include "family/fifo_program.h"
#include "family/pool_program.h"
#include "family/region_program.h"
#include "family/ring_program.h"
#include "family/stack_program.h"
#include "model/blocks_program.h"

extern const char *const fuzz_kind;

namespace {

constexpr int kSteps = 1500;

using model::Choices;

void run_row(Choices &choices) {
    static const std::vector<contract::Row> all = contract::rows(
        [](const contract::Row &row) { return std::string(row.kind->noun) == fuzz_kind; });
    const contract::Row &row = all[choices.below(all.size())];
    SCOPED_TRACE(contract::row_name(row));
    contract::Set set(row, nullptr);
    if (set.a == nullptr) ADD_FAILURE() << "not set up";
    contract::run_program(row, set, choices, kSteps);
}

/* A source that may end: in a buffer, below a limit, over pages or the heap. */
class Source {
  public:
    explicit Source(Choices &choices) {
        static char memory[200000];
        size_t kind = choices.below(4);
        memory_ = memory;
        if (kind == 0) {
            loam_buffer_init(&buffer_, memory, sizeof memory);
            inner_ = &buffer_.source;
        } else if (kind == 1) {
            loam_limit_init(&limit_, loam_pages(), 16384 * (1 + choices.below(16)));
            inner_ = &limit_.source;
        } else {
            inner_ = kind == 2 ? loam_pages() : loam_heap_source();
        }
        counted_ = std::make_unique<Counted>(inner_);
    }
    ~Source() {
        counted_.reset();
        if (inner_ == &buffer_.source) memset(memory_, 0, 200000); /* tools show it again */
    }
    loam_source *get() { return &counted_->source; }

  private:
    char *memory_;
    loam_buffer buffer_;
    loam_limit limit_;
    loam_source *inner_;
    std::unique_ptr<Counted> counted_;
};

unsigned checked(Choices &choices) { return choices.below(2) != 0 ? LOAM_CHECK : 0; }

void run_region(Choices &choices) {
    Source source(choices);
    loam_region_options options = {}, tfw = LOAM_REGION_TFW;
    size_t kind = choices.below(4);
    if (kind == 1) options = tfw;
    if (kind == 2) options.first_bytes = 1024, options.most_bytes = 20000;
    if (kind == 3) options.large_bytes = 1024, options.keep_bytes = 100000;
    options.flags = checked(choices);
    region_model::Program(source.get(), options, choices).run(kSteps);
}

void run_pool(Choices &choices) {
    static const unsigned flags[] = {0, LOAM_HARDEN, LOAM_POOL_HANDLES};
    static const size_t sizes[] = {1, 8, 24, 64, 100, 1024};
    Source source(choices);
    loam_pool_options options = {};
    options.flags = checked(choices) | flags[choices.below(3)];
    options.first_blocks = 1 + choices.below(20);
    options.align = choices.below(4) == 0 ? 64 : 0;
    options.most_chunk_bytes = choices.below(4) == 0 ? 8192 : 0;
    size_t bytes = sizes[choices.below(6)], refusals = 0;
    loam_pool pool;
    if (loam_pool_init(&pool, source.get(), bytes, &options) != 0) return;
    size_t align = options.align != 0 ? options.align : sizeof(void *);
    pool_model::run(&pool, bytes, align, choices, &refusals);
    loam_pool_deinit(&pool);
}

void run_blocks(Choices &choices) {
    blocks_model::Program program(choices);
    for (int i = 0; i < kSteps && !program.over(); i++) program.step();
}

void run_fifo(Choices &choices) {
    static const unsigned flags[] = {0, LOAM_FIFO_RAW, LOAM_FIFO_REMOTE};
    loam_fifo_options options = {};
    options.page_bytes = size_t{1024} << choices.below(7);
    options.spare_pages = choices.below(4);
    options.flags = checked(choices) | flags[choices.below(3)];
    size_t most = choices.below(2) == 0 ? SIZE_MAX : options.page_bytes * (4 + choices.below(16));
    fifo_model::Program(choices, options, most).run(kSteps);
}

void run_stack(Choices &choices) {
    Source source(choices);
    loam_stack_options options = with_block(size_t{512} << choices.below(8));
    options.flags = checked(choices);
    stack_model::Program(source.get(), options, choices).run(kSteps);
}

void run_ring(Choices &choices) {
    Source source(choices);
    size_t block = size_t{256} << choices.below(8);
    ring_model::Ring ring(source.get(), block, checked(choices));
    ring_model::run(ring, choices, kSteps);
}

const struct {
    const char *kind;
    void (*run)(Choices &choices);
} kPrograms[] = {{"region", run_region}, {"pool", run_pool},   {"blocks", run_blocks},
                 {"fifo", run_fifo},     {"stack", run_stack}, {"ring", run_ring}};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    fuzz::Abort::install();
    Choices choices(bytes, count);
    if (choices.below(2) == 0) {
        run_row(choices);
        return 0;
    }
    for (const auto &program : kPrograms) {
        if (strcmp(program.kind, fuzz_kind) == 0) program.run(choices);
    }
    return 0;
}
