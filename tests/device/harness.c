/* harness.c: the test framework of harness.h, and loam's port functions as tests need them. */
#include "harness.h"

#include "loam/port.h"

extern const struct device_test *const __start_device_tests[];
extern const struct device_test *const __stop_device_tests[];

void *device_jump[5];
static bool abort_expected, aborted;
static unsigned failures, locks; /* locks: bits of those taken */
static char said[2048];
static size_t said_bytes;

static size_t length_of(const char *text) {
    size_t n = 0;
    while (text[n] != '\0') n++;
    return n;
}

static void show(const char *text) { board_write(text, length_of(text)); }

static void show_number(uintptr_t number) {
    char digits[24];
    char *at = digits + sizeof(digits);
    *--at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    show(at);
}

static void show_failure(const char *text, const char *file, int line) {
    failures++;
    show(file);
    show(":");
    show_number((uintptr_t)line);
    show(": failed: ");
    show(text);
    show("\n");
}

void device_check(bool good, const char *text, const char *file, int line) {
    if (!good) show_failure(text, file, line);
}

void device_check_equal(uintptr_t a, uintptr_t b, const char *text, const char *file, int line) {
    if (a == b) return;
    show_failure(text, file, line);
    show("    ");
    show_number(a);
    show(" and ");
    show_number(b);
    show("\n");
}

void device_expect_abort(void) {
    device_forget();
    abort_expected = true;
    aborted = false;
}

void device_no_abort(void) { abort_expected = false; }

void device_check_said(const char *text, const char *what, const char *file, int line) {
    if (aborted && device_said_times(text) > 0) return;
    show_failure(what, file, line);
    show(aborted ? "    loam said: " : "    it came back; loam said: ");
    show(said_bytes > 0 ? said : "nothing\n");
}

const char *device_said(void) { return said; }

void device_forget(void) {
    said_bytes = 0;
    said[0] = '\0';
}

unsigned device_said_times(const char *text) {
    size_t length = length_of(text);
    unsigned times = 0;
    for (size_t at = 0; at + length <= said_bytes; at++) {
        size_t same = 0;
        while (same < length && said[at + same] == text[same]) same++;
        times += same == length;
    }
    return times;
}

uint32_t device_random(uint32_t *state, uint32_t below) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % below;
}

/* ---- loam's port ---- */

void loam_port_write(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes && said_bytes < sizeof(said) - 1; i++)
        said[said_bytes++] = text[i];
    said[said_bytes] = '\0';
}

void loam_port_abort(void) {
    if (!abort_expected) {
        show("loam aborts: ");
        show(said);
        board_exit(2);
    }
    abort_expected = false;
    aborted = true;
    locks = 0; /* a check of the whole registry aborts inside */
    __builtin_longjmp(device_jump, 1);
}

void loam_port_lock(unsigned lock) {
    if (lock >= LOAM_PORT_LOCKS || locks >> lock != 0)
        show_failure("a lock is taken twice, or out of order", __FILE__, __LINE__);
    locks |= 1U << lock;
}

void loam_port_unlock(unsigned lock) {
    if (locks >> lock != 1)
        show_failure("a lock is given back that is not held last", __FILE__, __LINE__);
    locks &= ~(1U << lock);
}

unsigned loam_port_thread(void) { return 7; }

/* ---- All tests of a program ---- */

int main(void) {
    unsigned tests = 0;
    for (const struct device_test *const *test = __start_device_tests; test < __stop_device_tests;
         test++, tests++) {
        unsigned before = failures;
        device_forget();
        (*test)->run();
        show(failures == before ? "passed  " : "FAILED  ");
        show((*test)->name);
        show("\n");
        if (locks != 0) show_failure("a lock is still held", (*test)->name, 0);
    }
    if (tests == 0) show_failure("the program has no test", __FILE__, __LINE__);
    show_number(tests);
    show(" tests, ");
    show_number(failures);
    show(" failed checks, stack ");
    show_number(board_stack_used());
    show(" bytes\n");
    return failures == 0 ? 0 : 1;
}
