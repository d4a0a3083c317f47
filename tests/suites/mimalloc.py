"""mimalloc's own test programs on loam: test-api.c, test-api-fill.c and test-stress.c.

The stress test runs on malloc itself. The two API tests call mimalloc's functions: a header maps
each to the function of loam that docs/guide/from_mimalloc.md names, so that they test loam's forms.
loam's functions come from the preloaded library, which is why these two cannot run on the C
library's malloc. mimalloc's other programs (main.c, main-override*, test-wrong.c) are its authors'
experiments: its own test run leaves them out, and they check nothing.
"""

import re

import suite

# mimalloc.h and mimalloc-types.h for the programs. What the tests need of mimalloc's constants: the
# largest small request, the largest alignment that an API test tries, and that no debug fill is
# expected. mimalloc's realloc to 0 bytes returns an object, where the C library's frees.
HEADER = """
#ifndef MIMALLOC_MAPPED
#define MIMALLOC_MAPPED
#include <loam/loam.h>
#include <loam/heap.h>
#include <loam/malloc.h>
#include <loam/stats.h>
#include <stdlib.h>
#include <malloc.h>
#define MI_DEBUG 0
#define MI_VALGRIND 0
#define MI_SMALL_SIZE_MAX LOAM_SMALL_MOST
#define MI_MAX_ALIGN_SIZE 16
#define MI_ALIGNMENT_MAX (1024 * 1024)
#define mi_option_disable(option) ((void)0)
#define mi_malloc malloc
#define mi_calloc calloc
#define mi_free free
#define mi_realloc(p, size) realloc(p, (size) + ((size) == 0))
#define mi_reallocarray reallocarray
#define mi_memalign memalign
#define mi_posix_memalign posix_memalign
#define mi_usable_size malloc_usable_size
#define mi_malloc_small loam_malloc_small
#define mi_zalloc loam_zalloc
#define mi_zalloc_small loam_zalloc_small
#define mi_mallocn loam_mallocarray
#define mi_reallocn loam_reallocarray
#define mi_rezalloc loam_rezalloc
#define mi_recalloc loam_recalloc
#define mi_malloc_aligned loam_malloc_aligned
#define mi_malloc_aligned_at loam_malloc_aligned_offset
#define mi_zalloc_aligned loam_zalloc_aligned
#define mi_calloc_aligned loam_calloc_aligned
#define mi_realloc_aligned loam_realloc_aligned
#define mi_rezalloc_aligned loam_rezalloc_aligned
#define mi_recalloc_aligned loam_recalloc_aligned
#define mi_realpath loam_realpath
#define mi_stats_print(stream) loam_stats_print()
#define mi_heap_t loam_heap
#define mi_heap_new() loam_heap_create()
#define mi_heap_malloc_tp(heap, type) ((type *)loam_heap_malloc(heap, sizeof(type)))
#define mi_heap_malloc_aligned loam_heap_malloc_aligned
#define mi_heap_contains_block loam_heap_contains
#define mi_heap_delete loam_heap_delete
#define mi_heap_destroy loam_heap_destroy
#endif
"""


def build(tree, out):
    headers = out / "include"
    headers.mkdir(exist_ok=True)
    for name in ("mimalloc.h", "mimalloc-types.h"):
        (headers / name).write_text(HEADER)
    flags = ["gcc", "-std=gnu11", "-O1", "-g1", "-w", "-fno-builtin", "-pthread", "-D_GNU_SOURCE",
             "-I", headers, "-I", suite.HERE.parent.parent / "include", "-I", tree / "test"]
    # The names alone: the preloaded library's functions come before those of a library that the
    # program was linked to.
    names = out / "names.c"
    used = sorted(set(re.findall(r"\bloam_[a-z_]+\b(?! *\*)", HEADER)))
    names.write_text("#include <stdlib.h>\n" + "".join(
        f"void {name}(void) {{ abort(); }}\n" for name in used))
    stand_in = out / "libnames.so"
    argv = ["gcc", "-shared", "-fPIC", "-w", "-Wl,-soname,libnames.so", names]
    suite.compile_all([(stand_in, argv)])
    commands = [(out / "test-stress", [*flags, "-DUSE_STD_MALLOC", tree / "test/test-stress.c"])]
    for name in ("test-api", "test-api-fill"):
        argv = [*flags, tree / f"test/{name}.c", stand_in, f"-Wl,-rpath,{out}"]
        commands.append((out / name, argv))
    for output, said in suite.compile_all(commands).items():
        raise suite.Failed(f"{output.name} does not build:\n{said[-3000:]}")


def test():
    with suite.Lock("mimalloc"):
        tree = suite.fetch("mimalloc", lambda path: path.startswith("test/"))
        out = suite.CACHE / "mimalloc" / "out"
        out.mkdir(exist_ok=True)
        build(tree, out)
    stress = out / "test-stress"
    programs = [suite.Program(f"test-stress-{threads}", [stress, threads, 10, 20], {}, 60, None)
                for threads in (4, 32)]
    programs += [suite.Program(name, [out / name], {}, 60, None)
                 for name in ("test-api", "test-api-fill")]
    suite.run_suite("mimalloc", programs, len(programs), own=("test-api", "test-api-fill"))


suite.main(test)
