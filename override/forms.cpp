/* forms.cpp: the other forms of new and delete: arrays, nothrow, sized.
 *
 * The standard defines each of them by the one below it, so that a program that replaces only operator
 * new(size_t) sees all its allocations there. Each therefore asks whether that one is still ours (an
 * address from the global offset table against one of our own) and only then takes the short way.
 * In a file of its own, apart from new.cpp: a compiler that saw both might answer the question itself.
 */
#include "new.hpp"

namespace {

using plain_new = void *(*)(size_t);
using aligned_new = void *(*)(size_t, std::align_val_t);
using plain_delete = void (*)(void *) noexcept;
using aligned_delete = void (*)(void *, std::align_val_t) noexcept;

inline bool new_is_ours() { return static_cast<plain_new>(&::operator new) == &lm_our_new; }
inline bool aligned_new_is_ours() {
    return static_cast<aligned_new>(&::operator new) == &lm_our_new_aligned;
}
inline bool delete_is_ours() {
    return static_cast<plain_delete>(&::operator delete) == &lm_our_delete;
}
inline bool aligned_delete_is_ours() {
    return static_cast<aligned_delete>(&::operator delete) == &lm_our_delete_aligned;
}

inline void *any_new(size_t size) {
    return LM_LIKELY(new_is_ours()) ? lm_new(size) : ::operator new(size);
}
inline void *any_new(size_t size, std::align_val_t align) {
    return LM_LIKELY(aligned_new_is_ours()) ? lm_new_aligned(size, align)
                                            : ::operator new(size, align);
}
inline void any_delete(void *p) noexcept {
    if (LM_LIKELY(delete_is_ours()))
        lm_free(p);
    else
        ::operator delete(p);
}
/* What is told of an object's size holds only where the object is ours; the release build does not look at it. */
inline void any_delete(void *p, size_t size) noexcept {
    if (LM_GUARD_LINKS && delete_is_ours() && new_is_ours())
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
    if (LM_GUARD_LINKS && aligned_delete_is_ours() && aligned_new_is_ours())
        lm_free_aligned_sized(p, size_t(align), size);
    else
        any_delete(p, align);
}

} // namespace

LM_OPERATOR void *operator new[](size_t size) { return any_new(size); }
LM_OPERATOR void *operator new[](size_t size, std::align_val_t align) {
    return any_new(size, align);
}

LM_OPERATOR void *operator new(size_t size, const std::nothrow_t &) noexcept {
    try {
        return any_new(size);
    } catch (...) {
        return nullptr;
    }
}
LM_OPERATOR void *operator new(size_t size, std::align_val_t align,
                               const std::nothrow_t &) noexcept {
    try {
        return any_new(size, align);
    } catch (...) {
        return nullptr;
    }
}
LM_OPERATOR void *operator new[](size_t size, const std::nothrow_t &) noexcept {
    try {
        return ::operator new[](size);
    } catch (...) {
        return nullptr;
    }
}
LM_OPERATOR void *operator new[](size_t size, std::align_val_t align,
                                 const std::nothrow_t &) noexcept {
    try {
        return ::operator new[](size, align);
    } catch (...) {
        return nullptr;
    }
}

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
