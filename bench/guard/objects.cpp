// objects.cpp: what the guard counts of C++: operators new and delete, and what libstdc++ makes of
// them.
//     guard_objects --list    one line a workload: its name, a tab, what it walks through
//     guard_objects NAME      runs it; nothing on standard output
//
// calls.c says what holds for workloads of the guard; this one adds that libstdc++ decides which
// sizes its containers ask for, so its figures may move with another libstdc++.
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>

namespace {

struct Small {
    long value[3];
};
struct alignas(64) Aligned {
    char bytes[192];
};

// The compiler may elide a new whose delete it sees; it cannot see through this.
void *volatile seen;

template <typename T> T *look(T *object) {
    seen = object;
    return object;
}

void new_delete() {
    std::unique_ptr<Small> objects[64];
    for (int round = 0; round < 60; round++) {
        for (auto &object : objects) object.reset(look(new Small{{1, 2, 3}}));
        char *text = look(new char[100 + 10 * round]);
        auto *aligned = look(new Aligned{});
        auto *checked = look(new (std::nothrow) Small{{4, 5, 6}});
        delete checked;
        delete aligned;
        delete[] text;
    }
}

void containers() {
    for (int round = 0; round < 4; round++) {
        std::map<int, std::string> names;
        for (int i = 0; i < 400; i++)
            names.emplace((i * 7919) % 1009, std::string(10 + i % 60, 'x'));
        std::vector<std::string> texts;
        for (auto &[key, name] : names) texts.push_back(name + name);
        for (int i = 0; i < 1009; i += 3) names.erase(i);
        look(texts.data());
    }
}

const struct {
    const char *name;
    void (*run)();
    const char *what;
} workloads[] = {
    {"new_delete", new_delete, "operators new and delete: plain, array, aligned, nothrow"},
    {"containers", containers, "a map of strings and a vector of strings"},
};

} // namespace

int main(int argc, char **argv) {
    const char *asked = argc == 2 ? argv[1] : "";
    if (std::strcmp(asked, "--list") == 0) {
        for (auto &workload : workloads) std::printf("%s\t%s\n", workload.name, workload.what);
        return std::fflush(stdout) == 0 ? 0 : 1;
    }
    for (auto &workload : workloads) {
        if (std::strcmp(asked, workload.name) == 0) {
            workload.run();
            return 0;
        }
    }
    std::fprintf(stderr, "usage: guard_objects --list | NAME\n");
    return 2;
}
