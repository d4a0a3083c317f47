/* replay.cc: main of the replay programs: runs the files that it is given, and all files of
 * folders.
 *
 *     fuzz_heap_replay tests/fuzz/corpus/heap        each is named before it is run: the last one
 *                                                    was it
 */
#include "fuzz.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

using std::filesystem::path;

std::vector<path> files_of(const path &where) {
    if (!std::filesystem::is_directory(where)) return {where};
    std::vector<path> files;
    for (const auto &entry : std::filesystem::directory_iterator(where)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

} // namespace

int main(int argc, char **argv) {
    size_t runs = 0;
    for (int i = 1; i < argc; i++) {
        for (const path &file : files_of(argv[i])) {
            std::ifstream stream(file, std::ios::binary);
            if (!stream) {
                fprintf(stderr, "replay: cannot read %s\n", file.c_str());
                return 2;
            }
            std::vector<char> bytes((std::istreambuf_iterator<char>(stream)),
                                    std::istreambuf_iterator<char>());
            printf("replay: %s, %zu bytes\n", file.c_str(), bytes.size());
            fflush(stdout);
            (void)LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()),
                                         bytes.size());
            runs++;
        }
    }
    printf("replay: %zu inputs, nothing found\n", runs);
    return runs > 0 ? 0 : 2;
}
