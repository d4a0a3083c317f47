/* trace.c: where the calling thread has come from, and what a place in the code is called.
 *
 *   stack   [ loam's own frames | malloc's caller | its caller | ... ]
 *                                ^ from here, where loam is a library of its own
 *
 * By libc's backtrace and dladdr, which need no frame pointers. The first trace may load a library, and so allocate:
 * lm_os_trace_prepare makes it where that does no harm. Only the debug build asks. It names only symbols that a
 * library exports (addr2line knows the others, from file and offset), and in a program that loam is linked into
 * statically the first frames are loam's.
 */
#define _GNU_SOURCE 1
#include "os/os.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

enum { OWN_MOST = 12 };

/* By the linker: the first and the last byte of what loam is part of. */
extern LM_HIDDEN const char __ehdr_start[], _end[];

static bool alone; /* loam is in no program, but in a library */

static bool is_own(const void *place) {
    return (const char *)place >= __ehdr_start && (const char *)place < _end;
}

static int look_at_program(struct dl_phdr_info *info, size_t bytes, void *context) {
    (void)bytes, (void)context;
    alone = !is_own(info->dlpi_phdr);
    return 1; /* the first is the program */
}

void lm_os_trace_prepare(void) {
    void *places[1];
    (void)backtrace(places, 1);
    (void)dl_iterate_phdr(look_at_program, NULL);
}

unsigned lm_os_trace(void **places, unsigned most) {
    void *all[OWN_MOST + LM_TRACE_MOST];
    int depth = backtrace(all, OWN_MOST + LM_TRACE_MOST), first = 1;
    while (alone && first < depth && is_own(all[first])) first++;
    unsigned n = 0;
    for (; first < depth && n < most; first++) places[n++] = all[first];
    return n;
}

void lm_os_trace_name(lm_line_t *line, const void *place) {
    Dl_info info;
    /* Of the call, not of what comes after it. */
    const char *call = (const char *)place - 1;
    if (dladdr(call, &info) == 0 || info.dli_fname == NULL) {
        lm_line_add(line, "%p", place);
        return;
    }
    if (info.dli_sname != NULL)
        lm_line_add(line, "%s+0x%lx ", info.dli_sname,
                    (unsigned long)(call - (const char *)info.dli_saddr));
    lm_line_add(line, "(%s+0x%lx)", info.dli_fname,
                (unsigned long)(call - (const char *)info.dli_fbase));
}
