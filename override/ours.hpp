/* ours.hpp: whether a program has operators new of its own; for forms.cpp and nothrow.cpp.
 *
 * new.cpp must not include it: it defines these operators, so its compiler might answer the
 * question itself.
 */
#ifndef LM_OVERRIDE_OURS_HPP
#define LM_OVERRIDE_OURS_HPP

#include "new.hpp"

/* Compares two functions at run time. A compiler that sees two names may assume two functions. */
template <class Function> LM_INLINE bool lm_same_function(Function one, Function other) {
    __asm__("" : "+r"(one));
    return one == other;
}

/* Returns whether the program has left plain operator new to loam: compares its address in the
 * global offset table with that of loam's own. */
LM_INLINE bool lm_new_is_ours() {
    return lm_same_function<void *(*)(size_t)>(&::operator new, &lm_our_new);
}
/* Returns whether the program has left aligned operator new to loam. */
LM_INLINE bool lm_new_aligned_is_ours() {
    return lm_same_function<void *(*)(size_t, std::align_val_t)>(&::operator new,
                                                                 &lm_our_new_aligned);
}

#endif
