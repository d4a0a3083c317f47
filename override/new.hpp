/* new.hpp: declarations shared by new.cpp, forms.cpp and nothrow.cpp. */
#ifndef LM_OVERRIDE_NEW_HPP
#define LM_OVERRIDE_NEW_HPP

extern "C" {
#include "cxx.h"
}

#include <new>

/* gcc wants sized and plain delete in one file; forms.cpp says why they are in two. */
#pragma GCC diagnostic ignored "-Wsized-deallocation"

/* Weak: a program's own definition wins in static linking. In the shared library it makes no
 * difference. */
#define LM_OPERATOR __attribute__((visibility("default"), weak))

extern "C" {
void *lm_our_new(size_t size);
void *lm_our_new_aligned(size_t size, std::align_val_t align);
void *lm_our_new_array(size_t size);
void *lm_our_new_array_aligned(size_t size, std::align_val_t align);
void lm_our_delete(void *p) noexcept;
void lm_our_delete_aligned(void *p, std::align_val_t align) noexcept;
}

/* The return address of the operator into which this is inlined: the code that exceptions are
 * thrown to. */
#define LM_CALLER __builtin_return_address(0)

/* Calls the program's new handler and tries again, as long as there is a handler and no memory.
 * align: 0 for plain new. Throws bad_alloc instead of returning null. */
LM_COLD void *lm_new_again(size_t size, size_t align, const void *caller);

/* As lm_new_again, for the nothrow forms: returns null where lm_new_again throws. */
LM_COLD void *lm_new_again_nothrow(size_t size, size_t align, const void *caller) noexcept;

LM_INLINE void *lm_new_try(size_t size) { return lm_malloc(size); }
LM_INLINE void *lm_new_try(size_t size, std::align_val_t align) {
    return lm_is_pow2(size_t(align)) ? lm_malloc_aligned(size, size_t(align)) : nullptr;
}

LM_INLINE void *lm_new(size_t size) {
    void *p = lm_new_try(size);
    return LM_LIKELY(p != nullptr) ? p : lm_new_again(size, 0, LM_CALLER);
}

LM_INLINE void *lm_new_aligned(size_t size, std::align_val_t align) {
    void *p = lm_new_try(size, align);
    return LM_LIKELY(p != nullptr) ? p : lm_new_again(size, size_t(align), LM_CALLER);
}

/* The C++ library's part in exceptions. Weak, so that C programs need no C++ library. */
__asm__(".weak __gxx_personality_v0\n"
        ".weak __cxa_begin_catch\n"
        ".weak __cxa_end_catch\n"
        ".weak _Unwind_Resume\n"
        ".weak _ZSt9terminatev\n");

/* Defines a second name for an operator, which no program replaces. In assembly, because the
 * compiler wants an alias to repeat every attribute that it gave the operators. */
#define LM_ALSO(name, target) \
    __asm__(".globl " #name "\n.hidden " #name "\n.set " #name ", " #target)

#endif
