/* new.cpp: C++'s operators new and delete on which all others are based: plain and aligned.
 *
 * They depend on no C++ library, so that C programs may load loam. If memory runs out, cxx.c finds
 * the C++ library of the calling code, which may have been loaded after loam: it has the new
 * handler, and throws bad_alloc. The definitions are weak, so that a program linked with
 * loam-override.o may replace them; forms.cpp and nothrow.cpp check whether it has. An unsized
 * delete does not know the object's size, and does not need it: blocks know their size class.
 */
#include "new.hpp"

namespace {

[[noreturn]] void give_up(const lm_cxx_t &cxx) {
    if (cxx.throw_bad_alloc != nullptr) cxx.throw_bad_alloc();
    if (cxx.throw_exception != nullptr) {
        /* Its only member is the pointer to its virtual functions, which follow the first two words
         * of the table. */
        void *exception = cxx.allocate_exception(sizeof(std::bad_alloc));
        *static_cast<char **>(exception) = cxx.vtable + 2 * sizeof(void *);
        cxx.throw_exception(exception, cxx.type, cxx.destroy);
    }
    lm_report("loam: out of memory in operator new, and no C++ library to throw bad_alloc with");
    lm_port_abort();
}

std::new_handler handler_of(const lm_cxx_t &cxx) {
    return cxx.get_new_handler != nullptr ? cxx.get_new_handler() : nullptr;
}

} // namespace

void *lm_new_again(size_t size, size_t align, const void *caller) {
    lm_cxx_t cxx;
    if (!lm_cxx_find(&cxx, caller)) cxx = lm_cxx_t{};
    while (std::new_handler handler = handler_of(cxx)) {
        handler();
        void *p = align == 0 ? lm_new_try(size) : lm_new_try(size, std::align_val_t(align));
        if (p != nullptr) return p;
    }
    give_up(cxx);
}

/* A handler may throw. The C++ library's own nothrow form, which calls operator new in turn,
 * catches the exception, because loam's frames know only the C++ library that was present when loam
 * was loaded. */
void *lm_new_again_nothrow(size_t size, size_t align, const void *caller) noexcept {
    static const std::nothrow_t nothrow{};
    lm_cxx_t cxx;
    if (!lm_cxx_find(&cxx, caller) || handler_of(cxx) == nullptr) return nullptr;
    if (align == 0 && cxx.new_nothrow != nullptr) return cxx.new_nothrow(size, &nothrow);
    if (align != 0 && cxx.new_nothrow_aligned != nullptr)
        return cxx.new_nothrow_aligned(size, align, &nothrow);
    try {
        return lm_new_again(size, align, caller);
    } catch (...) {
        return nullptr;
    }
}

LM_OPERATOR void *operator new(size_t size) { return lm_new(size); }
LM_OPERATOR void *operator new(size_t size, std::align_val_t align) {
    return lm_new_aligned(size, align);
}
LM_OPERATOR void operator delete(void *p) noexcept { lm_free(p); }
LM_OPERATOR void operator delete(void *p, std::align_val_t align) noexcept {
    lm_free_aligned(p, size_t(align));
}

LM_ALSO(lm_our_new, _Znwm);
LM_ALSO(lm_our_new_aligned, _ZnwmSt11align_val_t);
LM_ALSO(lm_our_delete, _ZdlPv);
LM_ALSO(lm_our_delete_aligned, _ZdlPvSt11align_val_t);
