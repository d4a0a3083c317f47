/* own_fuzz.cc: bytes as a program of calls to loam/malloc.h and loam/heap.h, by up to three
 * threads, against the twin.
 *
 *   objects of   malloc ─┐
 *                zalloc ─┤ the thread's own heap,
 *                        │ or the one it has chosen
 *                heaps ──┴ up to three, that come and go; the last lies in an arena, and spills
 *
 * Each list of objects is a user of tests/model/user.h, all with one twin. Any thread frees what
 * any thread has made, and the threads pass a baton.
 *
 * What heap_fuzz.cc leaves out: heaps that are made, chosen, limited, deleted and destroyed; growth
 * in place, zeroed growth, alignment at an offset, copies, arenas, sampled objects, a soft limit
 * that is crossed. The oracle knows of each object in which heap it has to be, and of each heap how
 * many objects a walk has to find. After every program nothing may be left.
 *
 * It cannot see races; the system refuses nothing here.
 */
#include "fuzz.h"

#include "model/baton.h"
#include "model/choices.h"
#include "model/user.h"

extern "C" {
#include "survey/survey.h"
}

#include <loam/arena.h>
#include <loam/limits.h>
#include <loam/options.h>

#include <memory>
#include <string>

namespace {

using model::Free;
using model::User;

constexpr size_t kThreads = 3, kHeaps = 3; /* the first thread is the caller */
constexpr size_t kSteps = 1200, kLiveObjects = 2000, kLiveBytes = size_t{4} << 20;

class Program {
  public:
    explicit Program(const model::Choices &choices) : choices_(choices) {
        for (auto &user : users_) user = std::make_unique<User>(twin_);
    }
    ~Program() {
        sample(0);
        limit(0);
        for (size_t heap = 0; heap < kHeaps; heap++) end_heap(heap, choices_.below(2) == 0);
        turn_ = 0;
        for (auto &user : users_) {
            while (!user->live().empty()) fuzz::expect(user->free(0, Free::Plain));
        }
        for (auto &thread : threads_) thread.reset();
        (void)loam_collect();
        for (int tick = 0; tick < 2; tick++) (void)lm_idle_collect(true);
        (void)lm_purge_all();
        check();
        lm_heap_stats_t stats;
        lm_heap_stats(&stats);
        if (stats.small_blocks != 0 || stats.large_blocks != 0) {
            fuzz::expect("left at the end: " + std::to_string(stats.small_blocks) + " blocks, " +
                         std::to_string(stats.large_blocks) + " large objects");
        }
    }

    void run() {
        for (size_t i = 0; i < kSteps && !choices_.over(); i++) step();
        check();
    }

  private:
    template <typename Code> void on_turn(Code code) {
        if (turn_ == 0) return code();
        auto &thread = threads_[turn_ - 1];
        if (thread == nullptr) thread = std::make_unique<model::Baton>();
        thread->tell(code);
    }

    /* All operands are read here, before anything is done: see heap_fuzz.cc. */
    void step() {
        size_t what = choices_.below(24), list = choices_.below(2 + kHeaps);
        if (list >= 2 && heaps_[list - 2] == nullptr) return make_heap(list - 2);
        switch (what) {
        case 0: turn_ = choices_.below(kThreads); return;
        case 1: return end_thread();
        case 2:
            if (list >= 2) return end_heap(list - 2, choices_.below(2) == 0);
            return list == 0 ? check() : limit(limited_ ? 0 : size_t{1} << 20);
        case 3: return choose(list);
        case 4:
            if (list >= 2) return look_into(list - 2);
            return list == 0 ? (void)loam_collect() : sample(sampled_ ? 0 : 3);
        case 5: return (void)lm_idle_collect(choices_.below(4) == 0);
        default: break;
        }
        User &user = *users_[list];
        size_t size = this->size(), times = choices_.below(4) == 0 ? choices_.below(200) : 1;
        if (size * times > kLiveBytes / 4) times = 1;
        if (what < 15) return allocate(list, what, size, times);
        for (size_t i = 0; i < times && !user.live().empty(); i++) {
            size_t index = choices_.below(65536) % user.live().size();
            if (what < 20)
                on_turn([&] { fuzz::expect(user.free(index, static_cast<Free>(what % 3))); });
            else
                resize(list, what, index, size);
        }
    }

    size_t size() {
        switch (choices_.below(6)) {
        case 0: return choices_.below(64);
        case 1: return lm_class_bytes(1 + static_cast<unsigned>(choices_.below(LM_CLASSES - 1)));
        case 2: return choices_.below(65536);
        case 3: return (1 + choices_.below(16)) * 65536 + choices_.below(5) - 2;
        default: return 16 * (1 + choices_.below(64)) + choices_.below(3) - 1;
        }
    }

    void allocate(size_t list, size_t what, size_t size, size_t times) {
        User &user = *users_[list];
        size_t align = size_t{1} << choices_.below(18), offset = choices_.below(65536);
        for (size_t i = 0; i < times; i++) {
            if (user.live().size() >= kLiveObjects || user.bytes() > kLiveBytes) return;
            on_turn([&] {
                std::string wrong;
                if (list == 1)
                    wrong = user.zalloc(size, ++seeds_);
                else if (what < 11)
                    wrong = user.malloc(size, ++seeds_);
                else if (what == 11)
                    wrong = user.calloc(3, size / 3, ++seeds_);
                else if (what == 12)
                    wrong = user.aligned(size, align, ++seeds_);
                else if (list == 0 && what == 13)
                    wrong = user.at_offset(size, align, offset, ++seeds_);
                else if (list == 0 && !user.live().empty()) {
                    size_t from = offset % user.live().size();
                    wrong = user.copy(from, user.live()[from].size / 2, ++seeds_);
                } else
                    wrong = user.zalloc(size, ++seeds_);
                fuzz::expect(wrong);
            });
            settle(list, list == 0 && what == 13); /* of no heap: offset.c */
        }
    }

    void resize(size_t list, size_t what, size_t index, size_t size) {
        User &user = *users_[list];
        size_t old = user.live()[index].size;
        size_t bytes = what % 2 == 0 || old > kLiveBytes / 4 ? size + 1 : old + old / 8 + 1;
        if (user.bytes() > kLiveBytes) return;
        bool inside = list < 2 && user.live()[index].align >= 16 && what < 22;
        on_turn([&] {
            if (list == 1)
                fuzz::expect(user.rezalloc(index, bytes, ++seeds_));
            else if (inside)
                fuzz::expect(user.expand(index, bytes, ++seeds_));
            else
                fuzz::expect(user.realloc(index, bytes, ++seeds_));
        });
        /* In place, it is where it was: nowhere, for lists of the threads' own. */
        settle(list, list < 2);
    }

    /* The newest object of a list lies where it has to, and joins that heap's list if it was malloc
     * that was asked, which allocates from the heap that the thread has chosen. */
    void settle(size_t list, bool may_stay = false) {
        size_t home = list >= 2 ? list - 2 : chosen_[turn_];
        if (home == kHeaps) return;
        User &user = *users_[list];
        const model::Object &object = user.live().back();
        if (!loam_heap_contains(heaps_[home], object.p)) {
            if (may_stay) return;
            fuzz::expect("not of its heap: " + model::describe(object));
        }
        if (list < 2) {
            fuzz::expect(users_[2 + home]->receive(user.hand_over(user.live().size() - 1)));
        }
    }

    void sample(size_t rate) {
        sampled_ = rate != 0;
        if (loam_option_set("guard_sampling", std::to_string(rate).c_str()) != 0)
            fuzz::expect("no such rate");
    }

    /* Soft: it refuses nothing. */
    void limit(size_t bytes) {
        limited_ = bytes != 0;
        if (loam_limit_set(bytes, 0) != 0) fuzz::expect("no such limit");
    }

    static loam_arena *arena() {
        static loam_arena *made = [] {
            loam_arena *one = nullptr;
            if (loam_reserve_memory(size_t{2} << 20, LOAM_ARENA_EXCLUSIVE, LOAM_NODE_ANY, &one) !=
                0)
                fuzz::expect("no arena");
            return one;
        }();
        return made;
    }

    void make_heap(size_t heap) {
        heaps_[heap] = heap + 1 < kHeaps ? loam_heap_create() : loam_heap_create_in(arena(), true);
        if (heaps_[heap] == nullptr) fuzz::expect("no heap");
        users_[2 + heap]->heap = heaps_[heap];
    }

    void end_heap(size_t heap, bool destroy) {
        if (heaps_[heap] == nullptr) return;
        for (size_t thread = 0; thread < kThreads; thread++) {
            if (chosen_[thread] != heap) continue;
            size_t turn = std::exchange(turn_, thread);
            choose(0);
            turn_ = turn;
        }
        User &user = *users_[2 + heap];
        on_turn([&] {
            for (const model::Object &object : user.hand_over_all()) {
                fuzz::expect(destroy ? User::check(object) : users_[0]->receive(object));
                if (destroy) fuzz::expect(twin_.remove(object));
            }
            if (destroy)
                loam_heap_destroy(heaps_[heap]);
            else
                loam_heap_delete(heaps_[heap]);
        });
        user.heap = heaps_[heap] = nullptr;
    }

    /* list 0, 1: the thread's own. */
    void choose(size_t list) {
        size_t heap = list >= 2 ? list - 2 : kHeaps;
        on_turn([&] {
            loam_heap *before = nullptr,
                      *wanted = chosen_[turn_] == kHeaps ? nullptr : heaps_[chosen_[turn_]];
            if (loam_heap_set_default(heap == kHeaps ? nullptr : heaps_[heap], &before) != 0)
                fuzz::expect("no default");
            if (before != wanted) fuzz::expect("another default than was set");
        });
        chosen_[turn_] = heap;
    }

    void look_into(size_t heap) {
        const User &user = *users_[2 + heap];
        on_turn([&] {
            size_t objects = 0;
            bool whole = loam_heap_visit(
                heaps_[heap], [](const loam_heap_area *, void *) { return true; },
                [](void *, size_t, void *count) {
                    ++*static_cast<size_t *>(count);
                    return true;
                },
                &objects);
            if (!whole || objects != user.live().size()) {
                fuzz::expect("a walk found " + std::to_string(objects) + " objects of " +
                             std::to_string(user.live().size()));
            }
            if (!user.live().empty() && !loam_heap_owns(heaps_[heap], user.live().back().p)) {
                fuzz::expect("not owned");
            }
        });
    }

    void end_thread() {
        if (turn_ != 0) threads_[turn_ - 1].reset();
        chosen_[turn_] = turn_ != 0 ? kHeaps : chosen_[0];
        turn_ = 0;
    }
    void check() {
        on_turn([] { lm_heap_check(); });
        lm_span_check();
    }

    model::Choices choices_;
    model::Twin twin_;
    std::unique_ptr<User> users_[2 + kHeaps]; /* malloc's objects, zalloc's, those of each heap */
    loam_heap *heaps_[kHeaps] = {};
    size_t chosen_[kThreads] = {kHeaps, kHeaps, kHeaps}; /* kHeaps: none */
    std::unique_ptr<model::Baton> threads_[kThreads - 1];
    size_t turn_ = 0;
    bool sampled_ = false, limited_ = false;
    uint64_t seeds_ = 0;
};

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count) {
    Program program(model::Choices(bytes, count));
    program.run();
    return 0;
}
