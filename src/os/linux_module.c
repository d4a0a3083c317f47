/* linux_module.c: keeps the module that libloam.a is linked into loaded.
 *
 *   dlopen(plugin) ──> lm_module_pin, a constructor ──> dlopen(plugin, RTLD_NOLOAD | RTLD_NODELETE)
 *   dlclose(plugin)                        the plugin stays, with its threads' heaps and the worker
 *
 * A plugin that contains libloam.a has the allocator's code and state. pthread keys call that code
 * when a thread ends, the worker runs in it, and it frees the blocks that the plugin has allocated.
 * dlclose would unmap it under all of these. libloam.so is linked with -z nodelete for the same
 * reason. A static library cannot request that, so it pins its module as the module is loaded.
 * Loading the module again finds the pinned one, so nothing grows.
 *
 * It cannot pin where dlopen does not exist (in a static program, which no call closes), nor where
 * a program without libdl runs on glibc before 2.34 (the plugin needs -ldl or -Wl,-z,nodelete
 * there).
 *
 * It is in libloam.a only. Invariant: the program's own file is never opened.
 */
#define _GNU_SOURCE 1 /* dladdr */
#include "os/os.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

/* Weak, so that a static program does not link the dynamic linker. */
#pragma weak dlopen
#pragma weak dladdr

/* This module's first byte, defined by the linker. */
extern const ElfW(Ehdr) __ehdr_start LM_HIDDEN;

void lm_module_pin(void);

__attribute__((constructor)) void lm_module_pin(void) {
    Dl_info info;
    if (getauxval(AT_PHDR) == (uintptr_t)&__ehdr_start + __ehdr_start.e_phoff) return;
    if (dlopen == NULL || dladdr == NULL || dladdr((const void *)&__ehdr_start, &info) == 0) return;
    (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
