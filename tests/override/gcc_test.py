"""gcc on loam: compiling and linking a generated program of some four thousand lines of C.

Objects and programs must equal, byte for byte, those made without the preload, and the programs
print the same with and without it.
"""

import compilers
import preload

FUNCTIONS = 240

HEAD = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct item { struct item *next; uint32_t key, size; double weight; char text[]; } item;
typedef uint64_t (*step)(uint64_t, item **);

static void push(item **list, uint32_t key, uint32_t size)
{
    item *made = malloc(sizeof *made + size);
    if (!made) abort();
    *made = (item){ *list, key, size, key / 3.0 };
    memset(made->text, (int)(key & 127), size);
    *list = made;
}
static void pop(item **list)
{
    item *top = *list;
    if (top) { *list = top->next; free(top); }
}
"""

MAIN = r"""
static void copy_maps(const char *name)
{
    FILE *in = fopen("/proc/self/maps", "r"), *out = name ? fopen(name, "w") : NULL;
    if (!in || !out) exit(2);
    for (int c; (c = getc(in)) != EOF;) putc(c, out);
    if (fclose(in) || fclose(out)) exit(2);
}

int main(void)
{
    uint64_t hash = 1;
    item *list = NULL;
    copy_maps(getenv("MAPS_COPY"));
    for (int round = 0; round < 40; round++)
        for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) hash = steps[i](hash + i, &list);
    size_t left = 0;
    for (; list; pop(&list)) {
        left++;
        for (uint32_t i = 0; i < list->size; i++) hash = hash * 31 + (unsigned char)list->text[i];
    }
    printf("%016llx %zu\nend\n", (unsigned long long)hash, left);
    return 0;
}
"""


def function(n):
    """One of many functions, no two alike: a switch, a loop over a local array, list operations."""
    cases = "\n".join(
        f"    case {k}: a[{k % 16}] += (h >> {k % 13}) * {n * 31 + k * 7}u; break;"
        for k in range(3 + n % 9)
    )
    return f"""
/* number {n} */
static uint64_t step_{n}(uint64_t h, item **list)
{{
    uint64_t a[16] = {{ {n}, h, h ^ {n * 2654435761 % 4294967296}u }};
    struct {{ int32_t x[{1 + n % 5}]; float f; }} local = {{ {{ {n % 77} }}, {n}.5f }};
    for (unsigned i = 0; i < {5 + n % 11}; i++) {{
        switch ((h + i) % {4 + n % 9}) {{
{cases}
        default: a[i % 16] ^= h << (i % 7); local.f += (float)i;
        }}
        h = h * 6364136223846793005u + a[(i * {1 + n % 6}) % 16] + (uint64_t)local.x[0];
        if (h & {1 << n % 12}u) push(list, (uint32_t)h, (uint32_t)(h >> 40) % {20 + n}u);
        else pop(list);
    }}
    return h ^ (uint64_t)local.f{' ^ step_%d(h >> 1, list)' % (n - 1) if n % 10 == 9 else ''};
}}"""


def test(bench):
    gcc = bench.need("gcc")
    table = ", ".join(f"step_{n}" for n in range(FUNCTIONS))
    source = bench.write(
        "big.c",
        HEAD
        + "".join(map(function, range(FUNCTIONS)))
        + f"\nstatic const step steps[] = {{ {table} }};\n"
        + MAIN,
    )
    preload.expect(source.read_text().count("\n") > 4_000, "the source is smaller than intended")
    options = (["-O0", "-g"], ["-O2", "-Wall", "-Wextra", "-frandom-seed=1"])
    compilers.check(bench, gcc, "cc1", [source], options)


preload.main(test)
