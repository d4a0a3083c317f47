// fifo_cpp_test.cc: loam/fifo.hpp: objects, ownership, memory resource, allocator, and what throws.
#include "loam/fifo.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory_resource>
#include <queue>
#include <stdexcept>
#include <string>

namespace {

int alive = 0;
struct Counts {
    int value;
    explicit Counts(int value) : value(value) {
        if (value < 0) throw std::runtime_error("no");
        alive++;
    }
    ~Counts() { alive--; }
};

TEST(FifoCpp, ObjectsComeAndGo) {
    loam::fifo fifo;
    std::queue<Counts *> queue;
    for (int i = 0; i < 5000; i++) {
        queue.push(fifo.make<Counts>(i));
        if (queue.size() <= 100) continue;
        EXPECT_EQ(queue.front()->value, i - 100);
        fifo.destroy(queue.front());
        queue.pop();
    }
    EXPECT_EQ(alive, 100);
    EXPECT_EQ(fifo.usage().objects, 100u);
    EXPECT_TRUE(fifo.check());
    EXPECT_THROW((void)fifo.make<Counts>(-1), std::runtime_error);
    EXPECT_EQ(fifo.usage().objects, 100u) << "nothing is left behind";
    fifo.destroy<Counts>(nullptr);
    for (; !queue.empty(); queue.pop()) fifo.destroy(queue.front());
    EXPECT_EQ(alive, 0);
    EXPECT_GT(fifo.trim(), 0u);
}

struct First {
    virtual ~First() { alive--; }
    long a = 1;
};
struct Second {
    virtual ~Second() = default;
    long b = 2;
};
struct Both : First, Second {
    Both() { alive++; }
};

TEST(FifoCpp, ABaseGivesTheWholeObjectBack) {
    loam_fifo_options options = {};
    options.flags = LOAM_CHECK;
    for (loam::fifo *fifo : {new loam::fifo, new loam::fifo(options)}) {
        for (int i = 0; i < 100; i++) {
            fifo->destroy(static_cast<Second *>(fifo->make<Both>()));
            fifo->destroy(static_cast<First *>(fifo->make<Both>()));
        }
        EXPECT_EQ(alive, 0);
        EXPECT_EQ(fifo->usage().objects, 0u);
        EXPECT_TRUE(fifo->check());
        delete fifo;
    }
}

TEST(FifoCpp, OwnersMove) {
    loam::fifo a, b;
    int *one = a.make<int>(1);
    loam_fifo *first = a.get();
    loam::fifo c(std::move(a));
    EXPECT_EQ(c.get(), first);
    b = std::move(c);
    EXPECT_EQ(b.get(), first);
    b.destroy(one);
    void *p = b.alloc(100, 64);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
    b.free(p);
    loam::fifo taken(loam_fifo_create(nullptr, nullptr));
    EXPECT_NE(taken.get(), nullptr);
}

TEST(FifoCpp, WhatOutlivesItsOwnerIsStillFreed) {
    loam_count count;
    loam_count_init(&count, loam_pages());
    {
        std::pmr::deque<std::string> *words;
        alignas(std::pmr::deque<std::string>) unsigned char place[sizeof *words];
        loam_fifo *alive;
        std::unique_ptr<loam::fifo_resource> resource;
        {
            loam::fifo fifo({}, &count.source);
            alive = fifo.get();
            resource.reset(new loam::fifo_resource(fifo));
            words = new (place) std::pmr::deque<std::string>(resource.get());
            for (int i = 0; i < 3000; i++) words->push_back(std::string(40, 'x'));
        }
        EXPECT_GT(count.used_bytes, 0u);
        EXPECT_EQ(words->back(), std::string(40, 'x'));
        EXPECT_THROW(for (int i = 0; i < 1000; i++) words->push_back("more"), std::bad_alloc);
        EXPECT_EQ(loam_fifo_alloc(alive, 1), nullptr);
        words->~deque();
    }
    EXPECT_EQ(count.used_bytes, 0u);
}

TEST(FifoCpp, Containers) {
    loam::fifo fifo;
    {
        std::deque<int, loam::fifo_allocator<int>> numbers(fifo);
        for (int i = 0; i < 100000; i++) {
            numbers.push_back(i);
            if (numbers.size() > 1000) numbers.pop_front();
        }
        EXPECT_EQ(numbers.front(), 99000);
        auto copy = numbers;
        EXPECT_EQ(copy.get_allocator(), numbers.get_allocator());
        loam::fifo other;
        EXPECT_TRUE(loam::fifo_allocator<char>(other) != numbers.get_allocator());
    }
    loam::fifo_resource a(fifo), b(fifo.get());
    EXPECT_EQ(a, a);
    EXPECT_NE(a, b) << "nobody can know";
    EXPECT_EQ(a.get(), b.get());
    EXPECT_EQ(fifo.usage().objects, 0u);
}

TEST(FifoCpp, NoMemoryIsBadAlloc) {
    loam_limit limit;
    loam_limit_init(&limit, loam_pages(), 128 << 10);
    loam::fifo fifo({}, &limit.source);
    EXPECT_THROW((void)fifo.alloc(1 << 20), std::bad_alloc);
    loam::fifo_allocator<long> longs(fifo);
    EXPECT_THROW((void)longs.allocate(SIZE_MAX / 4), std::bad_alloc);
    loam_limit none;
    loam_limit_init(&none, loam_pages(), 0);
    EXPECT_THROW(loam::fifo({}, &none.source), std::bad_alloc);
}

TEST(FifoCpp, OtherThreadsFree) {
    loam_fifo_options options = {};
    options.flags = LOAM_FIFO_REMOTE;
    loam::fifo fifo(options);
    fifo.adopt();
    fifo.free_remote(fifo.alloc(100));
    fifo.collect();
    EXPECT_EQ(fifo.usage().objects, 0u);
}

} // namespace
