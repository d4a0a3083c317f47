/* compiler.h: the differences between compilers and between processors, and nothing more.
 *
 * No other file of the project has an #if on the compiler or the processor. It provides attributes,
 * branch hints, the thread token, and the one read-modify-write whose machine code matters. It does
 * not distinguish operating systems: that is the work of os/.
 */
#ifndef LM_BASE_COMPILER_H
#define LM_BASE_COMPILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if !defined(__GNUC__)
#error "loam needs gcc 12 or clang 16, or newer"
#endif

/* 1 iff there is an operating system with a C library. Without one, only base and family are built,
 * for any processor. The machine code below needs porting to hosted processors only. */
#define LM_HOSTED __STDC_HOSTED__

#define LM_INLINE static inline __attribute__((always_inline))
#define LM_NOINLINE __attribute__((__noinline__))
#define LM_COLD __attribute__((__noinline__, cold))
#define LM_ALIGNED(bytes) __attribute__((aligned(bytes)))
#define LM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define LM_NORETURN __attribute__((noreturn))
#define LM_EXPORT __attribute__((visibility("default")))
/* For declarations of loam's own variables: they are addressed directly, without the global offset
 * table. */
#define LM_HIDDEN __attribute__((visibility("hidden")))
/* For variables that every process reads or writes as it starts. They lie side by side in the page
 * of .data that is copied anyway. In .bss they would be scattered, and each page touched there
 * costs a fault and stays resident. */
#define LM_AT_START __attribute__((section(".data")))
#define LM_LIKELY(x) __builtin_expect(!!(x), 1)
#define LM_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Begins to load the cache line at an address. The address may be NULL or unmapped. */
#define LM_PREFETCH(address) __builtin_prefetch(address)

/* Initial-exec: one load finds the variable, without a call or a lazy allocation. It costs a few
 * bytes of static TLS, which are available even to a library that is opened late. A build with
 * -DLOAM_TLS_MODEL=global-dynamic needs no static TLS: a call finds the variable, and each thread's
 * first call allocates. */
#if LOAM_TLS_DYNAMIC
#define LM_TLS __thread
#else
#define LM_TLS __thread __attribute__((tls_model("initial-exec")))
#endif

#if defined(__SANITIZE_THREAD__)
#define LM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define LM_TSAN 1
#endif
#endif
#ifndef LM_TSAN
#define LM_TSAN 0
#endif

/* Reads a word that another thread may be writing, where any of its values will do. It is a plain
 * load, because compilers fold a plain load into the instruction that uses it, and do not fold
 * atomic loads. */
#if LM_TSAN
#define lm_peek(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#else
#define lm_peek(p) (*(p))
#endif

#if defined(__cplusplus)
#define LM_STATIC_ASSERT(cond, text) static_assert(cond, text)
#else
#define LM_STATIC_ASSERT(cond, text) _Static_assert(cond, text)
#endif

#if LM_HOSTED

/* Returns the thread pointer: a multiple of 16, never 0, and different from that of every other
 * live thread. The assembly is not volatile: the value is constant within one thread, so the
 * compiler may keep it. */
LM_INLINE uintptr_t lm_thread_token(void) {
#if defined(__x86_64__)
    uintptr_t token;
    __asm__("movq %%fs:0, %0" : "=r"(token));
    return token;
#elif defined(__aarch64__)
    uintptr_t token;
    __asm__("mrs %0, tpidr_el0" : "=r"(token));
    return token;
#else
    return (uintptr_t)__builtin_thread_pointer();
#endif
}

/* Makes a system call by instruction. So loam's calls are no cancellation points, do not touch
 * errno or thread-local memory, and cannot be diverted by another preloaded library. */
LM_INLINE intptr_t lm_syscall(long number, intptr_t a, intptr_t b, intptr_t c, intptr_t d,
                              intptr_t e, intptr_t f) {
#if defined(__x86_64__)
    register intptr_t r10 __asm__("r10") = d;
    register intptr_t r8 __asm__("r8") = e;
    register intptr_t r9 __asm__("r9") = f;
    intptr_t result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register intptr_t x0 __asm__("x0") = a;
    register intptr_t x1 __asm__("x1") = b;
    register intptr_t x2 __asm__("x2") = c;
    register intptr_t x3 __asm__("x3") = d;
    register intptr_t x4 __asm__("x4") = e;
    register intptr_t x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "lm_syscall: port me"
#endif
}

/* Returns whether thread-local storage has an address yet. It has none while a static program is
 * being relocated. */
LM_INLINE bool lm_thread_has_token(void) {
#if defined(__x86_64__)
    /* arch_prctl(ARCH_GET_FS). The instruction rdfsbase would need a kernel that enables it. */
    uintptr_t base = 0;
    (void)lm_syscall(158, 0x1003, (intptr_t)&base, 0, 0, 0, 0);
    return base != 0;
#else
    return lm_thread_token() != 0;
#endif
}

/* Marks a function that the dynamic linker resolves by calling `resolver` during relocation. */
#define LM_RESOLVED_BY(resolver) __attribute__((ifunc(resolver)))

/* Defines functions in assembly that jump to another function, which then sees their caller as its
 * own. Each calls asks(a, b, c) with its own three arguments. asks returns two words in registers:
 * the function to jump to, and a word that the macro uses as follows:
 *   LM_JUMP_WITH_SECOND(name, asks)   the second argument of that function
 *   LM_JUMP_WITH_THIRD(name, asks)    the third argument of that function
 *   LM_ANSWER_OR_JUMP(name, asks)     the result to return without a jump, if it is not 0
 * The other arguments are unchanged. There are at most three arguments, each of one word. */
#define LM_JUMP_BEGIN(name) \
    ".text\n.globl " name "\n.type " name ", %function\n.balign 16\n" name ":\n.cfi_startproc\n"
#define LM_JUMP_END(name) ".cfi_endproc\n.size " name ", . - " name "\n"
#if defined(__x86_64__)
#define LM_HAS_JUMPS 1
/* The stack is aligned to 16 bytes at the call. asks returns its words in rax and rdx; rdx is also
 * the register of the third argument. */
#define LM_JUMP(name, asks, then) \
    __asm__(LM_JUMP_BEGIN( \
        name) "endbr64\n" \
              "push %rdi\npush %rsi\npush %rsi\n.cfi_adjust_cfa_offset 24\n" \
              "call " asks "\n" \
              "pop %rsi\npop %rsi\npop %rdi\n.cfi_adjust_cfa_offset -24\n" then LM_JUMP_END(name))
#define LM_JUMP_WITH_SECOND(name, asks) LM_JUMP(name, asks, "mov %rdx, %rsi\njmp *%rax\n")
#define LM_JUMP_WITH_THIRD(name, asks) LM_JUMP(name, asks, "jmp *%rax\n")
#define LM_ANSWER_OR_JUMP(name, asks) \
    LM_JUMP(name, asks, "test %rdx, %rdx\njne 1f\njmp *%rax\n1: mov %rdx, %rax\nret\n")
#elif defined(__aarch64__)
#define LM_HAS_JUMPS 1
/* hint 34 (BTI) permits an indirect call to enter here. asks returns its words in x0 and x1. */
#define LM_JUMP(name, asks, then) \
    __asm__(LM_JUMP_BEGIN( \
        name) "hint 34\n" \
              "stp x29, x30, [sp, -32]!\n.cfi_def_cfa_offset 32\n" \
              ".cfi_offset 29, -32\n.cfi_offset 30, -24\n" \
              "stp x0, x1, [sp, 16]\nbl " asks "\nmov x16, x0\nmov x17, x1\n" \
              "ldp x0, x1, [sp, 16]\nldp x29, x30, [sp], 32\n" \
              ".cfi_restore 30\n.cfi_restore 29\n.cfi_def_cfa_offset 0\n" then LM_JUMP_END(name))
#define LM_JUMP_WITH_SECOND(name, asks) LM_JUMP(name, asks, "mov x1, x17\nbr x16\n")
#define LM_JUMP_WITH_THIRD(name, asks) LM_JUMP(name, asks, "mov x2, x17\nbr x16\n")
#define LM_ANSWER_OR_JUMP(name, asks) \
    LM_JUMP(name, asks, "cbnz x17, 1f\nbr x16\n1: mov x0, x17\nret\n")
#else
#define LM_HAS_JUMPS 0
#endif

/* Starts a thread that libc does not know: clone, then entry() on the new stack, then the exit
 * call. stack_top is aligned to 16 bytes. entry never sees this frame. Returns clone's result. */
LM_INLINE intptr_t lm_clone_call(long clone_number, long exit_number, intptr_t flags,
                                 void *stack_top, uint32_t *tid, void *tls, void (*entry)(void)) {
#if defined(__x86_64__)
    register intptr_t r10 __asm__("r10") = (intptr_t)tid;
    register intptr_t r8 __asm__("r8") = (intptr_t)tls;
    register void (*r12)(void) __asm__("r12") = entry;
    register intptr_t r13 __asm__("r13") = exit_number;
    intptr_t result;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "call *%%r12\n\t"
                     "mov %%r13, %%rax\n\t"
                     "xor %%edi, %%edi\n\t"
                     "syscall\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(result)
                     : "a"(clone_number), "D"(flags), "S"(stack_top), "d"(tid), "r"(r10), "r"(r8),
                       "r"(r12), "r"(r13)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = clone_number;
    register intptr_t x0 __asm__("x0") = flags;
    register void *x1 __asm__("x1") = stack_top;
    register void *x2 __asm__("x2") = tid;
    register void *x3 __asm__("x3") = tls;
    register void *x4 __asm__("x4") = tid;
    register void (*x20)(void) __asm__("x20") = entry;
    register long x21 __asm__("x21") = exit_number;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "blr x20\n\t"
                     "mov x8, x21\n\t"
                     "mov x0, xzr\n\t"
                     "svc 0\n\t"
                     "brk 1\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x20), "r"(x21)
                     : "x30", "memory");
    return x0;
#else
#error "lm_clone_call: port me"
#endif
}

/* Numbers of system calls that override/syscall.c compares with. linux_doors.c checks them. */
#if defined(__x86_64__)
#define LM_AUDIT_ARCHITECTURE 0xc000003eu /* field arch of struct seccomp_data */
#define LM_CALL_PRCTL 157
#define LM_CALL_SECCOMP 317
#define LM_CALL_UNSHARE 272
#define LM_CALL_SETNS 308
#elif defined(__aarch64__)
#define LM_AUDIT_ARCHITECTURE 0xc00000b7u
#define LM_CALL_PRCTL 167
#define LM_CALL_SECCOMP 277
#define LM_CALL_UNSHARE 97
#define LM_CALL_SETNS 268
#endif

/* Defines a global function `name` in assembly, outside of any function. If its first argument, an
 * int, is one of the four numbers a to d, it jumps to the function `door`; otherwise it jumps to
 * the address in the variable `next`. Arguments and return address stay in place, so the target
 * cannot see the jump; C cannot promise that. `door` and `next` must be hidden. */
#define LM_AS_TEXT(number) LM_AS_TEXT_AGAIN(number)
#define LM_AS_TEXT_AGAIN(number) #number
/* clang-format off */
#if defined(__x86_64__)
#define LM_TO_DOOR_IF(number, door) "cmp $" LM_AS_TEXT(number) ", %edi\n je " #door "\n"
#define LM_TO_NEXT(next) "jmp *" #next "(%rip)\n"
#define LM_ENTRY "endbr64\n" /* permits an indirect call to enter here */
#elif defined(__aarch64__)
#define LM_TO_DOOR_IF(number, door) "cmp w0, " LM_AS_TEXT(number) "\n b.eq " #door "\n"
#define LM_TO_NEXT(next) "adrp x16, " #next "\n ldr x16, [x16, :lo12:" #next "]\n br x16\n"
#define LM_ENTRY "hint 34\n" /* permits an indirect call; a number, for older assemblers */
#endif
#define LM_JUMP_BY_NUMBER(name, door, next, a, b, c, d) \
    __asm__(".text\n.globl " #name "\n.type " #name ", %function\n.balign 16\n" #name ":\n" \
            ".cfi_startproc\n" LM_ENTRY LM_TO_DOOR_IF(a, door) LM_TO_DOOR_IF(b, door) \
            LM_TO_DOOR_IF(c, door) LM_TO_DOOR_IF(d, door) LM_TO_NEXT(next) \
            ".cfi_endproc\n.size " #name ", . - " #name "\n")
/* clang-format on */

#endif /* LM_HOSTED */

/* Decrements *count and returns whether it reached 0. Only one thread writes *count; others may
 * read it (the worker inspects an idle owner's page). Release: a thread that sees the new value
 * also sees what this thread wrote before. On x86-64 every store has release ordering, so a single
 * plain decrement suffices. It is written in assembly because C would need three instructions. */
LM_INLINE bool lm_count_down(uint32_t *count) {
#if defined(__x86_64__) && !LM_TSAN
    bool zero;
    __asm__("decl %1" : "=@ccz"(zero), "+m"(*count) : : "memory");
    return zero;
#else
    uint32_t left = __atomic_load_n(count, __ATOMIC_RELAXED) - 1;
    __atomic_store_n(count, left, __ATOMIC_RELEASE);
    return left == 0;
#endif
}

/* 1 iff Valgrind's client requests are available: instructions that do nothing outside of
 * Valgrind. */
#if LM_HOSTED && defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#define LM_VALGRIND 1
#endif
#endif
#ifndef LM_VALGRIND
#define LM_VALGRIND 0
#endif

/* For code that reads memory regardless of what a sanitizer has marked there. */
#define LM_READS_ANYTHING __attribute__((no_sanitize("address")))

/* For a function of the worker that ends the worker. Before a call that does not return,
 * AddressSanitizer asks the C library for the bounds of the thread's stack, and the C library does
 * not know the worker. */
#define LM_ENDS_WORKER __attribute__((noinline, no_sanitize("address")))

/* For code that reads single words which another thread may write without synchronisation. The
 * result is only a guess. */
#define LM_READS_RACING __attribute__((noinline, no_sanitize("thread")))

/* 1 iff signal frames contain the address of the restorer that sigaction was given. */
#if defined(__x86_64__)
#define LM_SIGNAL_RESTORER 1
#else
#define LM_SIGNAL_RESTORER 0
#endif

/* Numbers of registers in call frame information; lm_code_address, which removes a signature from
 * the upper bits of a code address; and the registers in a signal handler's context (a ucontext_t).
 * LM_CONTEXT_WRITES is 1 iff the access was a write, and -1 if the processor does not tell. */
#if defined(__x86_64__)
enum { LM_REGISTER_FP = 6, LM_REGISTER_SP = 7 };
#define lm_code_address(address) (address)
#define LM_CONTEXT_PC(c) ((uintptr_t)(c)->uc_mcontext.gregs[16])
#define LM_CONTEXT_SP(c) ((uintptr_t)(c)->uc_mcontext.gregs[15])
#define LM_CONTEXT_FP(c) ((uintptr_t)(c)->uc_mcontext.gregs[10])
#define LM_CONTEXT_LINK(c) ((uintptr_t)0 * (uintptr_t)(c))
/* Bit 1 of the page fault's error code is set iff the access was a write. */
#define LM_CONTEXT_WRITES(c) ((int)((c)->uc_mcontext.gregs[19] >> 1 & 1))
#elif defined(__aarch64__)
enum { LM_REGISTER_FP = 29, LM_REGISTER_SP = 31 };
#define lm_code_address(address) ((address) & (((uintptr_t)1 << 48) - 1))
#define LM_CONTEXT_PC(c) ((uintptr_t)(c)->uc_mcontext.pc)
#define LM_CONTEXT_SP(c) ((uintptr_t)(c)->uc_mcontext.sp)
#define LM_CONTEXT_FP(c) ((uintptr_t)(c)->uc_mcontext.regs[29])
#define LM_CONTEXT_LINK(c) ((uintptr_t)(c)->uc_mcontext.regs[30])
#define LM_CONTEXT_WRITES(c) (-1)
#endif

/* Asks the compiler to keep the pointer p in the register that functions return in. Otherwise
 * compilers move it there at the end: one more instruction on a path of twelve. */
#if defined(__x86_64__)
#define LM_IN_RETURN_REGISTER(p) __asm__("" : "+a"(p))
#else
#define LM_IN_RETURN_REGISTER(p) ((void)0)
#endif

/* Adds to a word that only this thread writes and others may read. It takes one instruction;
 * compilers emit more for an atomic load and store. */
#if LM_TSAN
#define lm_owner_add(p, n) lm_store_relaxed((p), lm_load_relaxed(p) + (n))
#else
#define lm_owner_add(p, n) ((void)(*(p) += (n)))
#endif

/* Prevents compilers from merging this code with other code that does the same and jumping to it.
 * Each use needs a distinct name, which becomes the text of an assembly comment. */
#define LM_KEEP_APART(name) __asm__ volatile("/* " name " */")

/* lm_ticks returns a counter that advances evenly and takes about 10 ns or less to read. Its
 * frequency must be measured. LM_TICKS is 1 iff the processor has such a counter that programs may
 * read. */
#if defined(__x86_64__) || defined(__aarch64__)
#define LM_TICKS 1
#else
#define LM_TICKS 0
#endif
LM_INLINE uint64_t lm_ticks(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return 0;
#endif
}

/* ---- Copies in large pieces ---- */

/* LM_WIDE_CODE: the function may use vectors of 32 bytes, and may be called iff lm_cpu_has_wide().
 * lm_string_copy and lm_string_fill are single instructions of the processor, which are fast iff
 * lm_cpu_has_strings(). */
#if defined(__x86_64__)
#define LM_WIDE_CODE __attribute__((target("avx")))

LM_INLINE void lm_cpuid(uint32_t leaf, uint32_t *b, uint32_t *c) {
    uint32_t a = leaf, d;
    *c = 0;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(*b), "+c"(*c), "=d"(d));
}

/* Returns whether the processor has AVX and the system saves its registers. */
LM_INLINE bool lm_cpu_has_wide(void) {
    uint32_t b, c, low, high;
    lm_cpuid(1, &b, &c);
    /* AVX and OSXSAVE; xgetbv needs the latter. */
    if ((c & (3u << 27)) != 3u << 27) return false;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & 6) == 6;
}

/* Returns whether rep movsb and rep stosb are fast (ERMS). May be called only if lm_cpu_has_wide(),
 * which ensures that leaf 7 exists. */
LM_INLINE bool lm_cpu_has_strings(void) {
    uint32_t b, c;
    lm_cpuid(7, &b, &c);
    return (b >> 9 & 1) != 0;
}

LM_INLINE void lm_string_copy(void *to, const void *from, size_t bytes) {
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

LM_INLINE void lm_string_fill(void *to, int byte, size_t bytes) {
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(byte) : "memory");
}
#else
#define LM_WIDE_CODE
LM_INLINE bool lm_cpu_has_wide(void) { return false; }
LM_INLINE bool lm_cpu_has_strings(void) { return false; }
LM_INLINE void lm_string_copy(void *to, const void *from, size_t bytes) {
    (void)to, (void)from, (void)bytes;
    __builtin_unreachable();
}
LM_INLINE void lm_string_fill(void *to, int byte, size_t bytes) {
    (void)to, (void)byte, (void)bytes;
    __builtin_unreachable();
}
#endif

/* Tells the processor that this is a spin loop. */
LM_INLINE void lm_cpu_relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
