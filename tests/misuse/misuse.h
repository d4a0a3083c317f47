/* misuse.h: what the one-mistake programs share.
 *
 * A program makes one mistake and then goes on as if nothing had happened. Before the mistake it names
 * on standard output the pointer and the thread that the report has to name; misuse.py, which holds
 * the table of what each build must catch, compares. Where errors are ignored the program has to come
 * to its end, and the heap has to be usable: still_works() sees to that.
 */
#ifndef LOAM_TESTS_MISUSE_H
#define LOAM_TESTS_MISUSE_H

#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The same pointer, of unknown origin to the compiler, which would otherwise warn or "optimise". */
static inline void *hide(void *p) {
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

/* Says whom the report will be about, by write(2): stdio would allocate in between. */
static inline void expect(const void *p) {
    char line[80];
    int bytes = snprintf(line, sizeof(line), "pointer 0x%lx thread %ld\n",
                         (unsigned long)(uintptr_t)p, (long)syscall(SYS_gettid));
    if (write(STDOUT_FILENO, line, (size_t)bytes) != bytes) _exit(4);
}

/* Runs the body in a thread of its own, to its end. */
static inline void in_another_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument) != 0) _exit(5);
    pthread_join(thread, NULL);
}

/* The exit status: 0 iff the heap still hands out memory that nobody else has. */
static inline int still_works(void) {
    enum { COUNT = 600 };
    static unsigned char *block[COUNT];
    for (int i = 0; i < COUNT; i++) {
        size_t size = 16 + (size_t)(i * 37 % 5000);
        block[i] = malloc(size);
        if (block[i] == NULL) return 3;
        memset(block[i], i, size);
    }
    for (int i = 0; i < COUNT; i++) {
        size_t size = 16 + (size_t)(i * 37 % 5000);
        for (size_t at = 0; at < size; at++) {
            if (block[i][at] != (unsigned char)i) return 3;
        }
        free(block[i]);
    }
    return 0;
}

#endif
