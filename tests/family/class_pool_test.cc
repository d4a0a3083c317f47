// class_pool_test.cc: pooled classes: every form of new, what happens without memory, objects that
// cross the border of a library that hides its symbols and is unloaded, and the pool of a class as
// a whole.
#include "family/class_pool_shapes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace {

template <typename T> size_t objects() { return loam::class_pool<T>::usage().objects; }

/* ---- Forms of new ---- */

bool fails; // constructors throw
struct Any {
    Any() {
        if (fails) throw std::runtime_error("no");
    }
    long v[3] = {1, 2, 3};
};
struct Base : Any {
    LOAM_POOLED(Base)
    virtual ~Base() = default;
};
struct Larger : Base {
    long w[20] = {};
};
struct alignas(64) Wide : Any {
    LOAM_POOLED(Wide)
};
struct alignas(64) WideChild : Base {
    char bytes[64] = {};
};
struct Bounded : Any {
    LOAM_POOLED_BLOCKS(Bounded, sizeof(Bounded), 0, 4)
};
struct alignas(128) WideBounded : Any {
    LOAM_POOLED_BLOCKS(WideBounded, sizeof(WideBounded), 0, 4)
};
struct Derived : public loam::pooled<Derived>, Any {};

template <typename T, typename Pool = T> void every_form() {
    const size_t before = objects<Pool>();
    for (int round = 0; round < 20; round++) {
        delete new T;
        delete new (std::nothrow) T;
        delete[] new T[3];
        delete[] new (std::nothrow) T[3];
        alignas(T) char place[4 * sizeof(T) + 64];
        (new (place) T)->~T();
        T *placed = new (static_cast<void *>(place)) T[3];
        for (int i = 0; i < 3; i++) placed[i].~T();
        ::delete ::new T;
        T *none = nullptr;
        delete none;
        /* A constructor that throws gives back what its form of new had taken. */
        fails = true;
        EXPECT_THROW(delete new T, std::runtime_error);
        EXPECT_THROW(delete new (std::nothrow) T, std::runtime_error);
        EXPECT_THROW(delete[] new T[3], std::runtime_error);
        EXPECT_THROW(delete[] new (std::nothrow) T[3], std::runtime_error);
        EXPECT_THROW(new (place) T, std::runtime_error);
        fails = false;
    }
    EXPECT_EQ(objects<Pool>(), before);
    EXPECT_TRUE(loam::class_pool<Pool>::check());
    std::vector<std::unique_ptr<T>> all;
    for (int i = 0; i < 10; i++) {
        all.emplace_back(i % 2 == 0 ? new T : new (std::nothrow) T);
        EXPECT_EQ(reinterpret_cast<uintptr_t>(all.back().get()) % alignof(T), 0u);
        EXPECT_EQ(all.back()->v[2], 3);
    }
    fails = true;
    EXPECT_THROW(delete new T, std::runtime_error) << "also where the pool is full";
    EXPECT_THROW(delete new (std::nothrow) T, std::runtime_error);
    fails = false;
    all.clear();
    EXPECT_EQ(objects<Pool>(), before);
}

TEST(ClassPool, EveryFormOfNew) {
    every_form<Base>();
    every_form<Larger, Base>();
    every_form<Wide>();
    every_form<WideChild, Base>();
    every_form<Bounded>();
    every_form<WideBounded>();
    every_form<Derived>();
}

/* ---- Members stay what they were ---- */

class Private : public loam::pooled<Private> {
    int secret = 5;

  public:
    int get() const { return secret; }
};
struct Public : loam::pooled<Public> {
    int open;
};
template <typename T, typename = void> struct has_secret : std::false_type {};
template <typename T> struct has_secret<T, decltype(void(&T::secret))> : std::true_type {};
template <typename T, typename = void> struct has_open : std::false_type {};
template <typename T> struct has_open<T, decltype(void(&T::open))> : std::true_type {};
static_assert(!has_secret<Private>::value && has_open<Public>::value);
static_assert(sizeof(Private) == sizeof(int) && sizeof(Public) == sizeof(int));

TEST(ClassPool, ABaseLeavesAccessAsItIs) {
    auto *one = new Private;
    EXPECT_EQ(one->get(), 5);
    EXPECT_TRUE(loam::class_pool<Private>::owns(one));
    delete one;
    std::unique_ptr<Public> other(new (std::nothrow) Public);
    EXPECT_TRUE(loam::class_pool<Public>::owns(other.get()));
}

/* ---- Out of memory ---- */

struct Filler {
    LOAM_POOLED(Filler)
    char bytes[400];
};

/* In a child whose addresses are used up, before operator new's are. */
int fill_up() {
    struct rlimit limit;
    std::vector<Filler *> all;
    all.reserve(4000000);
    Filler *first = new Filler;
    long pages = 0;
    if (FILE *file = fopen("/proc/self/statm", "r")) {
        if (fscanf(file, "%ld", &pages) != 1) pages = 0;
        fclose(file);
    }
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = static_cast<rlim_t>(pages) * 4096 + (100 << 20);
    if (setrlimit(RLIMIT_AS, &limit) != 0) return 1;
    try {
        for (;;) all.push_back(new Filler);
    } catch (const std::bad_alloc &) {}
    if (new (std::nothrow) Filler != nullptr) return 2;
    for (Filler *each : all)
        if (!loam::class_pool<Filler>::owns(each)) return 3;
    for (Filler *each : all) delete each;
    delete first;
    return objects<Filler>() == 0 && loam::class_pool<Filler>::check() ? 0 : 4;
}

TEST(ClassPool, WithoutMemoryNewFailsAndTakesNoneElsewhere) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer needs the addresses that the test takes away";
#endif
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(_exit(fill_up()), testing::ExitedWithCode(0), "");
}

struct Asked {
    LOAM_POOLED(Asked)
    char bytes[64];
};
int asked;

/* The class's pool gets no memory: the program's handler is asked until it gives up. */
int ask_handler() {
    struct rlimit limit;
    delete new Asked;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = 1;
    setrlimit(RLIMIT_AS, &limit);
    static std::vector<Asked *> all;
    std::set_new_handler([] {
        if (++asked == 3) std::set_new_handler(nullptr);
    });
    try {
        for (;;) {
            Asked *one = new (std::nothrow) Asked;
            if (one == nullptr) break;
            *reinterpret_cast<void **>(one) = nullptr;
        }
    } catch (...) {
        return 1;
    }
    return asked == 3 ? 0 : 2;
}

TEST(ClassPool, TheNewHandlerIsAsked) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer needs the addresses that the test takes away";
#endif
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(_exit(ask_handler()), testing::ExitedWithCode(0), "");
}

/* ---- The pool as a whole ---- */

struct Big {
    LOAM_POOLED(Big)
    char bytes[200];
};

TEST(ClassPool, MemoryGoesBackByTrimAndUsageTells) {
    std::vector<std::unique_ptr<Big>> all;
    for (int i = 0; i < 100000; i++) {
        all.emplace_back(new Big);
        memset(all.back()->bytes, i, sizeof all.back()->bytes);
    }
    loam_usage usage = loam::class_pool<Big>::usage();
    EXPECT_NE(std::string(usage.name).find("Big"), std::string::npos) << usage.name;
    EXPECT_EQ(usage.objects, 100000u);
    EXPECT_GE(usage.held_bytes, 100000 * sizeof(Big));
    all.clear();
    EXPECT_EQ(objects<Big>(), 0u);
    const size_t held = loam::class_pool<Big>::usage().held_bytes;
    EXPECT_GE(held, 100000 * sizeof(Big)) << "kept for the next ones";
    EXPECT_EQ(loam::class_pool<Big>::trim(), held);
    EXPECT_EQ(loam::class_pool<Big>::usage().held_bytes, 0u);
    all.emplace_back(new Big);
    all.clear();
    EXPECT_GT(loam_class_pools_trim(), 0u);
    EXPECT_EQ(loam::class_pool<Big>::usage().held_bytes, 0u);
    std::string names;
    loam_registry_visit(
        [](const loam_usage *each, void *to) {
            *static_cast<std::string *>(to) += std::string(each->name) + ";";
        },
        &names);
    EXPECT_NE(names.find("Big;"), std::string::npos) << names;
}

TEST(ClassPool, AKeyHasOnePool) {
    loam_class_pool_key key = {};
    key.name = "of the test, and more";
    key.name_bytes = 11;
    key.block_bytes = 40;
    key.align = 8;
    loam_shared_pool *first = loam_class_pool_find(&key);
    ASSERT_NE(first, nullptr);
    EXPECT_EQ(loam_class_pool_find(&key), first);
    key.name = "of the test";
    EXPECT_EQ(loam_class_pool_find(&key), first) << "by its name's letters";
    loam_shared_pool *others[6];
    int count = 0;
    auto other = [&](auto change) {
        loam_class_pool_key changed = key;
        change(changed);
        others[count++] = loam_class_pool_find(&changed);
        EXPECT_EQ(loam_class_pool_find(&changed), others[count - 1]);
    };
    other([](loam_class_pool_key &k) {
        k.name = "of another";
        k.name_bytes = 10;
    });
    other([](loam_class_pool_key &k) { k.name_bytes = 10; });
    other([](loam_class_pool_key &k) { k.block_bytes = 48; });
    other([](loam_class_pool_key &k) { k.align = 64; });
    other([](loam_class_pool_key &k) { k.most_blocks = 9; });
    other([](loam_class_pool_key &k) { k.module = &fails; });
    for (int i = 0; i < 6; i++) {
        ASSERT_NE(others[i], nullptr);
        EXPECT_NE(others[i], first);
        for (int j = 0; j < i; j++) EXPECT_NE(others[i], others[j]);
    }
    key.align = 3;
    EXPECT_EQ(loam_class_pool_find(&key), nullptr);
    key.align = 8;
    key.block_bytes = 0;
    EXPECT_EQ(loam_class_pool_find(&key), nullptr);
}

TEST(ClassPool, ManyThreadsFindTheSameOne) {
    struct Contended {
        LOAM_POOLED(Contended)
        long v[4];
    };
    loam_shared_pool *found[8];
    std::vector<std::thread> threads;
    for (auto &each : found)
        threads.emplace_back([&each] {
            delete new Contended;
            each = loam::class_pool<Contended>::get();
        });
    for (auto &each : threads) each.join();
    for (auto *each : found) EXPECT_EQ(each, found[0]);
}

/* ---- Modules ---- */

struct Library {
    void *handle = dlopen(LOAM_CLASS_POOL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const shapes::Plugin *plugin =
        handle != nullptr ? static_cast<const shapes::Plugin *>(dlsym(handle, "class_pool_plugin"))
                          : nullptr;
    ~Library() { close(); }
    void close() {
        if (handle != nullptr) dlclose(handle);
        handle = nullptr;
    }
};

TEST(ClassPool, ModulesThatHideTheirSymbolsShareThePool) {
    Library library;
    ASSERT_NE(library.plugin, nullptr) << dlerror();
    EXPECT_EQ(library.plugin->pool(), loam::class_pool<shapes::Free>::get());
    for (int i = 0; i < 1000; i++) {
        delete library.plugin->free();
        delete library.plugin->node();
        delete library.plugin->based();
        library.plugin->give_free(new shapes::Free);
    }
    EXPECT_EQ(objects<shapes::Free>(), 0u);
    EXPECT_TRUE(loam::class_pool<shapes::Free>::check());
    /* One limit for both; what finds no block goes back to where it came from, whoever deletes
     * it. */
    std::vector<shapes::Limited *> all;
    for (int i = 0; i < 20; i++) {
        all.push_back(i % 2 == 0 ? library.plugin->limited() : new shapes::Limited);
        memset(static_cast<void *>(all.back()), i, sizeof(shapes::Limited));
    }
    EXPECT_EQ(objects<shapes::Limited>(), 8u);
    for (size_t i = 0; i < all.size(); i++)
        for (size_t at = 0; at < sizeof(shapes::Limited); at++)
            ASSERT_EQ(reinterpret_cast<char *>(all[i])[at], static_cast<char>(i));
    for (size_t i = 0; i < all.size(); i++)
        i % 4 < 2 ? library.plugin->give_limited(all[i]) : delete all[i];
    EXPECT_EQ(objects<shapes::Limited>(), 0u);
    EXPECT_TRUE(loam::class_pool<shapes::Limited>::check());
}

TEST(ClassPool, APluginThatIsUnloadedLeavesItsObjects) {
    for (int round = 0; round < 20; round++) {
        std::vector<shapes::Free *> all;
        shapes::Node<int> *node = nullptr;
        {
            Library library;
            ASSERT_NE(library.plugin, nullptr) << dlerror();
            bool closed = false, made = false;
            for (int i = 0; i < 100; i++) all.push_back(library.plugin->free());
            node = library.plugin->node();
            /* A thread that has used the plugin's pools ends after it is gone. */
            std::thread thread([&] {
                library.plugin->give_free(library.plugin->free());
                delete library.plugin->node();
                __atomic_store_n(&made, true, __ATOMIC_RELEASE);
                while (!__atomic_load_n(&closed, __ATOMIC_ACQUIRE)) std::this_thread::yield();
            });
            while (!__atomic_load_n(&made, __ATOMIC_ACQUIRE)) std::this_thread::yield();
            library.close();
            __atomic_store_n(&closed, true, __ATOMIC_RELEASE);
            thread.join();
        }
        for (auto *each : all) {
            memset(static_cast<void *>(each), round, sizeof *each);
            delete each;
        }
        node->value = 3;
        delete node;
        EXPECT_EQ(objects<shapes::Free>(), 0u);
        EXPECT_TRUE(loam::class_pool<shapes::Free>::check());
    }
}

} // namespace
