/* linux_module.c: the module that libloam.a is linked into stays loaded.
 *
 *   dlopen(plugin) ──> constructors ──> lm_module_pin ──> dlopen(plugin, RTLD_NOLOAD | RTLD_NODELETE)
 *   dlclose(plugin)                                       the plugin stays, with its threads' heaps and the worker
 *
 * A plugin with libloam.a inside has the allocator's code and state. pthread keys call that code
 * when a thread ends, the worker runs in it, and blocks that the plugin has handed out are freed by
 * it. dlclose would unmap it under all of these. libloam.so is linked with -z nodelete for the same
 * reason. A static library cannot ask for that, so it pins its module by itself as the module is
 * loaded. Loading it again finds the pinned one: nothing grows.
 *
 * It cannot pin where there is no dlopen (a static program, which nothing closes), nor where a
 * program without libdl runs on glibc before 2.34 (the plugin then needs -ldl or -Wl,-z,nodelete).
 *
 * Part of libloam.a alone.
 * Invariant: the program's own file is never opened.
 */
#define _GNU_SOURCE 1 /* dladdr */
#include "os/os.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/auxv.h>

/* Weak, so that a static program does not link the dynamic linker. */
#pragma weak dlopen
#pragma weak dladdr

extern const ElfW(Ehdr) __ehdr_start LM_HIDDEN; /* the linker's: this module's first byte */

void lm_module_pin(void);

__attribute__((constructor)) void lm_module_pin(void) {
    Dl_info info;
    if (getauxval(AT_PHDR) == (uintptr_t)&__ehdr_start + __ehdr_start.e_phoff) return;
    if (dlopen == NULL || dladdr == NULL || dladdr((const void *)&__ehdr_start, &info) == 0) return;
    (void)dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}
