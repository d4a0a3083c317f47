/* mps2.c: start, faults, output and exit on ARM's MPS2 board with a Cortex-M4 (AN386), as qemu has
 * it.
 *
 *   vectors ──> reset: .data from flash, .bss to zero, stack painted ──> main ──> semihosting exit
 *
 * Output and exit are semihosting: a breakpoint that qemu, or a debugger at a real board, answers.
 * A fault ends the run with status 3.
 */
#include "board.h"

/* Where things lie: mps2.ld. */
extern uint32_t data_image[], data_start[], data_end[], bss_start[], bss_end[], stack_low[],
    stack_top[];

int main(void);
void reset(void);

enum { SYS_WRITE0 = 0x04, SYS_EXIT_EXTENDED = 0x20, APPLICATION_EXIT = 0x20026, FAULT_STATUS = 3 };
#define PAINT 0x5AFE5AFEu

static void semihost(unsigned call, const void *argument) {
    register unsigned r0 __asm__("r0") = call;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

void board_write(const char *text, size_t bytes) {
    char part[65]; /* SYS_WRITE0 ends at a 0, and our texts have none */
    while (bytes > 0) {
        size_t now = bytes < sizeof(part) - 1 ? bytes : sizeof(part) - 1;
        for (size_t i = 0; i < now; i++) part[i] = text[i];
        part[now] = '\0';
        semihost(SYS_WRITE0, part);
        text += now;
        bytes -= now;
    }
}

void board_exit(int status) {
    uint32_t block[2] = {APPLICATION_EXIT, (uint32_t)status};
    semihost(SYS_EXIT_EXTENDED, block);
    for (;;) {}
}

size_t board_stack_used(void) {
    const uint32_t *word = stack_low;
    while (word < stack_top && *word == PAINT) word++;
    return (size_t)((const char *)stack_top - (const char *)word);
}

static void fault(void) {
    static const char text[] = "board: fault\n";
    board_write(text, sizeof(text) - 1);
    board_exit(FAULT_STATUS);
}

void reset(void) {
    const uint32_t *from = data_image;
    for (uint32_t *to = data_start; to < data_end; to++) *to = *from++;
    for (uint32_t *to = bss_start; to < bss_end; to++) *to = 0;
    /* Below this frame the stack is not in use yet. */
    uint32_t *here = __builtin_frame_address(0);
    for (uint32_t *word = stack_low; word < here - 16; word++) *(volatile uint32_t *)word = PAINT;
    board_exit(main());
}

typedef void (*handler)(void);

/* Stack pointer at reset, then reset, NMI, and the faults: hard, memory, bus, usage. No interrupts
 * are used. */
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    handler handlers[15];
} vectors = {stack_top, {reset, fault, fault, fault, fault, fault}};
