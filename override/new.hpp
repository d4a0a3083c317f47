/* new.hpp: what new.cpp and forms.cpp share. */
#ifndef LM_OVERRIDE_NEW_HPP
#define LM_OVERRIDE_NEW_HPP

extern "C" {
#include "api/api.h"
}

#include <new>

/* gcc wants sized and plain delete in one file; forms.cpp says why they are in two. */
#pragma GCC diagnostic ignored "-Wsized-deallocation"

/* Weak: a program's own definition wins at static linking. In the shared library it makes no difference. */
#define LM_OPERATOR __attribute__((visibility("default"), weak))

extern "C" {
void *lm_our_new(size_t size);
void *lm_our_new_aligned(size_t size, std::align_val_t align);
void lm_our_delete(void *p) noexcept;
void lm_our_delete_aligned(void *p, std::align_val_t align) noexcept;
}

/* Asks the program's new handler for room until there is some. Throws bad_alloc, never returns null. */
LM_COLD void *lm_new_again(size_t size, size_t align);

LM_INLINE void *lm_new(size_t size) {
    void *p = lm_malloc(size);
    return LM_LIKELY(p != nullptr) ? p : lm_new_again(size, 0);
}

LM_INLINE void *lm_new_aligned(size_t size, std::align_val_t align) {
    void *p = lm_is_pow2(size_t(align)) ? lm_malloc_aligned(size, size_t(align)) : nullptr;
    return LM_LIKELY(p != nullptr) ? p : lm_new_again(size, size_t(align));
}

/* The C++ library's part in exceptions: weak, so that C programs need none. */
__asm__(".weak __gxx_personality_v0\n"
        ".weak __cxa_begin_catch\n"
        ".weak __cxa_end_catch\n"
        ".weak _Unwind_Resume\n"
        ".weak _ZSt9terminatev\n"
        ".weak _ZSt17__throw_bad_allocv\n"
        ".weak _ZSt15get_new_handlerv\n");

#endif
