/* rows_test.cc: the times that a metered library takes, the rows that it writes, and both with
 * threads and forks. */
#include "meter.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

namespace {

using namespace metered;

size_t sum_of(const loam_meter_calls &calls) {
    size_t sum = 0;
    for (size_t count : calls.ns_of) sum += count;
    return sum;
}

using Row = std::map<std::string, std::string>;

struct Csv {
    std::vector<Row> rows;
    std::vector<std::string> notes;
};

Csv read_csv(const std::string &path) {
    Csv csv;
    std::ifstream file(path);
    std::string line;
    std::vector<std::string> names;
    while (std::getline(file, line)) {
        if (line[0] == '#') {
            csv.notes.push_back(line);
            continue;
        }
        std::stringstream cells(line);
        std::string cell;
        std::vector<std::string> all;
        while (std::getline(cells, cell, ',')) all.push_back(cell);
        if (names.empty()) {
            names = all;
            continue;
        }
        EXPECT_EQ(all.size(), names.size()) << line;
        Row row;
        for (size_t i = 0; i < all.size() && i < names.size(); i++) row[names[i]] = all[i];
        csv.rows.push_back(row);
    }
    return csv;
}

struct Path {
    Path() {
        std::string text = testing::TempDir() + "/loam-meter-XXXXXX";
        int fd = mkstemp(text.data());
        close(fd);
        path = text;
    }
    ~Path() { unlink(path.c_str()); }
    std::string path;
};

std::vector<Row> rows_of(const Csv &csv, const char *kind, const char *name) {
    std::vector<Row> rows;
    for (const Row &row : csv.rows) {
        if (row.at("allocator") == kind && row.at("name") == name) rows.push_back(row);
    }
    return rows;
}

size_t number(const Row &row, const char *column) {
    return strtoull(row.at(column).c_str(), nullptr, 10);
}

/* ---- Time ---- */

TEST(Meter, HistogramsSumUpToCalls) {
    loam_region *region = named_region(nullptr);
    for (int i = 0; i < 10000; i++) {
        void *p = loam_region_alloc(region, 64);
        if (i % 2 == 0) loam_region_free(region, p, 64);
        if (i % 5 == 0) (void)!loam_region_realloc(region, nullptr, 0, 10);
    }
    loam_meter_stats stats = stats_of("region", own_name());
    EXPECT_EQ(stats.of[kAlloc].calls, 10000u);
    EXPECT_EQ(stats.of[kFree].calls, 5000u);
    EXPECT_EQ(stats.of[kRealloc].calls, 2000u);
    for (const loam_meter_calls &calls : stats.of) {
        EXPECT_EQ(sum_of(calls), calls.calls);
        EXPECT_EQ(calls.timed, calls.calls);
        EXPECT_GT(calls.ns, 0u);
        EXPECT_LE(calls.ns_most, calls.ns);
        EXPECT_LT(calls.ns / calls.calls, 1000000u) << "a millisecond for an addition";
        /* The sum lies between those of the buckets' ends. */
        size_t least = 0, most = 0;
        for (size_t b = 0; b < LOAM_METER_BUCKETS; b++) {
            least += b == 0 ? 0 : calls.ns_of[b] << b;
            most += calls.ns_of[b] << (b + 1);
        }
        EXPECT_GE(calls.ns, least);
        EXPECT_LE(calls.ns, most);
    }
    loam_region_destroy(region);
}

struct Sleepy {
    loam_source source;
    static void *get(loam_source *, size_t bytes, size_t, size_t *got) {
        usleep(20000);
        return malloc(*got = bytes);
    }
    static void put(loam_source *, void *chunk, size_t) { free(chunk); }
};

TEST(Meter, ASlowSourceShowsInNanoseconds) {
    Sleepy sleepy = {{Sleepy::get, Sleepy::put, "sleepy", 0}};
    loam_pool pool;
    loam_pool_options options = {};
    options.name = own_name();
    ASSERT_EQ(loam_pool_init(&pool, &sleepy.source, 48, &options), 0);
    (void)!loam_pool_alloc(&pool);
    loam_meter_stats stats = stats_of("pool", own_name());
    EXPECT_GE(stats.of[kAlloc].ns_most, 19900000u);
    EXPECT_LT(stats.of[kAlloc].ns_most, 2000000000u);
    loam_pool_deinit(&pool);
}

/* ---- Rows ---- */

TEST(Rows, OneEvery300OperationsAndOneForEachSlowCall) {
    Path file;
    Counted counted;
    loam_region *region = named_region(counted.source());
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    std::map<size_t, size_t> slow; /* by operation: what the source had given out then */
    for (size_t i = 1; i <= 3000; i++) {
        size_t gets = counted.count.gets;
        (void)!loam_region_alloc(region, 64);
        if (counted.count.gets != gets) slow[i] = counted.count.used_bytes;
    }
    loam_meter_stop();
    Csv csv = read_csv(file.path);
    std::vector<Row> rows = rows_of(csv, "region", own_name());
    std::map<size_t, Row> by_operation;
    for (const Row &row : rows) by_operation[number(row, "operation")] = row;
    EXPECT_EQ(by_operation.size(), rows.size()) << "one row an operation";
    size_t expected = slow.size();
    for (size_t i = 300; i <= 3000; i += 300) {
        expected += slow.count(i) == 0;
        EXPECT_EQ(by_operation.count(i), 1u) << i;
    }
    EXPECT_EQ(rows.size(), expected);
    EXPECT_GT(slow.size(), 2u);
    for (auto &one : slow) {
        ASSERT_EQ(by_operation.count(one.first), 1u) << one.first;
        const Row &row = by_operation[one.first];
        EXPECT_EQ(row.at("slow"), "1");
        EXPECT_EQ(row.at("function"), "alloc");
        EXPECT_EQ(number(row, "held"), one.second);
        EXPECT_EQ(number(row, "used"), one.first * 64);
        EXPECT_EQ(number(row, "requested"), one.first * 64);
        EXPECT_EQ(number(row, "allocs"), one.first);
    }
    size_t entry = 0, ns = 0;
    for (const Row &row : csv.rows) {
        EXPECT_EQ(number(row, "entry"), ++entry);
        EXPECT_GE(number(row, "ns"), ns);
        ns = number(row, "ns");
    }
    bool found = false;
    for (const std::string &note : csv.notes)
        found |= note.find(std::string("# histogram,region,") + own_name() + ",") == 0;
    EXPECT_TRUE(found);
    loam_region_destroy(region);
}

TEST(Rows, OfAFifoAStackAndARing) {
    Path file;
    loam_fifo fifo;
    loam_stack stack;
    loam_ring ring;
    loam_fifo_options of_fifo = {};
    loam_stack_options of_stack = {};
    loam_ring_options of_ring = {};
    of_fifo.name = of_stack.name = of_ring.name = own_name();
    ASSERT_EQ(loam_fifo_init(&fifo, nullptr, &of_fifo), 0);
    ASSERT_EQ(loam_stack_init(&stack, nullptr, &of_stack), 0);
    ASSERT_EQ(loam_ring_init(&ring, nullptr, &of_ring), 0);
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    for (int i = 0; i < 300; i++) {
        loam_stack_frame frame = loam_stack_push(&stack);
        loam_ring_frame *open = loam_ring_open(&ring);
        loam_fifo_free(&fifo, loam_fifo_alloc(&fifo, 10));
        (void)!loam_stack_alloc(&stack, 20);
        (void)!loam_ring_alloc(&ring, 30);
        loam_ring_release(&ring, open);
        loam_stack_pop(&stack, frame);
    }
    loam_meter_stop();
    Csv csv = read_csv(file.path);
    size_t bytes = 10, operations = 600;
    for (const char *kind : {"fifo", "stack", "ring"}) {
        std::vector<Row> rows = rows_of(csv, kind, own_name());
        ASSERT_GE(rows.size(), 1u) << kind;
        EXPECT_EQ(number(rows.back(), "operation"), operations) << kind;
        EXPECT_EQ(number(rows.back(), "requested"), 300 * bytes) << kind;
        EXPECT_EQ(number(rows.back(), "used"), bytes) << kind;
        EXPECT_GT(number(rows.back(), "held"), bytes) << kind;
        bytes += 10;
        operations = 300;
    }
    loam_fifo_deinit(&fifo);
    loam_stack_deinit(&stack);
    loam_ring_deinit(&ring);
}

TEST(Rows, ManyMoreThanTheBufferHolds) {
    Path file;
    loam_region *region = named_region(nullptr);
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    for (int i = 0; i < 600000; i++) {
        void *p = loam_region_alloc(region, 64);
        loam_region_free(region, p, 64);
    }
    loam_meter_stop();
    std::vector<Row> rows = rows_of(read_csv(file.path), "region", own_name());
    EXPECT_GE(rows.size(), 4000u);
    EXPECT_EQ(number(rows.back(), "operation"), 1200000u);
    loam_region_destroy(region);
}

TEST(Rows, NamesThatWouldDisturbAreChanged) {
    Path file;
    loam_region_options options = {};
    options.name = "a,b \"c\"\nand more than forty-seven characters in all";
    loam_region *region = loam_region_create(nullptr, &options);
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    for (int i = 0; i < 300; i++) (void)!loam_region_alloc(region, 1);
    loam_meter_stop();
    EXPECT_GE(
        rows_of(read_csv(file.path), "region", "a_b__c__and_more_than_forty-seven_characters_in")
            .size(),
        1u);
    loam_region_destroy(region);
}

TEST(Rows, ABadPathIsALineAndNothingElse) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(loam_meter_start("/nowhere/at/all"), -ENOENT);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "loam: meter: cannot write /nowhere/at/all: No such file or directory\n");
    EXPECT_EQ(loam_meter_start_fd(-1), -EINVAL);
    loam_meter_stop();
}

TEST(Rows, AFullDiskEndsThemWithALine) {
    int full = open("/dev/full", O_WRONLY);
    if (full < 0) GTEST_SKIP() << "there is no /dev/full";
    testing::internal::CaptureStderr();
    EXPECT_EQ(loam_meter_start_fd(full), 0);
    loam_meter_stop();
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "loam: meter: rows cannot be written, and stop\n");
    close(full);
}

TEST(Rows, TheProcessNumberInAPath) {
    std::string base = testing::TempDir() + "/loam-meter-" + own_name() + "-";
    ASSERT_EQ(loam_meter_start((base + "%p.csv").c_str()), 0);
    loam_meter_stop();
    std::string path = base + std::to_string(getpid()) + ".csv";
    EXPECT_EQ(access(path.c_str(), R_OK), 0);
    unlink(path.c_str());
}

TEST(Rows, StopInAForkedChildAndGoOnInTheParent) {
    Path file, childs;
    loam_region *region = named_region(nullptr);
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    for (int i = 0; i < 600; i++) (void)!loam_region_alloc(region, 1);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 100000; i++) (void)!loam_region_alloc(region, 64);
        loam_meter_stop(); /* not ours */
        if (loam_meter_start(childs.path.c_str()) != 0) _exit(1);
        loam_meter_reset();
        for (int i = 0; i < 300; i++) (void)!loam_region_alloc(region, 1);
        loam_meter_stop();
        loam_meter_stats stats = stats_of("region", own_name());
        _exit(stats.of[kAlloc].calls == 300 ? 0 : 2);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    for (int i = 0; i < 300; i++) (void)!loam_region_alloc(region, 1);
    loam_meter_stop();
    Csv csv = read_csv(file.path);
    std::vector<Row> rows = rows_of(csv, "region", own_name());
    ASSERT_GE(rows.size(), 3u);
    EXPECT_EQ(number(rows.back(), "operation"), 900u);
    EXPECT_EQ(number(csv.rows.back(), "entry"), csv.rows.size());
    Csv of_child = read_csv(childs.path);
    EXPECT_GE(rows_of(of_child, "region", own_name()).size(), 1u);
    for (size_t i = 0; i < of_child.rows.size(); i++)
        EXPECT_EQ(number(of_child.rows[i], "entry"), i + 1) << "none of its parent's";
    loam_region_destroy(region);
}

TEST(Rows, TheTableHasAllFunctionsAndBars) {
    Path file;
    loam_region *region = named_region(nullptr);
    for (int i = 0; i < 10; i++) (void)!loam_region_alloc(region, 10);
    int fd = open(file.path.c_str(), O_WRONLY);
    loam_meter_print(fd);
    close(fd);
    std::ifstream text(file.path);
    std::stringstream all;
    all << text.rdbuf();
    EXPECT_NE(
        all.str().find(std::string("region ") + own_name() + ": used 100 (at most 100), held "),
        std::string::npos)
        << all.str();
    EXPECT_NE(all.str().find("  alloc: 10 calls, "), std::string::npos);
    EXPECT_NE(all.str().find(" ns: "), std::string::npos);
    EXPECT_NE(all.str().find("#"), std::string::npos);
    loam_region_destroy(region);
}

/* ---- Threads ---- */

TEST(Threads, NothingIsLostOrCountedTwice) {
    constexpr size_t kThreads = 4, kTimes = 20000;
    Path file;
    loam_blocks blocks;
    loam_blocks_options options = {};
    options.name = own_name();
    options.flags = LOAM_THREADS;
    ASSERT_EQ(loam_blocks_init(&blocks, &options), 0);
    loam_shared_pool pool;
    loam_pool_options pool_options = {};
    pool_options.name = own_name();
    ASSERT_EQ(loam_shared_pool_init(&pool, nullptr, 64, &pool_options), 0);
    loam_meter_stats before = stats_of("heap", nullptr);
    ASSERT_EQ(loam_meter_start(file.path.c_str()), 0);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; t++) {
        threads.emplace_back([&] {
            loam_region *own = named_region(nullptr);
            for (size_t i = 0; i < kTimes; i++) {
                void *a = loam_blocks_alloc(&blocks, i % 500), *b = loam_shared_pool_alloc(&pool);
                void *c = loam_malloc(i % 2000);
                (void)!loam_region_alloc(own, 3);
                loam_blocks_free(&blocks, a);
                if (i % 10 != 0) loam_shared_pool_free(&pool, b);
                loam_free(c);
            }
            loam_region_destroy(own);
        });
    }
    for (std::thread &thread : threads) thread.join();
    loam_meter_stop();
    loam_meter_stats of_blocks = stats_of("blocks", own_name());
    EXPECT_EQ(of_blocks.of[kAlloc].calls, kThreads * kTimes);
    EXPECT_EQ(of_blocks.of[kFree].calls, kThreads * kTimes);
    EXPECT_EQ(of_blocks.used, 0u);
    EXPECT_EQ(sum_of(of_blocks.of[kAlloc]), kThreads * kTimes);
    loam_meter_stats of_pool = stats_of("pool", own_name());
    EXPECT_EQ(of_pool.of[kAlloc].calls, kThreads * kTimes);
    EXPECT_EQ(of_pool.used, kThreads * kTimes / 10 * 64);
    EXPECT_EQ(stats_of("region", own_name()).of[kAlloc].calls, kThreads * kTimes);
    loam_meter_stats heap = stats_of("heap", nullptr);
    EXPECT_GE(heap.of[kAlloc].calls - before.of[kAlloc].calls, kThreads * kTimes);
    EXPECT_EQ(heap.used, before.used);
    Csv csv = read_csv(file.path);
    EXPECT_EQ(number(csv.rows.back(), "entry"), csv.rows.size());
    loam_shared_pool_deinit(&pool);
    loam_blocks_deinit(&blocks);
}

} // namespace
