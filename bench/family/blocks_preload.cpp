// blocks_preload.cpp: loam's malloc and the general allocators of bench/peers in the table
// `blocks`.
//
// A row for each: the program starts itself again with the peer's library preloaded, then runs the
// cells of malloc, after a look whether malloc really comes from that library. The libraries are
// those of build/peers/peers.json, or of the folder that the environment variable FAMILY_PEERS
// names, and loam's is the one that the same build made; a peer that is not there ends the cell
// with status 77, as a rival that is not installed.
#include "blocks_work.hpp"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace {

constexpr int not_installed = 77;
constexpr char again[] = "FAMILY_PRELOADED"; // set in the second life, to the library

struct Malloc {
    explicit Malloc(const FamilyRequest &) {}
    void *alloc(std::size_t size) { return std::malloc(size); }
    void free(void *block, std::size_t) { std::free(block); }
};

std::string real_path(const std::string &path) {
    char real[PATH_MAX];
    return realpath(path.c_str(), real) ? real : "";
}

std::string contents(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// From build/<preset>/bench/family/blocks so many folders up.
std::string above(int levels) {
    std::string path = real_path("/proc/self/exe");
    for (; levels > 0; levels--) path.resize(path.rfind('/') == path.npos ? 0 : path.rfind('/'));
    return path;
}

std::string peers_folder() {
    const char *folder = std::getenv("FAMILY_PEERS");
    return folder ? folder : above(4) + "/peers";
}

// The value of the member NAME of the object in TEXT that goes on at AT; empty where there is none.
std::string member(const std::string &text, std::size_t at, const char *name) {
    std::size_t end = text.find('}', at);
    std::size_t found = text.find("\"" + std::string(name) + "\"", at);
    if (found == text.npos || found > end) return "";
    std::size_t open = text.find('"', text.find(':', found));
    if (open == text.npos) return "";
    return text.substr(open + 1, text.find('"', open + 1) - open - 1);
}

std::string library_of(const char *peer) {
    if (!std::strcmp(peer, "loam-malloc")) return real_path(above(3) + "/libloam.so");
    std::string folder = peers_folder(), text = contents(folder + "/peers.json");
    for (std::size_t at = text.find('{', 1); at != text.npos; at = text.find('{', at + 1)) {
        if (member(text, at, "name") != peer) continue;
        std::string library = member(text, at, "library");
        if (library.empty()) continue;
        return real_path(library[0] == '/' ? library : folder + "/" + library);
    }
    return "";
}

void start_again(const char *peer) {
    std::string library = library_of(peer);
    if (library.empty()) {
        std::fprintf(stderr, "family: %s is not installed: %s does not name it\n", peer,
                     (peers_folder() + "/peers.json, of bench/peers/build.py,").c_str());
        std::exit(not_installed);
    }
    std::string line = contents("/proc/self/cmdline");
    std::vector<char *> arguments;
    for (std::size_t at = 0; at < line.size(); at += std::strlen(&line[at]) + 1) {
        arguments.push_back(&line[at]);
    }
    arguments.push_back(nullptr);
    setenv("LD_PRELOAD", library.c_str(), 1);
    setenv(again, library.c_str(), 1);
    execv("/proc/self/exe", arguments.data());
    family_fail("/proc/self/exe: %s", std::strerror(errno));
}

// In the second life: is it this library's malloc and free that the cells will call?
void check_preloaded(const char *library) {
    for (const char *name : {"malloc", "free", "calloc", "realloc"}) {
        Dl_info from = {};
        void *symbol = dlsym(RTLD_DEFAULT, name);
        if (!symbol || !dladdr(symbol, &from) || real_path(from.dli_fname) != library) {
            family_fail("%s was preloaded, but %s comes from %s", library, name,
                        from.dli_fname ? from.dli_fname : "nowhere");
        }
    }
}

template <const char *peer, void (*cell)(const FamilyRequest *)>
void preloaded(const FamilyRequest *asked) {
    const char *library = std::getenv(again);
    if (!library) start_again(peer);
    check_preloaded(library);
    cell(asked);
}

template <const char *peer>
constexpr FamilyCell cells[] = {
    {"benchmark", preloaded<peer, blocks_work::benchmark<Malloc>>},
    {"pair", preloaded<peer, blocks_work::pair<Malloc>>},
    {"pair-sizes", preloaded<peer, blocks_work::pair_sizes<Malloc>>},
    {"pair-threads", preloaded<peer, blocks_work::pair_threads<Malloc>>},
    {nullptr, nullptr}};

} // namespace

// Versions are in build/peers/peers.json, which may be newer than this program.
#define PRELOADED(id, name, version, kind) \
    static constexpr char id##_name[] = name; \
    FAMILY_ROW(id, name, version, "malloc of " name ", preloaded", kind, cells<id##_name>)
#define PEER(id, name) PRELOADED(id, name, "as in peers.json", FAMILY_RIVAL)

PEER(mimalloc, "mimalloc")
PEER(mimalloc2, "mimalloc2")
PEER(jemalloc, "jemalloc")
PEER(snmalloc, "snmalloc")
PEER(rpmalloc, "rpmalloc")
PEER(tcmalloc, "tcmalloc")
PEER(tbbmalloc, "tbbmalloc")
PEER(scudo, "scudo")
PEER(mimalloc_secure, "mimalloc-secure")
PRELOADED(loam_malloc, "loam-malloc", "of this build", FAMILY_LOAM)
