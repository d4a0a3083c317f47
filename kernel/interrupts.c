/* interrupts.c: a test of the source of pages under interrupts in the middle of its calls.
 *
 *   on each processor:   a task, a timer in softirq, a timer in hard interrupts
 *
 * Each takes and puts pages of one source, and marks the pages that it holds. The test sees a page
 * that two hold at once, and a write to a page after its put. Some pages go to another processor's
 * task, which puts them. */
#include "module.h"

#include <linux/cpu.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/kthread.h>
#include <linux/slab.h>
#include <linux/version.h>

enum { HELD = 12, PERIOD_NS = 150 * 1000, TEST_MS = 900 };
#define MARK 0x10A3F00Dul

/* One of the three on a processor, and the pages that it holds. */
struct holder {
    void *page[HELD];
    unsigned count;
    u32 state;
    unsigned long rounds, wrong;
};

/* The three on a processor. */
struct processor {
    struct holder task, soft, hard;
    struct hrtimer soft_timer, hard_timer;
    struct task_struct *thread;
    bool stop;
};

static loam_kernel_pages atomic_pages;
static void *in_transit; /* a page on its way to another processor, or NULL */

static void take(struct holder *holder) {
    size_t got;
    unsigned long *page = loam_source_get(&atomic_pages.source, PAGE_SIZE, PAGE_SIZE, &got);
    if (page == NULL) return;
    if (got != PAGE_SIZE || page[0] == (MARK ^ (unsigned long)page)) holder->wrong++;
    page[0] = MARK ^ (unsigned long)page;
    page[1] = (unsigned long)holder;
    holder->page[holder->count++] = page;
}

static void give(struct holder *holder) {
    unsigned long *page = holder->page[--holder->count];
    if (page[0] != (MARK ^ (unsigned long)page) || page[1] != (unsigned long)holder)
        holder->wrong++;
    page[0] = 0;
    loam_source_put(&atomic_pages.source, page, PAGE_SIZE);
}

/* Takes and puts up to seven pages at random. */
static void some(struct holder *holder) {
    for (u32 i = lm_random(&holder->state) % 8; i > 0; i--) {
        bool more = lm_random(&holder->state) & 1;
        if (more && holder->count < HELD) {
            take(holder);
        } else if (holder->count > 0) {
            give(holder);
        }
    }
    holder->rounds++;
}

/* Exchanges a page with another processor's task: this task puts what the other took. */
static void exchange(struct holder *holder) {
    if (holder->count == 0) return;
    unsigned long *page = holder->page[--holder->count];
    page = xchg(&in_transit, page);
    if (page == NULL) return;
    page[1] = (unsigned long)holder;
    holder->page[holder->count++] = page;
}

static enum hrtimer_restart tick(struct processor *processor, struct hrtimer *timer,
                                 struct holder *holder) {
    some(holder);
    if (READ_ONCE(processor->stop)) return HRTIMER_NORESTART;
    hrtimer_forward_now(timer, ns_to_ktime(PERIOD_NS + lm_random(&holder->state) % 8192));
    return HRTIMER_RESTART;
}

static enum hrtimer_restart tick_soft(struct hrtimer *timer) {
    struct processor *processor = container_of(timer, struct processor, soft_timer);
    return tick(processor, timer, &processor->soft);
}

static enum hrtimer_restart tick_hard(struct hrtimer *timer) {
    struct processor *processor = container_of(timer, struct processor, hard_timer);
    return tick(processor, timer, &processor->hard);
}

static void start(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *),
                  enum hrtimer_mode mode) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
    hrtimer_setup(timer, function, CLOCK_MONOTONIC, mode);
#else
    hrtimer_init(timer, CLOCK_MONOTONIC, mode);
    timer->function = function;
#endif
    hrtimer_start(timer, ns_to_ktime(PERIOD_NS), mode);
}

static int work(void *argument) {
    struct processor *processor = argument;
    start(&processor->soft_timer, tick_soft, HRTIMER_MODE_REL_PINNED_SOFT);
    /* On PREEMPT_RT hard interrupts may not call the page allocator. */
    if (!IS_ENABLED(CONFIG_PREEMPT_RT))
        start(&processor->hard_timer, tick_hard, HRTIMER_MODE_REL_PINNED_HARD);
    while (!kthread_should_stop()) {
        some(&processor->task);
        if (processor->task.rounds % 16 == 0) exchange(&processor->task);
        if (processor->task.rounds % 64 == 0) cond_resched();
    }
    WRITE_ONCE(processor->stop, true);
    hrtimer_cancel(&processor->soft_timer);
    if (!IS_ENABLED(CONFIG_PREEMPT_RT)) hrtimer_cancel(&processor->hard_timer);
    while (processor->task.count > 0) give(&processor->task);
    while (processor->soft.count > 0) give(&processor->soft);
    while (processor->hard.count > 0) give(&processor->hard);
    return 0;
}

static void begin(struct processor *processor, int cpu) {
    processor->task.state = 1 + cpu;
    processor->soft.state = 1001 + cpu;
    processor->hard.state = 2001 + cpu;
    processor->thread = kthread_create(work, processor, "loam_region/%d", cpu);
    LM_EXPECT(!IS_ERR(processor->thread));
    if (IS_ERR(processor->thread)) return;
    kthread_bind(processor->thread, cpu);
    wake_up_process(processor->thread);
}

void lm_interrupts_run(void) {
    struct processor *processors = kcalloc(nr_cpu_ids, sizeof(*processors), GFP_KERNEL);
    unsigned long tasks = 0, softirqs = 0, interrupts = 0, wrong = 0, passed;
    int cpu;
    LM_EXPECT(processors != NULL);
    if (processors == NULL) return;
    LM_EXPECT(loam_kernel_pages_init(&atomic_pages, GFP_ATOMIC | __GFP_NOWARN) == 0);
    passed = loam_kernel_pages_ask().passed;
    cpus_read_lock();
    for_each_online_cpu(cpu) begin(&processors[cpu], cpu);
    msleep(TEST_MS);
    for_each_online_cpu(cpu) {
        const struct processor *processor = &processors[cpu];
        if (IS_ERR(processor->thread)) continue;
        kthread_stop(processor->thread);
        tasks += processor->task.rounds;
        softirqs += processor->soft.rounds;
        interrupts += processor->hard.rounds;
        wrong += processor->task.wrong + processor->soft.wrong + processor->hard.wrong;
    }
    cpus_read_unlock();
    if (in_transit != NULL) loam_source_put(&atomic_pages.source, in_transit, PAGE_SIZE);
    in_transit = NULL;
    kfree(processors);
    passed = loam_kernel_pages_ask().passed - passed;
    pr_info("loam_region: interrupts: %lu rounds of tasks, %lu of softirqs, %lu of hard "
            "interrupts, %lu calls found the cache busy\n",
            tasks, softirqs, interrupts, passed);
    LM_EXPECT(wrong == 0);
    LM_EXPECT(tasks > 0 && softirqs > 0);
    LM_EXPECT(interrupts > 0 || IS_ENABLED(CONFIG_PREEMPT_RT));
}
