/*
 * wrapped_tool.c - a preloaded tool that wraps every function of libc that libloam.so calls, and
 * allocates in each. wrapped.c runs under it.
 *
 *   loam ── pthread_setspecific ──> wrapper: saves registers, allocates ──> libc's
 *
 * wrapped_names.inc, made by wrapped.py from the library, has a line WRAP(number, function) for
 * each. A wrapper knows nothing of the function's arguments: it saves every register that may
 * hold one, and jumps to libc's function in the end. What a wrapper calls may come to a wrapper
 * again: that one allocates too, up to DEPTH_MOST of them inside of each other. The tool itself
 * calls none of libc's functions that loam might call, because these would be its own wrappers.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define WRAP(number, name) #name,
static const char *const names[] = {
#include "wrapped_names.inc"
};
#undef WRAP

enum { NAMES = sizeof names / sizeof names[0], DEPTH_MOST = 2 };

static void *real[NAMES];          /* atomic: libc's functions */
static unsigned long calls[NAMES]; /* atomic */
static __thread unsigned depth __attribute__((tls_model("initial-exec")));

/* dlsym is one of the wrapped functions; dlvsym is not. */
static void *next(const char *name) {
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    union {
        void *object;
        void *(*function)(void *, const char *);
    } find = {NULL};
    for (size_t i = 0; i < 3 && find.object == NULL; i++)
        find.object = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return find.object != NULL ? find.function(RTLD_NEXT, name) : NULL;
}

static void say(const char *text) {
    size_t length = 0;
    while (text[length] != '\0') length++;
    if (write(2, text, length) < 0) _exit(1);
}

static void die(const char *text, const char *name) {
    say(text);
    say(name);
    say("\n");
    _exit(1);
}

static int same(const char *a, const char *b) {
    for (; *a == *b && *a != '\0'; a++, b++) {}
    return *a == *b;
}

static void allocate(unsigned number) {
    void *volatile p = malloc(60), *volatile q = malloc(5000), *volatile r;
    free(p);
    p = malloc(300000);
    r = calloc(1, 3000 + number);
    q = realloc(q, 9000);
    if (p == NULL || q == NULL || r == NULL) die("a wrapper got no memory: ", names[number]);
    for (size_t i = 0; i < 3000 + number; i++) {
        if (((volatile char *)r)[i] != 0)
            die("calloc in a wrapper gave what is not zero: ", names[number]);
    }
    for (size_t i = 0; i < 9000; i++) ((volatile char *)q)[i] = 0x5a;
    free(p);
    free(q);
    free(r);
}

static void *resolve(unsigned number) {
    void *function = next(names[number]);
    if (function == NULL) die("not found: ", names[number]);
    __atomic_store_n(&real[number], function, __ATOMIC_RELAXED);
    return function;
}

/* All at once, if no wrapper was called before: a later look-up would wait for the loader's
 * lock. */
static __attribute__((constructor)) void resolve_all(void) {
    depth += DEPTH_MOST; /* dlsym may call wrapped functions */
    for (unsigned i = 0; i < NAMES; i++) (void)resolve(i);
    depth -= DEPTH_MOST;
}

/* Called by each wrapper. Returns libc's function. */
__attribute__((used, visibility("hidden"))) void *wrapped_enter(unsigned number) {
    void *function = __atomic_load_n(&real[number], __ATOMIC_RELAXED);
    if (function == NULL) {
        depth += DEPTH_MOST; /* as above */
        function = resolve(number);
        depth -= DEPTH_MOST;
    }
    (void)__atomic_add_fetch(&calls[number], 1, __ATOMIC_RELAXED);
    if (depth < DEPTH_MOST) {
        depth++;
        allocate(number);
        depth--;
    }
    return function;
}

/* For wrapped.c: how often the wrapper of that function was called. */
__attribute__((visibility("default"))) unsigned long wrapped_calls(const char *name) {
    for (size_t i = 0; i < NAMES; i++) {
        if (same(names[i], name)) return __atomic_load_n(&calls[i], __ATOMIC_RELAXED);
    }
    return 0;
}

#define BEGIN(name) \
    ".pushsection .text\n.globl " #name "\n.type " #name ", %function\n" #name ":\n.cfi_startproc\n"
#define END(name) ".cfi_endproc\n.size " #name ", .-" #name "\n.popsection\n"

#if defined(__x86_64__)
#define WRAP(number, name) \
    __asm__(BEGIN( \
        name) "sub $200, %rsp\n.cfi_adjust_cfa_offset 200\n" \
              "mov %rax, (%rsp)\nmov %rdi, 8(%rsp)\nmov %rsi, 16(%rsp)\nmov %rdx, 24(%rsp)\n" \
              "mov %rcx, 32(%rsp)\nmov %r8, 40(%rsp)\nmov %r9, 48(%rsp)\nmov %r10, 56(%rsp)\n" \
              "movups %xmm0, 64(%rsp)\nmovups %xmm1, 80(%rsp)\nmovups %xmm2, 96(%rsp)\n" \
              "movups %xmm3, 112(%rsp)\nmovups %xmm4, 128(%rsp)\nmovups %xmm5, 144(%rsp)\n" \
              "movups %xmm6, 160(%rsp)\nmovups %xmm7, 176(%rsp)\n" \
              "mov $" #number ", %edi\ncall wrapped_enter\nmov %rax, %r11\n" \
              "mov (%rsp), %rax\nmov 8(%rsp), %rdi\nmov 16(%rsp), %rsi\nmov 24(%rsp), %rdx\n" \
              "mov 32(%rsp), %rcx\nmov 40(%rsp), %r8\nmov 48(%rsp), %r9\nmov 56(%rsp), %r10\n" \
              "movups 64(%rsp), %xmm0\nmovups 80(%rsp), %xmm1\nmovups 96(%rsp), %xmm2\n" \
              "movups 112(%rsp), %xmm3\nmovups 128(%rsp), %xmm4\nmovups 144(%rsp), %xmm5\n" \
              "movups 160(%rsp), %xmm6\nmovups 176(%rsp), %xmm7\n" \
              "add $200, %rsp\n.cfi_adjust_cfa_offset -200\njmp *%r11\n" END(name));
#elif defined(__aarch64__)
#define WRAP(number, name) \
    __asm__(BEGIN(name) "stp x29, x30, [sp, #-240]!\n.cfi_def_cfa_offset 240\n" \
                        ".cfi_offset 29, -240\n.cfi_offset 30, -232\n" \
                        "stp x0, x1, [sp, #16]\nstp x2, x3, [sp, #32]\nstp x4, x5, [sp, #48]\n" \
                        "stp x6, x7, [sp, #64]\nstr x8, [sp, #80]\nstp q0, q1, [sp, #96]\n" \
                        "stp q2, q3, [sp, #128]\nstp q4, q5, [sp, #160]\nstp q6, q7, [sp, #192]\n" \
                        "mov w0, #" #number "\nbl wrapped_enter\nmov x16, x0\n" \
                        "ldp x0, x1, [sp, #16]\nldp x2, x3, [sp, #32]\nldp x4, x5, [sp, #48]\n" \
                        "ldp x6, x7, [sp, #64]\nldr x8, [sp, #80]\nldp q0, q1, [sp, #96]\n" \
                        "ldp q2, q3, [sp, #128]\nldp q4, q5, [sp, #160]\nldp q6, q7, [sp, #192]\n" \
                        "ldp x29, x30, [sp], #240\n.cfi_def_cfa_offset 0\n.cfi_restore 29\n" \
                        ".cfi_restore 30\nbr x16\n" END(name));
#else
#error "wrapped_tool.c: port WRAP"
#endif

#include "wrapped_names.inc"
