// fragmentation.c: a heap that grows, is punched full of holes, changes its sizes, and shrinks.
//
// Asks: how much memory stays resident for what is still in use? Over time:
//   grow     small blocks, up to --live MiB
//   punch    four fifths of them go: most at random, so that pages stay with one block or two; a
//            run of neighbours here and there, so that some come free as a whole
//   change   blocks of other, larger sizes, until as much is live as before
//   punch    four fifths of these go too
//   drop     all but a fiftieth of everything goes
//   idle     nothing for --idle ms, twice, with a few calls between: some give memory back by a
//            clock, some only when they are called
// The runner samples the resident memory from outside; with --phases yes, each phase's end is a
// line on stderr with the time and the memory. Time is not the point here: the CPU time is short,
// and the wall time is mostly sleep. Cannot show many threads.
#include "workload.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static uint64_t megabytes = 96, idle = 1000, phases;

typedef struct {
    void *block;
    uint32_t size;
    unsigned char tag;
} Slot;

static Slot *slots;
static uint64_t used, live_bytes; // slots ever filled; bytes in blocks now
static WlTally tally;

static void sleep_ms(uint64_t ms) {
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0) {}
}

static uint64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

// Resident memory; without stdio, which would allocate.
static uint64_t resident_kib(void) {
    char text[128] = {0};
    unsigned long all = 0, resident = 0;
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0 ||
        sscanf(text, "%lu %lu", &all, &resident) != 2) {
        wl_fail("cannot read /proc/self/statm");
    }
    close(file);
    return (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void end_phase(const char *name) {
    static uint64_t start;
    if (start == 0) start = now_ms();
    if (phases) {
        dprintf(STDERR_FILENO, "fragmentation: at %ju ms: %s, live %ju KiB, resident %ju KiB\n",
                (uintmax_t)(now_ms() - start), name, (uintmax_t)(live_bytes / 1024),
                (uintmax_t)resident_kib());
    }
    sleep_ms(idle / 10); // a step in the curve, where the samples can see it
}

static void grow(uint64_t bytes, uint64_t least, uint64_t most, uint64_t room, WlRandom *random) {
    while (live_bytes < bytes && used < room) {
        Slot *slot = &slots[used++];
        slot->size = (uint32_t)wl_skewed(random, least, most);
        slot->tag = (unsigned char)wl_next(random);
        slot->block = wl_malloc(slot->size);
        wl_write(slot->block, slot->size, slot->tag);
        live_bytes += slot->size;
        tally.ops++;
    }
}

static void release(Slot *slot) {
    if (slot->block == NULL) return;
    tally.sum += wl_check(slot->block, slot->size, slot->tag);
    free(slot->block);
    slot->block = NULL;
    live_bytes -= slot->size;
    tally.ops++;
}

// Frees `out_of` less one of `out_of` blocks from `first` on, now and then a run of neighbours.
static void punch(uint64_t first, uint64_t out_of, WlRandom *random) {
    for (uint64_t at = first; at < used; at++) {
        if (wl_below(random, 2000) == 0) {
            for (uint64_t run = wl_between(random, 50, 500); run > 0 && at < used; run--) {
                release(&slots[at++]);
            }
            continue;
        }
        if (wl_below(random, out_of) != 0) release(&slots[at]);
    }
}

static WlTally body(WlWorker *me) {
    const uint64_t bytes = wl_scaled(megabytes << 20);
    const uint64_t room = bytes / 64; // the mean of the smaller sizes is some 350 bytes
    slots = wl_table(room, sizeof(Slot));
    end_phase("start");
    grow(bytes, 12, 1500, room, &me->random);
    end_phase("grown");
    punch(0, 5, &me->random);
    end_phase("punched");
    uint64_t second = used;
    grow(bytes, 700, 12000, room, &me->random);
    end_phase("changed to larger sizes");
    punch(second, 5, &me->random);
    end_phase("punched again");
    punch(0, 10, &me->random);
    end_phase("dropped");
    sleep_ms(idle);
    end_phase("idle");
    grow(live_bytes + 100000, 12, 1500, room, &me->random);
    sleep_ms(idle);
    end_phase("idle after a few calls");
    for (uint64_t at = 0; at < used; at++) release(&slots[at]);
    return tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {
        {"--live", &megabytes, 1, 100000, "MiB at the peaks, at --scale 1"},
        {"--idle", &idle, 0, 60000, "ms, twice; a tenth of it after each phase"},
        {"--phases", &phases, 0, 0, "no|yes"},
        {0},
    };
    wl_begin(argc, argv, "fragmentation", WL_SINGLE, options);
    return wl_end(wl_run(1, body, NULL));
}
