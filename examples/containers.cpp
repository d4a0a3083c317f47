/* containers.cpp: an order book on std::map, std::list and strings: once on the global heap, once
 * on blocks.
 *
 *     containers [orders]
 *
 * Buyers and sellers post orders at a price; who agrees trades, the oldest order first; half of all
 * orders are cancelled. Each price is a node of a map, each order a node of a list with a string of
 * its own, and an index by number finds it: containers that allocate one small node at a time,
 * which is what blocks are for. The book is the same code twice, with another allocator; only where
 * memory comes from differs:
 *
 *     Book<Heap> book{Heap()};                      operator new
 *     loam::blocks blocks(options);                 memory that ends with it, in one go
 *     Book<Blocks> book(blocks);
 *
 * The second run's block sizes are fitted to what the first one asked for (loam_blocks_record,
 * loam_blocks_fit).
 */
#include <loam/blocks.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <list>
#include <malloc.h>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

/* ---- The book: nothing in it knows loam ---- */

template <typename Allocator> class Book {
    template <typename T>
    using rebind = typename std::allocator_traits<Allocator>::template rebind_alloc<T>;
    using String = std::basic_string<char, std::char_traits<char>, rebind<char>>;

    struct Order {
        uint32_t number, shares;
        bool buys;
        int price;
        String owner;
    };
    using Orders = std::list<Order, rebind<Order>>;
    using Side = std::map<int, Orders, std::less<int>, rebind<std::pair<const int, Orders>>>;
    using Place = typename Orders::iterator;
    using Index = std::unordered_map<uint32_t, Place, std::hash<uint32_t>, std::equal_to<uint32_t>,
                                     rebind<std::pair<const uint32_t, Place>>>;

  public:
    explicit Book(const Allocator &allocator)
        : allocator_(allocator), buys_(allocator), sells_(allocator), index_(allocator) {}

    /* Trades with whoever agrees; what is left waits in the book. */
    void post(uint32_t number, bool buys, int price, uint32_t shares, const char *owner) {
        Side &others = buys ? sells_ : buys_;
        while (shares > 0 && !others.empty()) {
            auto best = buys ? others.begin() : std::prev(others.end());
            if (buys ? best->first > price : best->first < price) break;
            Orders &waiting = best->second;
            Order &first = waiting.front();
            uint32_t traded = std::min(shares, first.shares);
            shares -= traded;
            first.shares -= traded;
            volume_ += uint64_t{traded} * static_cast<unsigned>(best->first);
            if (first.shares == 0) {
                index_.erase(first.number);
                waiting.pop_front();
            }
            if (waiting.empty()) others.erase(best);
        }
        if (shares == 0) return;
        Side &mine = buys ? buys_ : sells_;
        Orders &orders = mine.try_emplace(price, allocator_).first->second;
        orders.push_back({number, shares, buys, price, String(owner, allocator_)});
        index_.emplace(number, std::prev(orders.end()));
    }

    void cancel(uint32_t number) {
        auto found = index_.find(number);
        if (found == index_.end()) return; /* traded already */
        Place order = found->second;
        Side &side = order->buys ? buys_ : sells_;
        auto level = side.find(order->price);
        level->second.erase(order);
        if (level->second.empty()) side.erase(level);
        index_.erase(found);
    }

    size_t waiting() const { return index_.size(); }
    uint64_t volume() const { return volume_; }

  private:
    Allocator allocator_;
    Side buys_, sells_;
    Index index_;
    uint64_t volume_ = 0;
};

/* ---- The market: the same orders every time ---- */

struct Result {
    uint64_t volume;
    size_t waiting;
    bool operator==(const Result &other) const {
        return volume == other.volume && waiting == other.waiting;
    }
};

template <typename Allocator> Result trade(Book<Allocator> &book, uint32_t orders) {
    uint64_t state = 1;
    auto below = [&](uint64_t limit) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        return (state >> 33) % limit;
    };
    char owner[64];
    for (uint32_t number = 0; number < orders; number++) {
        bool buys = below(2) != 0;
        int price = 1000 + static_cast<int>(below(200)) - (buys ? 120 : 80);
        snprintf(owner, sizeof owner, "customer %u of the branch in town %u",
                 static_cast<unsigned>(below(100000)), static_cast<unsigned>(below(100)));
        book.post(number, buys, price, 1 + static_cast<uint32_t>(below(100)), owner);
        if (number % 2 == 1) book.cancel(static_cast<uint32_t>(below(number)));
    }
    return {book.volume(), book.waiting()};
}

/* ---- Where memory comes from ---- */

using Heap = std::allocator<char>;
using Blocks = loam::blocks_allocator<char>;

template <typename Run> double seconds(Run run) {
    auto start = std::chrono::steady_clock::now();
    run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/* What the heap has handed out, with what it adds to each object. */
size_t heap_bytes() { return mallinfo2().uordblks + mallinfo2().hblkhd; }

Result on_heap(uint32_t orders, size_t *bytes) {
    size_t before = heap_bytes();
    Book<Heap> book{Heap()};
    Result result = trade(book, orders);
    *bytes = heap_bytes() - before;
    return result;
}

Result on_blocks(uint32_t orders, const loam_blocks_options &options, loam_usage *usage) {
    loam::blocks blocks(options);
    Book<Blocks> book(blocks);
    Result result = trade(book, orders);
    *usage = blocks.usage();
    return result;
}

/* Block sizes for exactly these containers: from a short run that is recorded. */
std::vector<uint32_t> fitted_classes(uint32_t orders) {
    enum : unsigned { kLargest = 1024, kClasses = 4 };
    std::vector<size_t> counts(kLargest + 1);
    loam_histogram histogram;
    loam_histogram_init(&histogram, counts.data(), kLargest);
    {
        loam::blocks blocks;
        Book<Blocks> book(blocks);
        blocks.record(&histogram);
        (void)trade(book, orders);
    }
    std::vector<uint64_t> work(loam_blocks_fit_bytes(&histogram, kClasses, 16) / 8 + 1);
    std::vector<uint32_t> classes(kClasses);
    int count = loam_blocks_fit(&histogram, kClasses, 16, work.data(), work.size() * 8,
                                classes.data(), nullptr);
    if (count < 1) exit(1);
    classes.resize(static_cast<size_t>(count));
    return classes;
}

void print(const char *name, double time, uint32_t orders, size_t bytes) {
    printf("%-16s %7.1f ns an order, %5.1f MiB\n", name, time / orders * 1e9,
           static_cast<double>(bytes) / 1048576);
}

} // namespace

int main(int argc, char **argv) {
    long asked = argc > 1 ? atol(argv[1]) : 400000;
    if (asked < 1000 || asked > 100000000) {
        fprintf(stderr, "usage: containers [orders], 1000 to 100000000 of them\n");
        return 2;
    }
    auto orders = static_cast<uint32_t>(asked);
    std::vector<uint32_t> classes = fitted_classes(orders / 10);
    loam_blocks_options fitted{};
    fitted.classes = classes.data();
    fitted.class_count = static_cast<unsigned>(classes.size());

    Result heap, blocks, fit;
    size_t heap_held = 0;
    loam_usage blocks_usage, fit_usage;
    double best[3] = {1e9, 1e9, 1e9};
    for (int round = 0; round < 3; round++) { /* the best of three: others use this machine */
        best[0] = std::min(best[0], seconds([&] { heap = on_heap(orders, &heap_held); }));
        best[1] =
            std::min(best[1], seconds([&] { blocks = on_blocks(orders, {}, &blocks_usage); }));
        best[2] = std::min(best[2], seconds([&] { fit = on_blocks(orders, fitted, &fit_usage); }));
    }
    print("std::allocator", best[0], orders, heap_held);
    print("blocks", best[1], orders, blocks_usage.held_bytes);
    print("blocks, fitted", best[2], orders, fit_usage.held_bytes);
    printf("block sizes fitted to the book:");
    for (uint32_t bytes : classes) printf(" %u", bytes);
    printf("\nvolume %llu, %zu orders left\n", static_cast<unsigned long long>(heap.volume),
           heap.waiting);
    if (!(heap == blocks && heap == fit)) {
        fprintf(stderr, "containers: the books differ\n");
        return 1;
    }
    return 0;
}
