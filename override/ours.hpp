/* ours.hpp: whether a program has operators new of its own; for forms.cpp and nothrow.cpp.
 *
 * Not for new.cpp, which defines these operators: its compiler might answer the question itself.
 */
#ifndef LM_OVERRIDE_OURS_HPP
#define LM_OVERRIDE_OURS_HPP

#include "new.hpp"

/* Compares two functions at run time. A compiler that sees two names may take them for two
 * functions. */
template <class Function> LM_INLINE bool lm_same_function(Function one, Function other) {
    __asm__("" : "+r"(one));
    return one == other;
}

/* Whether the program has left the operator to loam: an address from the global offset table is
 * compared with one of loam's own. */
LM_INLINE bool lm_new_is_ours() {
    return lm_same_function<void *(*)(size_t)>(&::operator new, &lm_our_new);
}
LM_INLINE bool lm_new_aligned_is_ours() {
    return lm_same_function<void *(*)(size_t, std::align_val_t)>(&::operator new,
                                                                 &lm_our_new_aligned);
}

#endif
