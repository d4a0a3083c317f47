/* cgroup_test.cc: which control groups limit this process, and how full they are. The tests use
 * trees of files as the kernel writes them, files that are broken or missing, and a real group if
 * the test may make one. */
#include <gtest/gtest.h>
#include <loam/limits.h>
#include <loam/malloc.h>
#include <loam/options.h>

extern "C" {
#include "os/os.h"
#include "span/internal.h"
extern const char *lm_cgroup_below;
}

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const std::string kMount2 =
    "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
const std::string kMount1 =
    "30 31 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:14 - cgroup cgroup rw,memory\n";

class Cgroup : public testing::Test {
  protected:
    void SetUp() override {
        char name[] = "/tmp/loam_cgroup_XXXXXX";
        ASSERT_NE(nullptr, mkdtemp(name));
        root = name;
        lm_cgroup_below = root.c_str();
    }
    void TearDown() override {
        EXPECT_EQ(0, loam_option_set("limit_cgroup", "0"));
        lm_limit_tick();
        lm_cgroup_below = "";
        fs::remove_all(root);
    }

    void write(const std::string &path, const std::string &text) const {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path) << text;
    }
    void proc(const std::string &cgroup, const std::string &mountinfo) const {
        write("/proc/self/cgroup", cgroup);
        write("/proc/self/mountinfo", mountinfo);
    }
    void group2(const std::string &name, const std::string &max, const std::string &high,
                const std::string &current) const {
        std::string folder = "/sys/fs/cgroup" + name;
        write(folder + "/memory.max", max + "\n");
        write(folder + "/memory.high", high + "\n");
        write(folder + "/memory.current", current + "\n");
    }

    /* "used/limit", "none": found, without a limit; "lost": not found, or unreadable. */
    static std::string look(bool find = true, bool limits = true) {
        if (find && !lm_os_cgroup_find()) return "lost";
        lm_cgroup_t fullest;
        if (!lm_os_cgroup_read(limits, &fullest)) return "lost";
        if (fullest.limit == 0) return "none";
        return std::to_string(fullest.used) + "/" + std::to_string(fullest.limit);
    }

    std::string root;
};

TEST_F(Cgroup, VersionTwo) {
    proc("0::/app\n", kMount2);
    group2("/app", "1000000", "max", "250000");
    EXPECT_EQ("250000/1000000", look());
    group2("/app", "1000000", "500000", "250000");
    EXPECT_EQ("250000/500000", look()) << "the lower of max and high";
    group2("/app", "max", "max", "250000");
    EXPECT_EQ("none", look());
    group2("/app", "0", "max", "5");
    EXPECT_EQ("5/1", look()) << "nothing may be in it";
}

TEST_F(Cgroup, TheFullestOfNestedOnesCounts) {
    proc("0::/a/b/c\n", kMount2);
    group2("/a/b/c", "max", "max", "100");
    group2("/a/b", "1000", "max", "300");
    group2("/a", "10000", "max", "6000");
    EXPECT_EQ("6000/10000", look());
    group2("/a/b", "1000", "max", "700");
    EXPECT_EQ("700/1000", look(false, false)) << "usage is read each time";
    group2("/a/b/c", "120", "max", "100");
    EXPECT_EQ("700/1000", look(false, false)) << "limits when asked for";
    EXPECT_EQ("100/120", look(false, true));
}

/* 256 MiB allow 16 MiB of map, which describe 128 GiB of addresses. */
TEST_F(Cgroup, ASmallOneEndsTheArenaEarly) {
    proc("0::/app\n", kMount2);
    group2("/app", "268435456", "max", "1000000");
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        const size_t gib = size_t{1} << 30;
        size_t objects = 0;
        std::vector<void *> all;
        for (void *p; objects < 100 && (p = loam_malloc(8 * gib)) != nullptr; objects++)
            all.push_back(p);
        lm_span_stats_t stats;
        lm_span_stats(&stats);
        EXPECT_LE(stats.arena_bytes, 128 * gib);
        EXPECT_LE(objects, 16u);
        EXPECT_GE(objects, LM_TSAN ? 1u : 10u);
        for (void *p : all) loam_free(p);
        void *again = loam_malloc(8 * gib);
        EXPECT_NE(nullptr, again) << "what was freed can be had again";
        loam_free(again);
        lm_span_check();
        fflush(stdout);
        _exit(testing::Test::HasFailure());
    }
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(0, status);
}

/* Trees of any depth, by both versions, in which some groups have limits: the fullest counts,
 * wherever it is, and the lowest limit is known. In a container the mount begins at a group of the
 * path, or has another name for it. */
TEST_F(Cgroup, NestedAsDeepAsThePathAllows) {
    unsigned seed = std::random_device{}();
    std::mt19937 random(seed);
    auto number = [&](size_t least, size_t most) {
        return std::uniform_int_distribution<size_t>(least, most)(random);
    };
    for (int round = 0; round < 16; round++) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
        fs::remove_all(root + "/sys");
        bool first = number(0, 1) != 0;
        size_t depth = round < 14 ? number(1, 40) : number(100, 400);
        size_t longest = depth > 60 ? 3400 / depth - 1 : 50;
        std::vector<std::string> names = {""};
        for (size_t i = 0; i < depth; i++)
            names.push_back(names.back() + "/" + std::string(number(1, longest), "abxyz"[i % 5]));
        /* Where the mount begins, and what the process calls its group. */
        enum View { WHOLE, PART, ABOVE, INSIDE };
        View view = static_cast<View>(number(0, 3));
        size_t from = view == WHOLE || view == INSIDE ? 0 : number(1, depth);
        std::string own = names.back(), begin = "/";
        if (view == PART) begin = names[from]; /* no namespace: the mount shows a part */
        if (view == ABOVE) { /* a namespace whose root is beside the process's group */
            begin.clear();
            for (size_t i = 0, ups = number(1, 5); i < ups; i++) begin += "/..";
            own = begin + names.back().substr(names[from].size());
        }
        std::string mount = first ? "/sys/fs/cgroup/memory" : "/sys/fs/cgroup";
        proc((first ? "7:memory:" : "0::") + (own.empty() ? "/" : own) + "\n",
             first ? "35 31 0:32 " + begin + " " + mount + " rw - cgroup cgroup rw,memory\n"
                   : "31 23 0:28 " + begin + " " + mount + " rw - cgroup2 cgroup2 rw\n");
        size_t used_right = 0, limit_right = 0, least_right = 0;
        for (size_t level = 0; level <= depth - from; level++) {
            std::string at = mount + names[from + level].substr(names[from].size());
            bool limited = number(0, depth) < 3 || level == 0;
            if (!limited && number(0, 3) > 0 && level + from < depth) continue; /* no files */
            size_t limit = number(1000, 100000), used = limit * number(0, 70) / 100;
            write(at + (first ? "/memory.usage_in_bytes" : "/memory.current"),
                  std::to_string(used));
            write(at + (first ? "/memory.limit_in_bytes" : "/memory.max"),
                  limited ? std::to_string(limit)
                  : first ? "9223372036854771712"
                          : "max");
            if (!limited) continue;
            if (least_right == 0 || limit < least_right) least_right = limit;
            /* From the inside out: of two that are as full the inner one. */
            if (limit_right == 0 || used * limit_right >= used_right * limit) {
                used_right = used;
                limit_right = limit;
            }
        }
        EXPECT_EQ(std::to_string(used_right) + "/" + std::to_string(limit_right), look());
        lm_cgroup_t group;
        ASSERT_TRUE(lm_os_cgroup_read(true, &group));
        EXPECT_EQ(least_right, group.least);
    }
}

/* Longer than the system opens: the groups around count. No path of more than 4095 bytes is shown
 * in /proc. */
TEST_F(Cgroup, LongerThanTheSystemOpens) {
    std::string name;
    while (name.size() < 4030) name += "/" + std::string(60, 'g');
    proc("0::" + name.substr(0, 4095) + "\n", kMount2);
    size_t outer = name.find('/', 3000);
    group2(name.substr(0, outer), "1000", "max", "500");
    group2("", "2000", "max", "100");
    EXPECT_EQ("500/1000", look());
}

/* A namespace that the mount does not show: what is mounted is an outer group, and counts. */
TEST_F(Cgroup, ANamespaceInAMountFromOutside) {
    group2("", "1000", "max", "400");
    for (const char *own : {"/", "/job", "/../job", "/../../a/b"}) {
        for (const char *begin : {"/../../..", "/../..", "/.."}) {
            proc(std::string("0::") + own + "\n",
                 std::string("31 23 0:28 ") + begin + " /sys/fs/cgroup rw - cgroup2 none rw\n");
            EXPECT_EQ("400/1000", look()) << own << " " << begin;
        }
    }
    /* Seen from its root, too: that mount has the group itself. */
    write("/mnt/in/job/memory.max", "100");
    write("/mnt/in/job/memory.current", "90");
    proc("0::/job\n", "31 23 0:28 /.. /sys/fs/cgroup rw - cgroup2 none rw\n"
                      "32 23 0:28 / /mnt/in rw - cgroup2 none rw\n");
    EXPECT_EQ("90/100", look());
}

/* LOAM_LIMIT_HARD=50%cgroup: of the lowest limit of the groups around, as it is then. */
TEST_F(Cgroup, ALimitMayBeAShare) {
    proc("0::/a/b/c\n", kMount2);
    group2("/a/b/c", "max", "max", "1000");
    group2("/a/b", "max", "400000000", "1000");
    group2("/a", "1000000000", "max", "990000000");
    auto share = [](const char *text) {
        size_t bytes = 0;
        EXPECT_EQ(0, loam_option_set("limit_hard", text));
        EXPECT_EQ(0, loam_option_get_number("limit_hard", &bytes));
        return bytes;
    };
    for (size_t percent : {1, 25, 50, 99, 100}) {
        size_t right = 4000000 * percent;
        right -= right % LM_SLICE_BYTES;
        EXPECT_EQ(right, share((std::to_string(percent) + "%cgroup").c_str()));
        EXPECT_EQ(right, share((std::to_string(percent) + "%CGroup").c_str()));
    }
    size_t half = share("50%");
    EXPECT_GT(half, size_t{200000000}) << "of the machine's memory";
    group2("/a/b", "200000000", "max", "1000");
    EXPECT_EQ(half, share("50%")) << "it is computed where it is set";
    EXPECT_LE(share("50%cgroup"), size_t{100000000});
    group2("/a/b", "100000", "max", "1000");
    EXPECT_EQ(LM_SLICE_BYTES, share("50%cgroup")) << "one slice at least";
    group2("/a/b", "max", "max", "1000");
    group2("/a", "max", "max", "1000");
    EXPECT_EQ(half, share("50%cgroup")) << "no limit: of the machine's memory";
    group2("/a", "900000000000000000", "max", "1000");
    EXPECT_EQ(half, share("50%cgroup")) << "more than the machine has";
    fs::remove_all(root + "/proc");
    EXPECT_EQ(half, share("50%cgroup")) << "no group found";
    EXPECT_EQ(0, loam_option_set("limit_hard", "0"));
}

TEST_F(Cgroup, FilesThatNobodyUsesDoNotCount) {
    proc("0::/app\n", kMount2);
    group2("/app", "1000", "max", "950");
    write("/sys/fs/cgroup/app/memory.stat", "anon 300\nfile 600\ninactive_file 500\nx 1\n");
    EXPECT_EQ("450/1000", look());
    write("/sys/fs/cgroup/app/memory.stat", "inactive_file 5000\n");
    EXPECT_EQ("0/1000", look());
    write("/sys/fs/cgroup/app/memory.stat", "inactive_file many\nanon\n\n");
    EXPECT_EQ("950/1000", look());
}

TEST_F(Cgroup, VersionOne) {
    proc("9:name=systemd:/\n5:cpu,cpuacct:/x\n4:memory:/box\n0::/elsewhere\n",
         kMount1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    std::string at = "/sys/fs/cgroup/memory";
    write(at + "/box/memory.limit_in_bytes", "2000\n");
    write(at + "/box/memory.usage_in_bytes", "500\n");
    write(at + "/memory.limit_in_bytes", "9223372036854771712\n");
    write(at + "/memory.usage_in_bytes", "700000\n");
    EXPECT_EQ("500/2000", look());
    write(at + "/box/memory.usage_in_bytes", "1900\n");
    write(at + "/box/memory.stat", "inactive_file 7\ntotal_inactive_file 400\n");
    EXPECT_EQ("1500/2000", look());
    write(at + "/box/memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_EQ("none", look()) << "which version 1 writes for no limit";
}

TEST_F(Cgroup, MountsThatShowAPartOnly) {
    /* As in a container without a namespace for groups: the mount begins at the container's
     * group. */
    proc("0::/docker/abc/job\n",
         "31 23 0:28 /docker/other /mnt/other rw - cgroup2 none rw\n"
         "32 23 0:28 /docker/abc /mnt/my\\040groups rw master:3 - cgroup2 none rw\n");
    write("/mnt/my groups/job/memory.max", "100");
    write("/mnt/my groups/job/memory.current", "40");
    write("/mnt/my groups/memory.max", "200");
    write("/mnt/my groups/memory.current", "50");
    EXPECT_EQ("40/100", look());
    /* Not seen anywhere: what is mounted is all there is. */
    proc("0::/elsewhere\n", "32 23 0:28 /docker/abc /mnt/my\\040groups rw - cgroup2 none rw\n");
    EXPECT_EQ("50/200", look());
    /* In a namespace whose root is beside. */
    proc("0::/../../else\n", "32 23 0:28 / /mnt/my\\040groups rw - cgroup2 none rw\n");
    EXPECT_EQ("50/200", look());
    /* A name that only begins like it. */
    proc("0::/docker/abcdef\n", "32 23 0:28 /docker/abc /mnt/my\\040groups rw - cgroup2 none rw\n"
                                "33 23 0:28 /docker/abcdef /mnt/right rw - cgroup2 none rw\n");
    write("/mnt/right/memory.max", "300");
    write("/mnt/right/memory.current", "60");
    EXPECT_EQ("60/300", look());
}

TEST_F(Cgroup, WhatIsMissing) {
    EXPECT_EQ("lost", look()) << "no /proc";
    write("/proc/self/cgroup", "0::/app\n");
    EXPECT_EQ("lost", look()) << "no mountinfo";
    write("/proc/self/mountinfo", "22 1 0:5 / /proc rw - proc proc rw\n");
    EXPECT_EQ("lost", look()) << "no mount of it";
    write("/proc/self/mountinfo", kMount2);
    EXPECT_EQ("lost", look()) << "no such folder";
    fs::create_directories(root + "/sys/fs/cgroup/app");
    EXPECT_EQ("lost", look()) << "no controller";
    write("/sys/fs/cgroup/app/memory.current", "10\n");
    EXPECT_EQ("none", look()) << "no file of limits";
    write("/sys/fs/cgroup/app/memory.max", "20\n");
    EXPECT_EQ("10/20", look());
    fs::remove_all(root + "/sys/fs/cgroup/app");
    EXPECT_EQ("lost", look(false)) << "removed under us";
    EXPECT_EQ("lost", look());
}

TEST_F(Cgroup, WhatIsBroken) {
    proc("0::/app\n", kMount2);
    for (const char *text : {"", "\n", "-1\n", "12x\n", "maximum\n", "0x10\n", " 7\n"}) {
        group2("/app", "max", "max", "10");
        write("/sys/fs/cgroup/app/memory.max", text);
        EXPECT_EQ("none", look()) << text;
        group2("/app", "100", "max", "10");
        write("/sys/fs/cgroup/app/memory.high", text);
        EXPECT_EQ("10/100", look()) << text;
        write("/sys/fs/cgroup/app/memory.current", text);
        EXPECT_EQ("lost", look()) << text;
    }
    group2("/app", "99999999999999999999999999", "max", "10");
    EXPECT_EQ("none", look());
    group2("/app", "100", "max", "99999999999999999999999999");
    EXPECT_NE("lost", look()) << "more than a word: full";
    group2("/app", "100", "max", "10");
    for (const char *text : {"", ":", "::", "0", "0:", "0::", "0::app\n", "1::/app\n", "x\ny\n"}) {
        write("/proc/self/cgroup", text);
        EXPECT_EQ("lost", look()) << text;
    }
    write("/proc/self/cgroup", "rubbish\n0::/app"); /* no end of line */
    EXPECT_EQ("10/100", look());
    for (const char *text :
         {"", " ", "31\n", "31 23 0:28 /\n", "31 23 0:28 / /sys/fs/cgroup\n",
          "31 23 0:28 / /sys/fs/cgroup rw -\n", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2\n",
          "31 23 0:28 / /sys/fs/cgroup rw cgroup2 cgroup2 rw\n", "\n\n\n"}) {
        write("/proc/self/mountinfo", text);
        EXPECT_EQ("lost", look()) << text;
    }
    std::string far(2000, 'x');
    write("/proc/self/mountinfo", kMount2);
    write("/proc/self/cgroup", "0::/" + far + "\n");
    EXPECT_EQ("lost", look()) << "a path that is too long";
    write("/proc/self/cgroup", "0::/app\n");
    write("/proc/self/mountinfo", "31 23 0:28 / /" + far + " rw - cgroup2 cgroup2 rw\n" + kMount2);
    EXPECT_EQ("10/100", look());
}

/* Lines of all lengths around that of the buffer, between others and at the end. */
TEST_F(Cgroup, LongLines) {
    group2("/app", "100", "max", "10");
    write("/proc/self/cgroup", "0::/app\n");
    for (size_t length :
         {1, 4095, 4096, 4097, 16000, 16382, 16383, 16384, 16385, 32767, 32768, 32769, 200000}) {
        std::string line(length, 'x');
        write("/proc/self/mountinfo", line + "\n" + kMount2 + line);
        EXPECT_EQ("10/100", look()) << length;
        write("/proc/self/mountinfo", kMount1 + line + "\n" + line + "\n" + kMount2);
        EXPECT_EQ("10/100", look()) << length;
        write("/proc/self/mountinfo", line);
        EXPECT_EQ("lost", look()) << length;
    }
    std::string many;
    for (int i = 0; i < 1000; i++) many += "22 1 0:5 / /m" + std::to_string(i) + " rw - x y z\n";
    write("/proc/self/mountinfo", many + kMount2);
    EXPECT_EQ("10/100", look());
}

/* What the worker makes of it. */
TEST_F(Cgroup, Pressure) {
    proc("0::/app\n", kMount2);
    ASSERT_EQ(0, loam_option_set("limit_cgroup", "auto"));
    const struct {
        const char *used;
        lm_pressure_t pressure;
    } steps[] = {{"100", LM_PRESSURE_NONE},  {"790", LM_PRESSURE_NONE}, {"810", LM_PRESSURE_SOME},
                 {"770", LM_PRESSURE_SOME},  {"740", LM_PRESSURE_NONE}, {"990", LM_PRESSURE_HIGH},
                 {"870", LM_PRESSURE_HIGH},  {"840", LM_PRESSURE_SOME}, {"890", LM_PRESSURE_SOME},
                 {"1200", LM_PRESSURE_HIGH}, {"0", LM_PRESSURE_NONE}};
    group2("/app", "1000000", "max", "1");
    EXPECT_TRUE(lm_limit_find_cgroup());
    EXPECT_EQ(300u / 50, lm_purge_ticks());
    for (const auto &step : steps) {
        group2("/app", "1000000", "max", std::string(step.used) + "000");
        lm_limit_tick();
        EXPECT_EQ(step.pressure, lm_limit_pressure()) << step.used;
        loam_limits limits;
        loam_limit_get(&limits);
        EXPECT_EQ(static_cast<int>(step.pressure), limits.pressure);
        EXPECT_EQ(1000000u, limits.cgroup_limit);
        EXPECT_EQ(std::stoul(step.used) * 1000, limits.cgroup_used);
        if (step.pressure == LM_PRESSURE_HIGH) {
            EXPECT_EQ(0u, lm_purge_ticks());
        } else {
            EXPECT_GT(lm_purge_ticks(), 0u);
        }
        if (step.pressure == LM_PRESSURE_SOME) {
            EXPECT_EQ((300u / 4 + 17) / 18, lm_purge_ticks()) << "75 ms in ticks of 18";
        }
    }
    group2("/app", "1000000", "max", "999999");
    lm_limit_tick();
    ASSERT_EQ(0, loam_option_set("limit_cgroup", "0"));
    lm_limit_tick();
    EXPECT_EQ(LM_PRESSURE_NONE, lm_limit_pressure()) << "turned off";
}

TEST_F(Cgroup, AGroupThatComesLater) {
    ASSERT_EQ(0, loam_option_set("limit_cgroup", "auto"));
    EXPECT_FALSE(lm_limit_find_cgroup());
    proc("0::/app\n", kMount2);
    group2("/app", "1000", "max", "990");
    for (int tick = 0; tick < 100; tick++) lm_limit_tick();
    EXPECT_EQ(LM_PRESSURE_HIGH, lm_limit_pressure());
    proc("0::/other\n", kMount2); /* it was moved, and the old one is gone */
    fs::remove_all(root + "/sys/fs/cgroup/app");
    group2("/other", "1000", "max", "10");
    lm_limit_tick();
    EXPECT_EQ(LM_PRESSURE_NONE, lm_limit_pressure()) << "nobody knows";
    for (int tick = 0; tick < 100; tick++) lm_limit_tick();
    loam_limits limits;
    loam_limit_get(&limits);
    EXPECT_EQ(1000u, limits.cgroup_limit);
    EXPECT_EQ(10u, limits.cgroup_used);
}

/* The kernel's own: a group inside of ours, with a child of ours in it. */
bool say(const fs::path &path, const std::string &text) {
    std::ofstream file(path);
    file << text << std::flush;
    return file.good();
}

fs::path own_group(bool *first) {
    std::ifstream groups("/proc/self/cgroup");
    std::string two;
    for (std::string line; std::getline(groups, line);) {
        size_t colon = line.find(":memory:");
        *first = colon != std::string::npos;
        if (*first) return "/sys/fs/cgroup/memory" + line.substr(colon + 8);
        if (line.rfind("0::", 0) == 0) two = line.substr(3);
    }
    return "/sys/fs/cgroup" + two;
}

TEST(CgroupReal, AGroupOfTheKernels) {
    bool first = false;
    fs::path own = own_group(&first);
    fs::path group = own / ("loam_test_" + std::to_string(getpid()));
    if (mkdir(group.c_str(), 0755) != 0) GTEST_SKIP() << "no group can be made in " << own;
    bool limited = say(group / (first ? "memory.limit_in_bytes" : "memory.max"), "268435456");
    pid_t child = fork();
    if (child == 0) {
        if (!limited || !say(group / "cgroup.procs", std::to_string(getpid()))) _exit(77);
        if (!lm_os_cgroup_find()) _exit(1);
        lm_cgroup_t cgroup;
        if (!lm_os_cgroup_read(true, &cgroup)) _exit(2);
        /* ThreadSanitizer has four bytes of its own and more for each of the program's, in the same
         * group. */
        size_t before = cgroup.used, bytes = size_t{LM_TSAN ? 16 : 128} << 20;
        if (cgroup.limit != 268435456) _exit(77); /* one around it is fuller */
        auto block = static_cast<volatile char *>(malloc(bytes));
        for (size_t i = 0; i < bytes; i += 4096) block[i] = 1;
        if (!lm_os_cgroup_read(false, &cgroup)) _exit(3);
        _exit(cgroup.used - before > bytes * 3 / 4 && cgroup.used < cgroup.limit ? 0 : 4);
    }
    int status = -1;
    EXPECT_EQ(child, waitpid(child, &status, 0));
    for (int i = 0; i < 100 && rmdir(group.c_str()) != 0; i++) usleep(10000);
    EXPECT_FALSE(fs::exists(group)) << "left behind";
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        GTEST_SKIP() << "the memory controller is not to be had in " << own
                     << ", or a group around it is fuller";
    EXPECT_EQ(0, status);
}

} // namespace
