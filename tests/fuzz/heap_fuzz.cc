/* heap_fuzz.cc: bytes as a program of calls to the heap, by up to four threads, against the twin of
 * tests/model.
 *
 *   byte 0      whether there may be a worker, whose ticks are the program's own, and whether
 *               threads count as many, and share the common heap
 *   each step   what [operands]: see step
 *
 * One object list for all: whoever's turn it is frees what anybody has allocated. Threads pass a
 * baton, so that one input is one interleaving. The operating system refuses on command
 * (os/faulty.h), and only then a call may fail. Now and then the statistics are held against the
 * twin's numbers.
 * After every program nothing may be left: every block is freed, threads end, and the heap says
 * that nothing is in use and gives all memory back.
 *
 * It cannot see races, and what a run finds may depend on what earlier runs have left of policy
 * (how soon a list is full, whether purges were regretted): the heap of a process is one.
 */
#include "fuzz.h"

#include "model/baton.h"
#include "model/choices.h"
#include "model/user.h"

extern "C" {
#include "os/faulty.h"
#include "survey/survey.h"
}

#include <loam/stats.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace {

using model::Free;

constexpr unsigned kThreads = 4; /* the first is the caller */
constexpr size_t kSteps = 1500, kLiveObjects = 4000, kLiveBytes = size_t{8} << 20,
                 kBulkBytes = size_t{1} << 20;

class Program {
  public:
    explicit Program(const model::Choices &choices) : choices_(choices), user_(twin_) {
        size_t mode = choices_.below(4);
        bool worker = (mode & 1) != 0;
        if ((mode & 2) != 0) lm_heaps_many = 1;
        lm_purge_allow(worker);
        if (worker) lm_purge_pause();
        paused_ = worker;
    }
    ~Program() {
        lm_faulty_clear();
        user_.may_be_refused = false;
        while (!user_.live().empty()) on_turn([this] { free(user_.live().size() - 1); });
        for (auto &thread : threads_) thread.reset();
        (void)loam_collect();
        for (int tick = 0; tick < 2; tick++)
            (void)lm_idle_collect(true); /* the second finds all at rest */
        (void)lm_purge_all();
        lm_span_check();
        lm_heap_check();
        lm_heap_stats_t stats;
        lm_heap_stats(&stats);
        lm_span_stats_t spans;
        lm_span_stats(&spans);
        if (stats.small_blocks != 0 || stats.large_blocks != 0 || spans.dirty_bytes != 0) {
            fuzz::expect("left at the end: " + std::to_string(stats.small_blocks) + " blocks, " +
                         std::to_string(stats.large_blocks) + " large objects, " +
                         std::to_string(spans.dirty_bytes) + " dirty bytes");
        }
        lm_heaps_many = many_;
        if (paused_) lm_purge_resume();
    }

    void run() {
        for (size_t i = 0; i < kSteps && !choices_.over(); i++) {
            if (i % 64 == 0) check();
            size_t failures = lm_faulty_failures(LM_FAULT_ANY), refused = user_.refused;
            step();
            if (user_.refused != refused && lm_faulty_failures(LM_FAULT_ANY) == failures) {
                expect("refused, and the system had refused nothing");
            }
        }
        check();
    }

  private:
    template <typename Code> void on_turn(Code code) {
        if (turn_ == 0) return code();
        auto &thread = threads_[turn_ - 1];
        if (thread == nullptr) thread = std::make_unique<model::Baton>();
        thread->tell(code);
    }

    /* All operands are read here, before anything is done: a program reads the same whatever the
     * heap answers. */
    void step() {
        size_t what = choices_.below(32);
        switch (what) {
        case 0: turn_ = static_cast<unsigned>(choices_.below(kThreads)); return;
        case 1: return end_thread();
        case 2: return on_turn([] { (void)loam_collect(); });
        case 3: return (void)lm_idle_collect(choices_.below(4) == 0);
        case 4: return (void)lm_purge_all();
        case 5: return check();
        case 6: return refuse();
        case 7: return break_system();
        default: break;
        }
        bool full = user_.live().size() >= kLiveObjects || user_.bytes() > kLiveBytes;
        if (what < 18 ? full : user_.live().empty()) return;
        if (what < 12) return malloc(1, size());
        if (what < 14) return malloc(1 + choices_.below(256), size());
        if (what < 16) return calloc();
        if (what < 18) return aligned();
        if (what < 23) return free_some(1);
        if (what < 26) return free_some(1 + choices_.below(256));
        if (what < 30) return resize(what % 2 == 0);
        size_t index = pick();
        on_turn([this, index] { expect(user_.use_whole(index)); });
    }

    /* At the edges of everything, mostly. */
    size_t size() {
        size_t kind = choices_.below(8);
        switch (kind) {
        case 0: return choices_.below(256);
        case 1: return 16 * (1 + choices_.below(64)) + choices_.below(3) - 1;
        case 2: return lm_class_bytes(1 + static_cast<unsigned>(choices_.below(LM_CLASSES - 1)));
        case 3: return choices_.below(65536);
        case 4: return 65536 - 4096 + choices_.below(8192);
        case 5: return (1 + choices_.below(16)) * 65536 + choices_.below(5) - 2;
        case 6: return (1 + choices_.below(256)) * 4096 + choices_.below(3) - 1;
        default: return choices_.below(256) << 14;
        }
    }
    /* The last ones, or any. */
    size_t pick() {
        size_t live = user_.live().size(), recent = choices_.below(2);
        return recent != 0 ? live - 1 - choices_.below(4) % live : choices_.below(65536) % live;
    }
    uint64_t seed() { return ++seeds_; }

    void malloc(size_t count, size_t size) {
        if (count > 1 && size * count > kBulkBytes) count = 1 + kBulkBytes / size;
        on_turn([this, count, size] {
            for (size_t i = 0; i < count && user_.bytes() < kLiveBytes; i++) {
                size_t live = user_.live().size();
                expect(user_.malloc(size, seed()));
                if (LOAM_DEBUG || LOAM_SECURE || user_.live().size() == live) continue;
                const model::Object &object = user_.live().back();
                if (object.usable < loam_good_size(size)) expect("less than good_size");
            }
        });
    }
    void calloc() {
        size_t count = 1 + choices_.below(8), each = size() / count;
        on_turn([this, count, each] { expect(user_.calloc(count, each, seed())); });
    }
    void aligned() {
        size_t align = size_t{1} << choices_.below(21), bytes = size();
        on_turn([this, align, bytes] { expect(user_.aligned(bytes, align, seed())); });
    }
    void free_some(size_t count) {
        size_t first = pick(), stride = count == 1 ? 1 : 1 + choices_.below(16);
        how_ = static_cast<Free>(choices_.below(3));
        on_turn([this, count, first, stride] {
            size_t index = first;
            for (size_t i = 0; i < count && !user_.live().empty(); i++, index += stride) {
                free(index % user_.live().size());
            }
        });
    }
    void free(size_t index) { expect(user_.free(index, how_)); }

    void resize(bool array) {
        size_t index = pick(), kind = choices_.below(4), fresh = size();
        size_t old = user_.live()[index].size;
        size_t bytes = kind == 0   ? fresh
                       : kind == 1 ? old + 1 + fresh % 200
                                   : old / 2 * (kind - 1) + 1;
        if (bytes == 0 || bytes > kLiveBytes) bytes = 1;
        on_turn([this, index, bytes, array] {
            expect(array && bytes % 2 == 0 ? user_.reallocarray(index, 2, bytes / 2, seed())
                                           : user_.realloc(index, bytes, seed()));
        });
    }

    /* What has to be NULL, and what has to be nothing. */
    void refuse() {
        size_t most = PTRDIFF_MAX, near = choices_.below(65536), kind = choices_.below(3);
        size_t bytes = kind == 0 ? most + 1 + near : kind == 1 ? SIZE_MAX - near : most / 32 - near;
        size_t odd = 24 + 8 * (near % 1000 * 2);
        on_turn([this, bytes, odd] {
            loam_free(nullptr);
            if (loam_usable_size(nullptr) != 0) expect("usable_size of NULL");
            if (loam_malloc_aligned(16, odd) != nullptr)
                expect("no alignment: " + std::to_string(odd));
            if (loam_calloc(bytes, 32) != nullptr) expect("a product that overflows");
            if (!user_.live().empty()) expect(user_.impossible(user_.live().size() - 1, bytes));
        });
    }

    void break_system() {
        auto kind = static_cast<lm_fault_t>(choices_.below(LM_FAULT_KINDS));
        size_t first = 1 + choices_.below(8), count = choices_.below(5);
        lm_faulty_fail(kind, first, count == 4 ? LM_FAULT_ALWAYS : count);
        user_.may_be_refused = true;
    }

    /* It leaves its heap to the next one, and its pages to nobody. */
    void end_thread() {
        if (turn_ != 0) threads_[turn_ - 1].reset();
        turn_ = 0;
    }
    void check() {
        on_turn([this] {
            lm_heap_check();
            look_at_statistics();
        });
        lm_span_check();
    }

    static void adds_up(const loam_stats_count &row, const char *what) {
        if (row.total - row.freed != row.current || row.peak < row.current) {
            fuzz::expect(std::string("statistics do not add up: ") + what);
        }
    }
    /* What other threads have ready counts as in use: never less than the twin has. */
    void look_at_statistics() {
        loam_stats_t stats;
        if (loam_stats_get(&stats, sizeof stats) != 0) expect("no statistics");
        loam_stats_count sum{};
        for (const loam_stats_class &each : stats.of_class) {
            adds_up(each.objects, "a class");
            if (each.objects.current > each.capacity) expect("more objects than fit");
            sum.current += each.objects.current;
            sum.total += each.objects.total;
        }
        if (sum.current != stats.small_objects.current || sum.total != stats.small_objects.total) {
            expect("classes and their sum");
        }
        adds_up(stats.large_objects, "large objects");
        adds_up(stats.large_bytes, "large bytes");
        adds_up(stats.committed, "committed");
        adds_up(stats.threads, "threads");
        size_t counted = 0; /* objects of 0 bytes have no block in the secure build */
        for (const model::Object &object : user_.live()) counted += !LM_SECURE || object.size > 0;
        if (stats.small_objects.current + stats.large_objects.current < counted ||
            stats.small_bytes.current + stats.large_bytes.current < user_.bytes()) {
            expect("fewer objects or bytes in the statistics than there are");
        }
        /* Cut off anywhere, it is text. */
        std::vector<char> text(1 + user_.bytes() % 500, 'x');
        int length = loam_stats_json(text.data(), text.size());
        size_t fits = std::min(text.size() - 1, static_cast<size_t>(length));
        if (length <= 0 || strnlen(text.data(), text.size()) != fits) expect("statistics in JSON");
    }
    static void expect(const std::string &wrong) { fuzz::expect(wrong); }

    model::Choices choices_;
    model::Twin twin_;
    model::User user_;
    std::unique_ptr<model::Baton> threads_[kThreads - 1];
    unsigned turn_ = 0;
    uint64_t seeds_ = 0;
    Free how_ = Free::Plain;
    bool paused_ = false;
    uint32_t many_ = lm_heaps_many;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    Program program(model::Choices(bytes, count));
    program.run();
    return 0;
}
