/* probe.h: USDT probes for bpftrace, SystemTap or perf, in slow paths only.
 *
 *   LM_PROBE2(page_create, start, bytes)   one nop in the code, and a note of it in .note.stapsdt
 *
 * They exist only in builds with LOAM_PROBES, which needs systemtap-sdt-dev; otherwise they expand
 * to nothing. docs/guide/tools.md lists them. Arguments are words.
 */
#ifndef LM_OS_PROBE_H
#define LM_OS_PROBE_H

#if LOAM_PROBES
#include <sys/sdt.h>
#define LM_PROBE(name) DTRACE_PROBE(loam, name)
#define LM_PROBE1(name, a) DTRACE_PROBE1(loam, name, (uintptr_t)(a))
#define LM_PROBE2(name, a, b) DTRACE_PROBE2(loam, name, (uintptr_t)(a), (uintptr_t)(b))
#else
#define LM_PROBE(name) ((void)0)
#define LM_PROBE1(name, a) ((void)0)
#define LM_PROBE2(name, a, b) ((void)0)
#endif

#endif
