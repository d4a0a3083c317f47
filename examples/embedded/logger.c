/* logger.c: the firmware of a sensor logger. It allocates all the time, and has no heap.
 *
 * Three sensors are measured at their own rates. Every 50 ticks the samples become a report:
 * smallest, median and largest value of each sensor, as text. Reports wait as messages until the
 * radio has a link, which it has half of the time; then one goes out each tick, and bad news first.
 *
 *   sensors ──> samples ──> report ──> message ──> radio
 *               a pool:     a region:  blocks:
 *               one size,   any sizes, a few sizes,
 *               ended one   ended all  ended one by one,
 *               by one      at once    in any order
 *
 * All three stand on static arrays: what they can hold is decided here, by the linker's map, and
 * when one is full the firmware loses the oldest of what it has, and counts. Time and values are
 * made up, so that every run does the same, on the board and at the desk; the last lines are
 * compared with what must come out.
 */
#include "board.h"

#include "loam/blocks.h"
#include "loam/pool.h"
#include "loam/port.h"
#include "loam/region.h"

enum {
    SENSORS = 3,
    TICKS = 4000,
    REPORT_EVERY = 50,
    LINK_CHANGES_EVERY = 500,
    SAMPLES = 72, /* a report's worth, but not when all three sensors are busy */
    MESSAGES_EACH = 6,
};

/* ---- Memory. A checked build has guards around each object: the same numbers of objects need more
 * ---- */

#if LOAM_CHECKED
#define PER_OBJECT 192
#else
#define PER_OBJECT 0
#endif

typedef struct sample {
    struct sample *next;
    uint32_t tick;
    uint16_t sensor, value;
} sample;

typedef struct message {
    struct message *next;
    uint16_t bytes;
    bool urgent;
} message;
enum { MESSAGE_HEAD = 16, LONGEST_MESSAGE = 160 - MESSAGE_HEAD }; /* the text follows */

static const uint32_t message_sizes[] = {48, 96, 160}; /* blocks; those of a message and its text */

static _Alignas(16) char sample_memory[SAMPLES * (sizeof(sample) + PER_OBJECT)];
static _Alignas(16) char message_memory[LOAM_BLOCKS_BYTES(48 + 96 + 160, 3, 160, MESSAGES_EACH)];
_Static_assert(sizeof(message) <= MESSAGE_HEAD, "the text would lie in the message");
static _Alignas(16) char report_memory[2048 + 16 * PER_OBJECT];

static loam_pool samples;
static loam_blocks messages;
static loam_buffer report_buffer;
static loam_region report;

/* ---- The state of the logger ---- */

static sample *oldest_sample, *newest_sample;
static message *first_message;
static struct {
    uint32_t measured, samples_lost, reports, messages_lost, sent, sent_bytes, sum;
} counts;

/* ---- What loam needs to know about this device ---- */

void loam_port_write(const char *text, size_t bytes) { board_write(text, bytes); }
void loam_port_abort(void) { board_exit(4); }

/* ---- Text, in memory of the region: it grows in place, since it is the last object there ---- */

typedef struct text {
    char *at;
    size_t used, room;
} text;

static void add_char(text *t, char c) {
    if (t->used == t->room) {
        size_t room = t->room + 16;
        char *moved = loam_region_realloc(&report, t->at, t->room, room);
        if (moved == NULL) return; /* a report is cut, not lost */
        t->at = moved;
        t->room = room;
    }
    t->at[t->used++] = c;
}

static void add(text *t, const char *words) {
    while (*words != '\0') add_char(t, *words++);
}

static void add_number(text *t, uint32_t number) {
    char digits[10];
    int n = 0;
    do digits[n++] = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    while (n > 0) add_char(t, digits[--n]);
}

/* ---- Sensors ---- */

static uint32_t noise;

static uint16_t sensor_value(unsigned sensor, uint32_t tick) {
    noise = noise * 1664525 + 1013904223;
    return (uint16_t)(1000 * (sensor + 1) + tick % 97 + (noise >> 24));
}

static sample *take_oldest(void) {
    sample *s = oldest_sample;
    oldest_sample = s->next;
    if (oldest_sample == NULL) newest_sample = NULL;
    return s;
}

static void measure(unsigned sensor, uint32_t tick) {
    sample *s = loam_pool_alloc(&samples);
    if (s == NULL) { /* full: the oldest one makes room */
        loam_pool_free(&samples, take_oldest());
        counts.samples_lost++;
        s = loam_pool_alloc(&samples);
    }
    *s = (sample){.tick = tick, .sensor = (uint16_t)sensor, .value = sensor_value(sensor, tick)};
    if (newest_sample != NULL)
        newest_sample->next = s;
    else
        oldest_sample = s;
    newest_sample = s;
    counts.measured++;
}

/* ---- Messages ---- */

static char *text_of(message *m) { return (char *)m + MESSAGE_HEAD; }

/* The last that is not urgent goes, or else the last; some class is full, so there is one. */
static void lose_message(void) {
    message **link = &first_message, **victim = NULL;
    for (; *link != NULL; link = &(*link)->next) {
        if (victim == NULL || !(*link)->urgent || (*victim)->urgent) victim = link;
    }
    message *lost = *victim;
    *victim = lost->next;
    loam_blocks_free(&messages, lost);
    counts.messages_lost++;
}

static void post(const char *words, size_t bytes, bool urgent) {
    if (bytes > LONGEST_MESSAGE) bytes = LONGEST_MESSAGE;
    message *m;
    while ((m = loam_blocks_alloc(&messages, MESSAGE_HEAD + bytes)) == NULL) lose_message();
    *m = (message){.bytes = (uint16_t)bytes, .urgent = urgent};
    for (size_t i = 0; i < bytes; i++) text_of(m)[i] = words[i];
    message **link = &first_message;
    while (*link != NULL && (!urgent || (*link)->urgent)) link = &(*link)->next;
    m->next = *link;
    *link = m;
}

static void send_one(void) {
    message *m = first_message;
    first_message = m->next;
    for (size_t i = 0; i < m->bytes; i++)
        counts.sum = counts.sum * 31 + (unsigned char)text_of(m)[i];
    counts.sent++;
    counts.sent_bytes += m->bytes;
    loam_blocks_free(&messages, m);
}

/* ---- Reports: arrays and text in the region, all of it gone at the end ---- */

static void sort(uint16_t *values, size_t count) {
    for (size_t i = 1; i < count; i++) {
        uint16_t value = values[i];
        size_t at = i;
        for (; at > 0 && values[at - 1] > value; at--) values[at] = values[at - 1];
        values[at] = value;
    }
}

static void write_report(uint32_t tick) {
    uint16_t *values[SENSORS];
    size_t found[SENSORS] = {0}, next[SENSORS] = {0};
    for (sample *s = oldest_sample; s != NULL; s = s->next) found[s->sensor]++;
    for (unsigned i = 0; i < SENSORS; i++)
        values[i] = LOAM_REGION_ARRAY(&report, uint16_t, found[i] + 1);
    while (oldest_sample != NULL) {
        sample *s = take_oldest();
        if (values[s->sensor] != NULL) values[s->sensor][next[s->sensor]++] = s->value;
        loam_pool_free(&samples, s);
    }

    text t = {0};
    bool urgent = false;
    add(&t, "t");
    add_number(&t, tick);
    for (unsigned i = 0; i < SENSORS; i++) {
        if (next[i] == 0) continue;
        sort(values[i], next[i]);
        add(&t, " s");
        add_number(&t, i);
        for (unsigned part = 0; part < 3; part++) {
            add_char(&t, part == 0 ? ':' : '/');
            add_number(&t, values[i][part * (next[i] - 1) / 2]);
        }
        if (values[i][next[i] - 1] > 1000 * (i + 1) + 340) urgent = true;
    }
    if (urgent) add(&t, " ALARM: a value beyond its limit; see the manual, chapter 7");
    if (tick % 700 == 0) add(&t, " battery 3012 mV, 21 degrees, uptime good, radio 7, calibrated");
    post(t.at, t.used, urgent);
    loam_region_reset(&report);
    counts.reports++;
}

/* ---- Start, the loop, and the account in the end ---- */

static int start(void) {
    const loam_pool_options of_samples = {.most_blocks = SAMPLES, .name = "samples"};
    const loam_blocks_options of_messages = {.memory = message_memory,
                                             .memory_bytes = sizeof(message_memory),
                                             .classes = message_sizes,
                                             .class_count = 3,
                                             .blocks_each = MESSAGES_EACH,
                                             .name = "messages"};
    const loam_region_options of_report = {.first_bytes = 1024, .name = "report"};
    loam_buffer_init(&report_buffer, report_memory, sizeof(report_memory));
    int wrong = loam_pool_init_buffer(&samples, sample_memory, sizeof(sample_memory),
                                      sizeof(sample), &of_samples);
    if (wrong == 0) wrong = loam_blocks_init(&messages, &of_messages);
    if (wrong == 0) wrong = loam_region_init(&report, &report_buffer.source, &of_report);
    return wrong;
}

static void say(const char *what, uint32_t number) {
    text t = {0};
    add(&t, what);
    add_char(&t, ' ');
    add_number(&t, number);
    add_char(&t, '\n');
    board_write(t.at, t.used);
    loam_region_free(&report, t.at, t.room);
}

static bool is(const char *what, uint32_t number, uint32_t expected) {
    say(what, number);
    if (number != expected) say("  but it should be", expected);
    return number == expected;
}

int main(void) {
    if (start() != 0) return 2;
    for (uint32_t tick = 1; tick <= TICKS; tick++) {
        /* Sensor 0 always, 1 every third tick, 2 in bursts. */
        measure(0, tick);
        if (tick % 3 == 0) measure(1, tick);
        if (tick % 200 >= 170) measure(2, tick);
        if (tick % REPORT_EVERY == 0) write_report(tick);
        bool link = tick / LINK_CHANGES_EVERY % 2 == 1;
        if (link && first_message != NULL) send_one();
    }
    loam_registry_print();
    bool good = loam_registry_check() == 0;
    while (first_message != NULL) send_one();

    good &= is("measured", counts.measured, 5933);
    good &= is("samples lost", counts.samples_lost, 493);
    good &= is("reports", counts.reports, 80);
    good &= is("messages lost", counts.messages_lost, 12);
    good &= is("messages sent", counts.sent, 68);
    good &= is("bytes sent", counts.sent_bytes, 4092);
    good &= is("sum of what was sent", counts.sum, 3263612632);
    say("bytes of stack", (uint32_t)board_stack_used());

    loam_usage of_samples, of_messages;
    loam_pool_usage(&samples, &of_samples);
    loam_blocks_usage(&messages, &of_messages);
    good &= of_samples.objects == 0 && of_messages.objects == 0;
    loam_region_deinit(&report);
    loam_blocks_deinit(&messages);
    loam_pool_deinit(&samples);
    return good ? 0 : 1;
}
