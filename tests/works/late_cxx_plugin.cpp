/* late_cxx_plugin.cpp: a plugin that runs out of memory in each form of new; for late_cxx.c. */
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <pthread.h>
#include <vector>

extern "C" __attribute__((visibility("default"))) int late_cxx_run(int what);

namespace {

enum { OK = 100, NOTHING_THROWN = 1, WRONG_COUNT = 2, NOT_NULL = 3, OTHER_THROWN = 4 };

constexpr std::nothrow_t kNothrow{};
constexpr std::align_val_t kAlign{64};

/* Sizes that no system has. */
volatile size_t huge = SIZE_MAX / 4;

int calls;
void give_up_at_third() {
    if (++calls == 3) std::set_new_handler(nullptr);
}
void throw_at_second() {
    if (++calls == 2) throw std::bad_alloc();
}
struct own_exception : std::bad_alloc {};
void throw_own() { throw own_exception(); }

/* The object is never made; its destructor runs where the exception passes by. */
struct counted {
    int *count;
    explicit counted(int *c) : count(c) { ++*count; }
    ~counted() { --*count; }
    counted(const counted &) = delete;
    counted &operator=(const counted &) = delete;
};

template <class F> int throws(F allocate) {
    int count = 0;
    try {
        counted here(&count);
        allocate();
        return NOTHING_THROWN;
    } catch (const std::bad_alloc &exception) {
        return count == 0 && exception.what() != nullptr ? OK : WRONG_COUNT;
    } catch (...) {
        return OTHER_THROWN;
    }
}

int null(void *p) { return p == nullptr ? OK : NOT_NULL; }

int with_handler(std::new_handler handler, int wanted, int (*run)()) {
    calls = 0;
    std::set_new_handler(handler);
    int result = run();
    std::set_new_handler(nullptr);
    return result == OK && calls != wanted ? WRONG_COUNT : result;
}

void *thread_main(void *) { return reinterpret_cast<void *>(uintptr_t(late_cxx_run(0))); }

/* dlopen holds the dynamic linker's lock while this runs. */
__attribute__((constructor)) void loaded() {
    pthread_t thread;
    void *result = nullptr;
    if (getenv("LATE_CXX_CONSTRUCTOR") == nullptr) return;
    if (pthread_create(&thread, nullptr, thread_main, nullptr) != 0) abort();
    pthread_join(thread, &result);
    if (uintptr_t(result) != OK) abort();
}

} // namespace

int late_cxx_run(int what) {
    switch (what) {
    case 0: return throws([] { ::operator delete(::operator new(huge)); });
    case 1: return throws([] { ::operator delete[](::operator new[](huge)); });
    case 2: return throws([] { ::operator delete(::operator new(huge, kAlign), kAlign); });
    case 3: return throws([] { ::operator delete[](::operator new[](huge, kAlign), kAlign); });
    case 4: return null(::operator new(huge, kNothrow));
    case 5: return null(::operator new[](huge, kNothrow));
    case 6: return null(::operator new(huge, kAlign, kNothrow));
    case 7: return null(::operator new[](huge, kAlign, kNothrow));
    case 8: /* the throw comes from the C++ library's own code or the plugin's */
        return throws([] { std::vector<char> v(huge / 2); });
    case 9:
        return with_handler(give_up_at_third, 3,
                            [] { return throws([] { ::operator delete(::operator new(huge)); }); });
    case 10:
        return with_handler(throw_at_second, 2, [] {
            int first = null(::operator new(huge, kNothrow));
            calls = 0;
            int second = null(::operator new[](huge, kAlign, kNothrow));
            return first == OK ? second : first;
        });
    case 11:
        std::set_new_handler(throw_own);
        try {
            ::operator delete(::operator new(huge));
        } catch (const own_exception &) {
            std::set_new_handler(nullptr);
            return OK;
        } catch (...) {}
        std::set_new_handler(nullptr);
        return OTHER_THROWN;
    case 12: /* the handler of the C++ library that the plugin uses */
        return with_handler(give_up_at_third, 3, [] {
            return throws([] { ::operator delete[](::operator new[](huge)); });
        });
    case 13:
        return with_handler(give_up_at_third, 3, [] {
            return throws([] { ::operator delete[](::operator new[](huge, kAlign), kAlign); });
        });
    default: return 0;
    }
}
