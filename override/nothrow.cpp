/* nothrow.cpp: the forms of operator new that return null if there is no memory.
 *
 * The standard defines each of them by the form that throws, so that a program that replaces only
 * that form sees all its allocations. If the form that throws is loam's, nothing is thrown at all:
 * no C++ library needs to be loaded, and a failure costs no unwinding. Otherwise exceptions of the
 * program's form are caught here, by the C++ library that was present when loam was loaded; a
 * program with operators of its own has one from the start. ours.hpp says why this is a separate
 * file.
 */
#include "ours.hpp"

namespace {

inline bool array_is_ours() {
    return lm_same_function<void *(*)(size_t)>(&::operator new[], &lm_our_new_array) &&
           lm_new_is_ours();
}
inline bool array_aligned_is_ours() {
    return lm_same_function<void *(*)(size_t, std::align_val_t)>(&::operator new[],
                                                                 &lm_our_new_array_aligned) &&
           lm_new_aligned_is_ours();
}

} // namespace

LM_OPERATOR void *operator new(size_t size, const std::nothrow_t &) noexcept {
    if (LM_LIKELY(lm_new_is_ours())) {
        void *p = lm_new_try(size);
        return LM_LIKELY(p != nullptr) ? p : lm_new_again_nothrow(size, 0, LM_CALLER);
    }
    try {
        return ::operator new(size);
    } catch (...) {
        return nullptr;
    }
}
LM_OPERATOR void *operator new(size_t size, std::align_val_t align,
                               const std::nothrow_t &) noexcept {
    if (LM_LIKELY(lm_new_aligned_is_ours())) {
        void *p = lm_new_try(size, align);
        return LM_LIKELY(p != nullptr) ? p : lm_new_again_nothrow(size, size_t(align), LM_CALLER);
    }
    try {
        return ::operator new(size, align);
    } catch (...) {
        return nullptr;
    }
}
LM_OPERATOR void *operator new[](size_t size, const std::nothrow_t &) noexcept {
    if (LM_LIKELY(array_is_ours())) {
        void *p = lm_new_try(size);
        return LM_LIKELY(p != nullptr) ? p : lm_new_again_nothrow(size, 0, LM_CALLER);
    }
    try {
        return ::operator new[](size);
    } catch (...) {
        return nullptr;
    }
}
LM_OPERATOR void *operator new[](size_t size, std::align_val_t align,
                                 const std::nothrow_t &) noexcept {
    if (LM_LIKELY(array_aligned_is_ours())) {
        void *p = lm_new_try(size, align);
        return LM_LIKELY(p != nullptr) ? p : lm_new_again_nothrow(size, size_t(align), LM_CALLER);
    }
    try {
        return ::operator new[](size, align);
    } catch (...) {
        return nullptr;
    }
}
