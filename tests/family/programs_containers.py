"""programs_containers.py: the C++ programs of programs.py: containers and owners.

A case has some owners (loam::region, pool_of, fifo, blocks, heap, ...), std containers that take
their memory from them by an allocator or as a memory resource, and objects of classes that count
themselves. Each container is half of a pair (programs.hpp); steps of all are mixed. Objects are
destroyed one by one, or by what ends them.

To add a face: a line in OWNERS or MAKERS. Invariant: names declared later end earlier, so that no
container outlives its memory; stack frames that begin later end before a container grows.
"""

CONTAINERS = {
    "vector": ("vector<int{a}>", "vector<int>"),
    "deque": ("deque<long{a}>", "deque<long>"),
    "list": ("list<short{a}>", "list<short>"),
    "string": ("string", "string"),
    "map": ("map<int, {s}, std::less<int>{a}>", "map<int, std::string>"),
    "set": ("set<int, std::less<int>{a}>", "set<int>"),
    "unordered_map": (
        "unordered_map<int, {s}, std::hash<int>, std::equal_to<int>{a}>",
        "unordered_map<int, std::string>",
    ),
}
ELEMENTS = {
    "vector": "int",
    "deque": "long",
    "list": "short",
    "string": "char",
    "map": "std::pair<const int, {s}>",
    "set": "int",
    "unordered_map": "std::pair<const int, {s}>",
}
# (declaration of the owner, its resource or None, allocator template or None, argument of the
# allocator)
OWNERS = {
    "region": (
        "loam::region {n}({options});",
        "loam::region_resource {n}_r({n});",
        "loam::region_allocator",
        "{n}",
    ),
    "fifo": (
        "loam::fifo {n}({options});",
        "loam::fifo_resource {n}_r({n});",
        "loam::fifo_allocator",
        "{n}",
    ),
    "stack": (
        "loam::stack {n}({options});",
        "loam::stack_resource {n}_r({n}.get());",
        "loam::stack_allocator",
        "{n}.get()",
    ),
    "blocks": (
        "loam::blocks {n}({options});",
        "loam::blocks_resource {n}_r({options});",
        "loam::blocks_allocator",
        "{n}",
    ),
    "heap": ("loam::heap {n};", "loam::heap_resource {n}_r({n});", "loam::heap_allocator", "{n}"),
    "pool": ("", "loam::pool_resource {n}_r({size}, {options});", "loam::pool_allocator", ""),
    "shared_pool": ("", "loam::shared_pool_resource {n}_r({size}, {options});", None, ""),
    "xalloc": ("", None, "loam::xalloc_allocator", ""),
    "alloc": (
        "loam::region {n}({options});",
        "loam::alloc_resource {n}_r(loam_region_as_alloc({n}.get()));",
        "loam::alloc_allocator",
        "loam_region_as_alloc({n}.get())",
    ),
}
MAKERS = (
    "region",
    "pool_of",
    "object_pool",
    "fifo",
    "blocks",
    "pooled",
    "xallocator",
    "unique",
    "scope",
    "heap_scope",
)


def options_of(rng, kind):
    kind = {"alloc": "region", "shared_pool": "pool"}.get(kind, kind)
    flags = rng.choice(["0u", "0u", "unsigned(LOAM_CHECK)"])
    return f"[] {{ loam_{kind}_options o = {{}}; o.flags = {flags}; return o; }}()"


def container(rng, kind, owner, name):
    """Its declaration."""
    _, resource, allocator, argument = OWNERS[owner]
    own, model = CONTAINERS[kind]
    by_resource = allocator is None or (resource is not None and rng.random() < 0.5)
    if by_resource:
        text = own.format(a="", s="std::pmr::string")
        return f"programs::pair<std::pmr::{text}, std::{model}> {name}(&{owner}_r);"
    element = ELEMENTS[kind].format(s="std::string")
    of = f"{allocator}<{element}>"
    if kind == "string":
        text = f"basic_string<char, std::char_traits<char>, {of}>"
    else:
        text = own.format(a=f", {of}", s="std::string")
    argument = argument.format(n=owner)
    return f"programs::pair<std::{text}, std::{model}> {name}" + (
        f"{{{of}({argument})}};" if argument else ";"
    )


def maker(rng, kind, name, emit):
    size, align = rng.choice([1, 20, 48, 200, 3000]), rng.choice([4, 8, 16, 32, 64, 256])
    type_of = f"programs::counted<{size}, {align}>"
    many = rng.randint(3, 40)
    if kind == "region":
        emit(f"{{ loam::region {name}({options_of(rng, kind)});")
        emit(
            f"  for (unsigned i = 0; i < {many}; i++) {{ (void)!{name}.make<{type_of}>(i); if "
            f"(i % 3 == 0) "
            f"{{ loam::region_scope s({name}); (void)!{name}.make<programs::counted<8, 8>>(i); "
            f"}} }}"
        )
        emit(f"  HOLDS(programs::live == {many}); {name}.reset(); HOLDS(programs::live == 0); }}")
    elif kind == "object_pool":
        emit(f"{{ {{ loam::object_pool<{type_of}> {name}({options_of(rng, 'pool')});")
        emit(
            f"  for (unsigned i = 0; i < {many}; i++) {{ auto *p = {name}.make(i); "
            f"if (i % 3 == 2) {name}.destroy(p); }}"
        )
        emit(f"  HOLDS(programs::live == {many - many // 3}); }} HOLDS(programs::live == 0); }}")
    elif kind == "pool_of":
        emit(
            f"{{ loam::pool_of<{type_of}> {name}({options_of(rng, 'pool')}); "
            f"std::vector<{type_of} *> all;"
        )
        emit(
            f"  for (unsigned i = 0; i < {many}; i++) {{ all.push_back({name}.make(i)); if (i % "
            f"3 == 2) "
            f"{{ {name}.destroy(all[i / 3]); all[i / 3] = {name}.make(i); }} }}"
        )
        emit(
            f"  HOLDS({name}.usage().objects == {many} && {name}.check()); for (auto *each : "
            f"all) {{ "
            f"HOLDS({name}.owns(each)); {name}.destroy(each); }} (void){name}.trim(); }}"
        )
    elif kind in ("fifo", "blocks"):
        emit(f"{{ loam::{kind} {name}({options_of(rng, kind)}); std::deque<{type_of} *> all;")
        emit(
            f"  for (unsigned i = 0; i < {many}; i++) {{ "
            f"all.push_back({name}.make<{type_of}>(i)); if (i % 2 == 0) "
            f"{{ {name}.destroy(all.front()); all.pop_front(); }} }}"
        )
        emit(
            f"  HOLDS({name}.check()); for (auto *each : all) {name}.destroy(each); "
            f"(void){name}.trim(); }}"
        )
    elif kind in ("pooled", "xallocator"):
        base = "pooled" if kind == "pooled" else "declared"
        emit(f"{{ using T = programs::{base}<{size}, {align}>; std::vector<T *> all;")
        emit(
            f"  for (unsigned i = 0; i < {many}; i++) {{ all.push_back(i % 2 ? new T(i) : new "
            f"(std::nothrow) T(i)); "
            "if (i % 3 == 2) { delete all[i / 3]; all[i / 3] = new T(i); } }"
        )
        emit("  T *array = new T[3]; for (T *each : all) delete each; delete[] array; }")
    elif kind == "unique":
        emit(
            f"{{ loam::blocks {name}({options_of(rng, 'blocks')}); loam::pool_of<{type_of}> pool; "
            f"auto a = {name}.make_unique<{type_of}>(3u); auto b = pool.make_unique(4u); "
            f"std::vector<loam::blocks::unique_ptr<{type_of}>> all; for (unsigned i = 0; i < "
            f"{many}; i++) "
            f"all.push_back({name}.make_unique<{type_of}>(i)); a = std::move(all.back()); "
            f"b.reset(); }}"
        )
    elif kind == "scope":
        emit(
            f"{{ loam::scope outer; long *a = outer.array<long>({many}); {{ loam::scope inner; "
            f"int *b = inner.make<int>(5); void *c = inner.alloc({size}, {align}); "
            f"std::memset(c, 1, {size}); "
            f"HOLDS(*b == 5 && reinterpret_cast<std::uintptr_t>(c) % {align} == 0); }} a[{many} "
            f"- 1] = 7; "
            f"HOLDS(a[0] == 0 || {many} == 1); }}"
        )
    else:
        emit(
            f"{{ loam::heap {name}; loam::heap_scope scope({name}); void *p = "
            f"loam_malloc({size}); "
            f"HOLDS({name}.owns(p)); loam_free(p); }}"
        )
    emit("HOLDS(programs::live == 0);")


def case(rng, key):
    lines = []
    emit = lambda text: lines.append("    " + text)
    owners = rng.sample(sorted(OWNERS), rng.randint(2, 4))
    for owner in owners:
        options = options_of(rng, owner) if owner not in ("heap", "xalloc") else ""
        values = {"n": owner, "options": options, "size": rng.choice([24, 64, 200])}
        for text in OWNERS[owner][:2]:
            if text:
                emit(text.format(**values))
    names = []
    for i in range(rng.randint(2, 3)):
        names.append(f"c{i}")
        emit(container(rng, rng.choice(sorted(CONTAINERS)), rng.choice(owners), names[-1]))
    for i in range(rng.randint(10, 25)):
        if rng.random() < 0.15:
            maker(rng, rng.choice(MAKERS), f"m{i}", emit)
        else:
            emit(
                f"{rng.choice(names)}.step({rng.randrange(1 << 30)}u, {rng.randint(1, 6)}, "
                f"__LINE__);"
            )
    emit(" ".join(f"HOLDS({name}.same());" for name in names))
    return f"static void case_{key}() {{\n" + "\n".join(lines) + "\n}\n"


def program(rng, many):
    return "\n".join(case(rng, i) for i in range(many))
