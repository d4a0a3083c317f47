/* common.c: main of every program of mistakes, and what its cases end with (misuse.h). */
#define _GNU_SOURCE
#include "misuse.h"
#include <pthread.h>
#include <sys/syscall.h>

static struct misuse_case *cases;
static struct misuse_case **last = &cases;

/* By constructors, in the order of the file. */
void enter(struct misuse_case *one) {
    *last = one;
    last = &one->next;
}

/* By write(2): stdio would allocate, and what is in its buffers is lost when the process dies. */
static void say(const char *line) {
    size_t bytes = strlen(line);
    if (write(STDOUT_FILENO, line, bytes) != (ssize_t)bytes) _exit(4);
}

/* Says whom a report will be about, and that the case has come as far as its mistake. */
void expect(const void *p) {
    char line[80];
    snprintf(line, sizeof(line), "pointer 0x%lx thread %ld\n", (unsigned long)(uintptr_t)p,
             (long)syscall(SYS_gettid));
    say(line);
}

void not_set_up(const char *why) {
    say("not set up: ");
    say(why);
    say("\n");
    _exit(5);
}

/* Runs the body in a thread of its own, to its end. */
void in_another_thread(void *(*body)(void *), void *argument) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument) != 0) not_set_up("no thread");
    pthread_join(thread, NULL);
}

/* Changes every byte from there upward, or, for a negative number, those before, downward from the
 * nearest: each becomes another value than it was, whatever that was. A loop of plain stores. */
void spoil(void *from, ptrdiff_t bytes) {
    volatile char *p = (volatile char *)from;
    for (ptrdiff_t i = 0; i < bytes; i++) p[i] ^= 0x41;
    for (ptrdiff_t i = -1; i >= bytes; i--) p[i] ^= 0x41;
}

void fill(void *p, size_t bytes, uint64_t secret) {
    for (size_t at = 0; at + 8 <= bytes; at += 8) memcpy((char *)p + at, &secret, 8);
}

/* Whether there is one whole word of what fill() has written. */
bool holds(const void *p, size_t bytes, uint64_t secret) {
    for (size_t at = 0; at + 8 <= bytes; at += 8) {
        if (memcmp((const char *)p + at, &secret, 8) == 0) return true;
    }
    return false;
}

/* Blocks of the size, in use; the one that will be damaged is among them, and is freed first. */
enum { AROUND = 8, DAMAGED = 3 };
static char *around[AROUND];

char *neighbours(size_t size) {
    for (int i = 0; i < AROUND; i++) around[i] = block(size);
    expect(around[DAMAGED]);
    return around[DAMAGED];
}

void damaged_moved(char *p) { around[DAMAGED] = p; }

void neighbours_freed(size_t size) {
    free(hide(around[DAMAGED]));
    for (int i = 0; i < AROUND; i++) {
        if (i != DAMAGED) free(around[i]);
    }
    survived(size);
}

/* C23's function, which allocators have that C libraries lack. */
__attribute__((weak)) void free_sized(void *p, size_t size);

void free_of_size(void *p, size_t size) {
    if (free_sized != NULL) {
        free_sized(p, size);
    } else {
        free(p);
    }
}

/* ---- the end of a case ----------------------------------------------------------------------- */

enum { LIVE_MAX = 4096 };
static uint64_t *live[LIVE_MAX];
static const uint64_t mark = 0x6c6f616d77000000; /* with a block's index in every word of it */

/* The mistake had its effect: this comes before any crash that may follow from it. */
__attribute__((noreturn)) static void two_owners(void) {
    say("survived, and memory in use was handed out again\n");
    _exit(43);
}

static size_t size_of(int i, size_t size, size_t step) { return size + (size_t)i * step % 5000; }

static void taken(int i, size_t size) {
    uint64_t *p = live[i] = (uint64_t *)malloc(size);
    if (p == NULL) not_set_up("no memory after the mistake");
    uint64_t other = p[1] - mark;
    if (other < (uint64_t)i && live[other] == p) two_owners();
    for (size_t at = 0; at < size / 8; at++) p[at] = mark + (uint64_t)i;
}

static void given(int i, size_t size) {
    for (size_t at = 0; at < size / 8; at++) {
        if (live[i][at] != mark + (uint64_t)i) two_owners();
    }
    free(live[i]);
}

/* Many blocks at once, written, read, freed: every second one first. */
static void many(int count, size_t size, size_t step) {
    for (int i = 0; i < count; i++) taken(i, size_of(i, size, step));
    for (int i = 0; i < count; i += 2) given(i, size_of(i, size, step));
    for (int i = 1; i < count; i += 2) given(i, size_of(i, size, step));
}

/* The fixed amount of ordinary work: three times so many blocks of the size at once that every free
 * one is used, then one at a time, so often that queues of freed blocks run through, then all
 * sizes. */
void survived(size_t size) {
    say("work\n");
    if (size < 16) size = 16;
    int count = size <= 1024 ? LIVE_MAX : size <= 65536 ? 512 : size <= MIB ? 24 : 6;
    for (int round = 0; round < 3; round++) many(count, size, 0);
    for (int i = 0; i < (size <= 65536 ? 65536 : size <= MIB ? 2048 : 128); i++) {
        char *p = hide(malloc(size));
        if (p == NULL) not_set_up("no memory after the mistake");
        *p = 1;
        free(p);
    }
    many(600, 16, 37);
    say("survived\n");
    _exit(42);
}

void judged(bool bad) {
    say(bad ? "survived\n" : "prevented\n");
    _exit(bad ? 42 : 0);
}

int main(int argc, char **argv) {
    bool list = argc == 2 && strcmp(argv[1], "--list") == 0;
    for (struct misuse_case *one = cases; one != NULL; one = one->next) {
        if (list) {
            say(one->name);
            say(one->counted ? "\tcounted\t" : "\textra\t");
            say(one->what);
            say("\n");
        } else if (argc == 2 && strcmp(argv[1], one->name) == 0) {
            one->run();
            say("a case has to end in survived() or judged()\n");
            return 6;
        }
    }
    if (list) return 0;
    say("usage: one case's name, or --list\n");
    return 2;
}
