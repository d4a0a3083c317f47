// containers.cpp: a C++ program of strings, maps, lists and vectors, all by new and delete.
//
// Asks: what does an allocator cost a program that never calls malloc? The containers of the
// standard library allocate nodes of 24 to 100 bytes, vectors that double, and strings too long to
// lie inside their object; all of it goes through operator new and the operator delete with a size.
// Each thread, on its share of the work: an index from words to places, a cache that forgets what
// was used least recently, vectors of strings sorted and joined, and a tree of objects with virtual
// functions. Of its instructions on glibc, 36% are new's and delete's; the rest makes, hashes,
// compares and copies strings, as such programs do.
// Cannot say anything about frees by other threads; see async_tasks.c.
#include "workload.h"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

// Words of a vocabulary, the frequent ones shorter, as in a language.
std::string word(WlRandom &random, uint64_t vocabulary) {
    uint64_t number = wl_skewed(&random, 1, vocabulary);
    std::string text;
    for (uint64_t left = number * UINT64_C(2654435761); left > 0; left /= 20) {
        text.push_back(static_cast<char>('a' + left % 20));
    }
    if (number % 4 == 0) text += "-" + text + "-" + text; // beyond the short-string buffer
    return text;
}

uint64_t index_words(WlRandom &random, uint64_t count) {
    std::unordered_map<std::string, std::vector<uint32_t>> places;
    for (uint64_t at = 0; at < count; at++) {
        places[word(random, 30000)].push_back(static_cast<uint32_t>(at));
    }
    uint64_t sum = 0;
    for (const auto &entry : places) sum += entry.first.size() * entry.second.size();
    for (auto at = places.begin(); at != places.end();) { // the rare ones go first
        at = at->second.size() < 4 ? places.erase(at) : std::next(at);
    }
    return sum + places.size();
}

// Least recently used: a list in order of use, and a map into it.
class Cache {
  public:
    explicit Cache(size_t most) : most_(most) {}

    uint64_t get(const std::string &key) {
        auto found = where_.find(key);
        if (found != where_.end()) {
            order_.splice(order_.begin(), order_, found->second);
            return found->second->second.size();
        }
        order_.emplace_front(key, std::string(key.size() * 12, key[0]));
        where_[key] = order_.begin();
        if (order_.size() > most_) {
            where_.erase(order_.back().first);
            order_.pop_back();
        }
        return 0;
    }

  private:
    using Order = std::list<std::pair<std::string, std::string>>;
    size_t most_;
    Order order_;
    std::unordered_map<std::string, Order::iterator> where_;
};

uint64_t use_cache(WlRandom &random, uint64_t count) {
    Cache cache(5000);
    uint64_t sum = 0;
    for (uint64_t at = 0; at < count; at++) sum += cache.get(word(random, 20000));
    return sum;
}

uint64_t sort_lines(WlRandom &random, uint64_t count) {
    std::vector<std::string> lines;
    for (uint64_t at = 0; at < count; at++) {
        std::string line;
        for (uint64_t words = wl_between(&random, 2, 6); words > 0; words--) {
            line += word(random, 30000);
            line += ' ';
        }
        lines.push_back(std::move(line));
    }
    std::sort(lines.begin(), lines.end());
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
    std::string joined;
    for (const std::string &line : lines) joined += line;
    return joined.size() + static_cast<unsigned char>(joined[joined.size() / 2]);
}

struct Shape {
    virtual ~Shape() = default;
    virtual uint64_t area() const = 0;
};

struct Square final : Shape {
    explicit Square(uint64_t side) : side_(side) {}
    uint64_t area() const override { return side_ * side_; }
    uint64_t side_;
};

struct Group final : Shape {
    uint64_t area() const override {
        uint64_t sum = 0;
        for (const auto &part : parts_) sum += part.second->area();
        return sum;
    }
    std::map<std::string, std::unique_ptr<Shape>> parts_;
};

std::unique_ptr<Shape> draw(WlRandom &random, int depth) {
    if (depth == 0) return std::make_unique<Square>(wl_below(&random, 100));
    auto group = std::make_unique<Group>();
    for (uint64_t parts = wl_between(&random, 2, 8); parts > 0; parts--) {
        group->parts_[word(random, 1000)] = draw(random, depth - 1);
    }
    return group;
}

// What counts here are the steps: the containers decide how often they allocate.
WlTally body(WlWorker *me) {
    uint64_t steps = wl_share(me, wl_scaled(1200000));
    WlTally tally = {steps, 0};
    try {
        // In parts, so that memory is let go and taken again.
        for (uint64_t done = 0; done < steps;) {
            uint64_t part = std::min<uint64_t>(steps - done, 150000);
            tally.sum += index_words(me->random, part);
            tally.sum += use_cache(me->random, part);
            tally.sum += sort_lines(me->random, part / 4 + 1);
            for (uint64_t shapes = part / 10000 + 1; shapes > 0; shapes--) {
                tally.sum += draw(me->random, 4)->area();
            }
            done += part;
        }
    } catch (const std::bad_alloc &) {
        wl_fail("operator new failed");
    }
    return tally;
}

} // namespace

int main(int argc, char **argv) {
    wl_begin(argc, argv, "containers", WL_THREADED, nullptr);
    return wl_end(wl_run(wl.threads, body, nullptr));
}
