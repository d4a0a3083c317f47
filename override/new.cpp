/* new.cpp: C++'s operators new and delete that all others stand on: plain and aligned.
 *
 * No dependency on a C++ library: what is needed of it (bad_alloc, the new handler) is weakly
 * referenced, and there in every process that could need it. The definitions are weak, so that a
 * program linked with loam-override.o may replace them; forms.cpp looks whether it has.
 * It cannot know the size at an unsized delete, and trusts none: blocks know their size class.
 */
#include "new.hpp"

namespace std {
void __throw_bad_alloc(); /* libstdc++ and libc++ both export it */
}

namespace {

/* Called where the block could not be had: lets the program's handler make room, or tells that there is none. */
bool made_room() {
    std::new_handler (*volatile get)() noexcept = &std::get_new_handler;
    std::new_handler handler = get != nullptr ? get() : nullptr;
    if (handler == nullptr) return false;
    handler();
    return true;
}

[[noreturn]] void give_up() {
    void (*volatile throw_bad_alloc)() = &std::__throw_bad_alloc;
    if (throw_bad_alloc != nullptr) throw_bad_alloc();
    lm_report("loam: out of memory in operator new, and no C++ library to throw bad_alloc with");
    lm_port_abort();
}

} // namespace

void *lm_new_again(size_t size, size_t align) {
    while (made_room()) {
        void *p = align == 0 ? lm_malloc(size) : lm_malloc_aligned(size, align);
        if (p != nullptr) return p;
    }
    give_up();
}

LM_OPERATOR void *operator new(size_t size) { return lm_new(size); }
LM_OPERATOR void *operator new(size_t size, std::align_val_t align) {
    return lm_new_aligned(size, align);
}
LM_OPERATOR void operator delete(void *p) noexcept { lm_free(p); }
LM_OPERATOR void operator delete(void *p, std::align_val_t align) noexcept {
    lm_free_aligned(p, size_t(align));
}

/* The same functions under names that nobody replaces; in assembly, because the compiler wants an alias
 * to repeat every attribute that it gave the operators. */
#define ALSO(name, target) __asm__(".globl " #name "\n.hidden " #name "\n.set " #name ", " #target)

ALSO(lm_our_new, _Znwm);
ALSO(lm_our_new_aligned, _ZnwmSt11align_val_t);
ALSO(lm_our_delete, _ZdlPv);
ALSO(lm_our_delete_aligned, _ZdlPvSt11align_val_t);
