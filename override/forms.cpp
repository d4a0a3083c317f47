/* forms.cpp: the other forms of new and delete that may throw: arrays, sized, aligned.
 *
 * The standard defines each form by a simpler one, so that a program that replaces only operator
 * new(size_t) sees all its allocations there. So each form here compares the simpler form's address
 * in the global offset table with that of loam's own, and takes the short way only if they are
 * equal. ours.hpp says why this is not in new.cpp. nothrow.cpp has the forms of new that return
 * null.
 */
#include "ours.hpp"

namespace {

using plain_delete = void (*)(void *) noexcept;
using aligned_delete = void (*)(void *, std::align_val_t) noexcept;

inline bool delete_is_ours() {
    return static_cast<plain_delete>(&::operator delete) == &lm_our_delete;
}
inline bool aligned_delete_is_ours() {
    return static_cast<aligned_delete>(&::operator delete) == &lm_our_delete_aligned;
}

LM_INLINE void *any_new(size_t size) {
    return LM_LIKELY(lm_new_is_ours()) ? lm_new(size) : ::operator new(size);
}
LM_INLINE void *any_new(size_t size, std::align_val_t align) {
    return LM_LIKELY(lm_new_aligned_is_ours()) ? lm_new_aligned(size, align)
                                               : ::operator new(size, align);
}
inline void any_delete(void *p) noexcept {
    if (LM_LIKELY(delete_is_ours()))
        lm_free(p);
    else
        ::operator delete(p);
}
/* The size that the program passes is checked only if the object came from loam's operator new. The
 * release build ignores it. */
inline void any_delete(void *p, size_t size) noexcept {
    if (LM_GUARD_LINKS && delete_is_ours() && lm_new_is_ours())
        lm_free_sized(p, size);
    else
        any_delete(p);
}
inline void any_delete(void *p, std::align_val_t align) noexcept {
    if (LM_LIKELY(aligned_delete_is_ours()))
        lm_free_aligned(p, size_t(align));
    else
        ::operator delete(p, align);
}
inline void any_delete(void *p, size_t size, std::align_val_t align) noexcept {
    if (LM_GUARD_LINKS && aligned_delete_is_ours() && lm_new_aligned_is_ours())
        lm_free_aligned_sized(p, size_t(align), size);
    else
        any_delete(p, align);
}

} // namespace

LM_OPERATOR void *operator new[](size_t size) { return any_new(size); }
LM_OPERATOR void *operator new[](size_t size, std::align_val_t align) {
    return any_new(size, align);
}

LM_ALSO(lm_our_new_array, _Znam);
LM_ALSO(lm_our_new_array_aligned, _ZnamSt11align_val_t);

LM_OPERATOR void operator delete(void *p, size_t size) noexcept { any_delete(p, size); }
LM_OPERATOR void operator delete(void *p, const std::nothrow_t &) noexcept { any_delete(p); }
LM_OPERATOR void operator delete[](void *p) noexcept { any_delete(p); }
LM_OPERATOR void operator delete[](void *p, size_t) noexcept { ::operator delete[](p); }
LM_OPERATOR void operator delete[](void *p, const std::nothrow_t &) noexcept {
    ::operator delete[](p);
}

LM_OPERATOR void operator delete(void *p, size_t size, std::align_val_t align) noexcept {
    any_delete(p, size, align);
}
LM_OPERATOR void operator delete(void *p, std::align_val_t align, const std::nothrow_t &) noexcept {
    any_delete(p, align);
}
LM_OPERATOR void operator delete[](void *p, std::align_val_t align) noexcept {
    any_delete(p, align);
}
LM_OPERATOR void operator delete[](void *p, size_t, std::align_val_t align) noexcept {
    ::operator delete[](p, align);
}
LM_OPERATOR void operator delete[](void *p, std::align_val_t align,
                                   const std::nothrow_t &) noexcept {
    ::operator delete[](p, align);
}
