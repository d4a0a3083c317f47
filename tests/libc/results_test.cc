/* results_test.cc: memory that the C library allocates for the program and the program frees.
 *
 * Inside libc these calls reach malloc by its exported name, so with loam in the process they must
 * return loam's memory: it is freed here, grown by realloc and asked for its usable size, which
 * would not survive a libc that kept its own malloc.
 */
#include "libc_test.h"

#include <dirent.h>
#include <glob.h>
#include <libgen.h>
#include <locale.h>
#include <netdb.h>
#include <pthread.h>
#include <regex.h>
#include <search.h>
#include <wchar.h>

#include <climits>

namespace {

using libc_test::hide;

/* Frees p after proving that the allocator in this process knows it. */
void release(void *p, size_t at_least) {
    ASSERT_NE(p, nullptr);
    EXPECT_GE(malloc_usable_size(p), at_least);
    void *q = realloc(hide(p), at_least + 5000);
    ASSERT_NE(q, nullptr);
    free(q);
}

TEST(Results, Strdup) {
    char *copy = strdup(hide("a string"));
    ASSERT_STREQ(copy, "a string");
    release(copy, 9);
    copy = strndup(hide("a string"), 3);
    ASSERT_STREQ(copy, "a s");
    release(copy, 4);
    std::string longer(100000, 'x');
    copy = strdup(longer.c_str());
    ASSERT_EQ(longer, copy);
    release(copy, 100001);
    wchar_t *wide = wcsdup(L"wide");
    ASSERT_EQ(wcscmp(wide, L"wide"), 0);
    release(wide, 5 * sizeof(wchar_t));
}

TEST(Results, Asprintf) {
    char *text = nullptr;
    ASSERT_EQ(asprintf(&text, "%d and %s", 42, "more"), 11);
    ASSERT_STREQ(text, "42 and more");
    release(text, 12);
    ASSERT_EQ(asprintf(&text, "%*d", 70000, 1), 70000);
    release(text, 70001);
}

TEST(Results, Getline) {
    FILE *file = tmpfile();
    ASSERT_NE(file, nullptr);
    std::string longer(50000, 'y');
    fprintf(file, "short\n%s\n\nlast", longer.c_str());
    rewind(file);
    char *line = nullptr;
    size_t room = 0;
    EXPECT_EQ(getline(&line, &room, file), 6);
    EXPECT_STREQ(line, "short\n");
    EXPECT_EQ(getline(&line, &room, file), 50001);
    EXPECT_GE(malloc_usable_size(line), room);
    EXPECT_EQ(getline(&line, &room, file), 1);
    EXPECT_EQ(getline(&line, &room, file), 4);
    EXPECT_EQ(getline(&line, &room, file), -1);
    fclose(file);
    free(line);
    /* A buffer of the program's own is grown by libc's realloc. */
    file = fmemopen(&longer[0], longer.size(), "r");
    ASSERT_NE(file, nullptr);
    line = static_cast<char *>(malloc(hide(size_t{4})));
    room = 4;
    EXPECT_EQ(getdelim(&line, &room, '!', file), 50000);
    EXPECT_GT(room, 50000u);
    fclose(file);
    release(line, 50001);
}

TEST(Results, OpenMemstream) {
    char *text = nullptr;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    ASSERT_NE(stream, nullptr);
    for (int i = 0; i < 20000; i++) fprintf(stream, "%d,", i);
    fclose(stream);
    ASSERT_EQ(strlen(text), bytes);
    EXPECT_EQ(strncmp(text, "0,1,2,", 6), 0);
    release(text, bytes + 1);
}

TEST(Results, PathsAndDirectories) {
    char *path = realpath("/", nullptr);
    ASSERT_STREQ(path, "/");
    release(path, 2);
    path = getcwd(nullptr, 0);
    release(path, 2);
    path = get_current_dir_name();
    release(path, 2);
    struct dirent **names = nullptr;
    int count = scandir("/", &names, nullptr, alphasort);
    ASSERT_GT(count, 0);
    for (int i = 0; i < count; i++) free(names[i]);
    release(names, static_cast<size_t>(count) * sizeof(*names));
    glob_t found;
    ASSERT_EQ(glob("/*", 0, nullptr, &found), 0);
    EXPECT_GT(found.gl_pathc, 0u);
    globfree(&found);
}

TEST(Results, ScanfAllocates) {
    char *word = nullptr;
    ASSERT_EQ(sscanf("hello world", "%ms", &word), 1);
    ASSERT_STREQ(word, "hello");
    release(word, 6);
}

/* What libc allocates and frees by itself, in both directions and in its helper threads. */
TEST(Results, LibrariesOwnUse) {
    regex_t regex;
    ASSERT_EQ(regcomp(&regex, "^(a+)(b|c)*$", REG_EXTENDED), 0);
    EXPECT_EQ(regexec(&regex, "aaabcb", 0, nullptr, 0), 0);
    regfree(&regex);
    locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
    ASSERT_NE(locale, nullptr);
    freelocale(locale);
    void *root = nullptr;
    for (int i = 0; i < 1000; i++) {
        tsearch(reinterpret_cast<void *>(static_cast<intptr_t>(i * 7919 % 1000 + 1)), &root,
                [](const void *a, const void *b) { return (a > b) - (a < b); });
    }
    tdestroy(root, [](void *) {});
    qsort(std::vector<int>(100000, 3).data(), 100000, sizeof(int),
          [](const void *a, const void *b) {
              return *static_cast<const int *>(a) - *static_cast<const int *>(b);
          });
    struct addrinfo *addresses = nullptr;
    struct addrinfo hints = {};
    hints.ai_flags = AI_NUMERICHOST;
    ASSERT_EQ(getaddrinfo("127.0.0.1", nullptr, &hints, &addresses), 0);
    freeaddrinfo(addresses);
    EXPECT_EQ(setenv("RESULTS_TEST", std::string(5000, 'z').c_str(), 1), 0);
    EXPECT_EQ(unsetenv("RESULTS_TEST"), 0);
}

TEST(Results, TimersAndPipesOfStdio) {
    FILE *pipe = popen("echo through a pipe", "r");
    ASSERT_NE(pipe, nullptr);
    char *line = nullptr;
    size_t room = 0;
    EXPECT_EQ(getline(&line, &room, pipe), 15);
    EXPECT_STREQ(line, "through a pipe\n");
    EXPECT_EQ(pclose(pipe), 0);
    release(line, 16);
    FILE *file = tmpfile();
    ASSERT_NE(file, nullptr);
    EXPECT_EQ(setvbuf(file, nullptr, _IOFBF, 65536), 0);
    for (int i = 0; i < 30000; i++) fprintf(file, "%d\n", i);
    fclose(file);
}

} // namespace
