"""programs_family.py: pools, blocks and heaps in the programs of programs.py, and the list of all.

Objects here are freed one by one, in any order, some by a reset. To add an allocator: a class here
or in programs_arenas.py, with its operations, and a line in KINDS;
what a user can do wrong with it is
in programs_mistakes.py.

Invariant: size and align are those of a pool's blocks since its last beginning.
"""

from programs_arenas import Child, Fifo, Region, Ring, Stack
from programs_model import Allocator, size_of


class Pool(Allocator):
    kind, handle = "pool", "loam_pool_as_alloc"
    flag_choices = ("", "", "", "LOAM_HARDEN", "LOAM_POOL_DENSE", "LOAM_POOL_HANDLES",
                    "LOAM_POOL_HANDLES | LOAM_HARDEN")

    def draw(self):
        rng = self.rng
        self.size = rng.choice([1, 8, 24, 40, 64, 100, 256, 1024, 2000, 4096])
        align = rng.choice([0, 0, 0, 16, 64, 256])
        self.align = align or next(each for each in (16, 8, 4, 2, 1) if self.size % each == 0)
        self.align = max(self.align, 8)
        self.extra = rng.choice(self.flag_choices)
        members = {"align": align, "first_blocks": rng.choice([0, 0, 1, 50]), "flags":
                   self.flags(*filter(None, [self.extra]))}
        self.may_fail = int(bool(self.source.may_fail))
        if rng.random() < 0.2 and not self.world.careful:
            members["most_blocks"] = rng.randint(1, 40)
            self.may_fail = 1
        return self.options("pool", **members)

    def begin(self):
        options = self.draw()
        if self.kind == "pool" and self.rng.random() < 0.15 and not self.world.careful:
            self.may_fail = 1
            self.world.declarations.append(f"static char "
                                           f"{self.name}_memory_{self.world.count()}[40000];")
            memory = self.world.declarations[-1].split()[2].split("[")[0]
            self.emit(f"{{ {options} HOLDS(loam_pool_init_buffer(&{self.name}, {memory}, sizeof "
                      f"{memory}, "
                      f"{self.size}, &o) == 0); }}")
        else:
            self.emit(f"{{ {options} HOLDS(loam_{self.kind}_init(&{self.name}, {self.source.at}, "
                      f"{self.size}, &o) "
                      "== 0); }")

    def alloc(self):
        return self.new(self.size, self.align, f"loam_{self.kind}_alloc({self.at})")

    def free(self, made):
        self.drop(made, lambda p, size: f"loam_{self.kind}_free({self.at}, {p})")

    def handle_size(self):
        return self.rng.randint(1, self.size), self.rng.choice([each for each in (1, 2, 4, 8)
                                                                if each <= self.align])

    def step_handles(self):
        if self.kind != "pool" or "HANDLES" not in self.extra:
            return
        slot = self.world.slot()
        if slot is None:
            return
        self.emit(f"{{ loam_handle h = loam_pool_alloc_handle({self.at}); void *p = "
                  f"loam_pool_get({self.at}, h);")
        self.emit(f"  HOLDS(loam_pool_handle({self.at}, p) == h);")
        self.emit(f"  made(T, {slot}, {self.number}, p, {self.size}, {self.align}, 0, "
                  f"{self.may_fail});")
        self.emit(f"  (void)gone(T, {slot}); HOLDS(loam_pool_free_handle({self.at}, h) == (p != "
                  f"NULL));")
        self.emit(f"  HOLDS(loam_pool_get({self.at}, h) == NULL && "
                  f"!loam_pool_free_handle({self.at}, h)); }}")
        self.world.put_back(slot)

    def step_visit(self):
        if self.kind == "pool":
            self.emit(f"{{ size_t c = 0; HOLDS(loam_pool_visit({self.at}, visited, &c) == c && c "
                      f"== "
                      f"alive(T, {self.number})); }}")

    def step_owns(self):
        made = self.any()
        if made:
            self.emit(f"HOLDS(object(T, {made.slot}) == NULL || loam_{self.kind}_owns({self.at}, "
                      f"object(T, {made.slot})));")

    def step_reset(self):
        if self.kind == "pool" and self.rng.random() < 0.3:
            self.forget(self.objects)
            self.emit(f"loam_pool_reset({self.at});")

    def step_shrink(self):
        if self.kind == "pool":
            self.emit(f"(void)loam_pool_shrink({self.at});")

    def must_free(self):
        return self.checked  # what is left is told as a leak


class SharedPool(Pool):
    kind, handle = "shared_pool", "loam_shared_pool_as_alloc"
    flag_choices = ("", "", "LOAM_HARDEN", "LOAM_THREADS")


class PoolSet(Allocator):
    kind = "pool_set"

    def declare(self):
        return f"static loam_pool_set {self.name};\nstatic loam_pool {self.name}_pools[3];"

    def begin(self):
        self.emit(f"{{ static const size_t sizes[] = "
                  f"{{{self.rng.choice(['16, 48, 200', '32, 64, 1024'])}}};")
        self.emit(f"  {self.options('pool', flags=self.flags())}")
        self.emit(f"  HOLDS(loam_pool_set_init(&{self.name}, {self.name}_pools, sizes, 3, "
                  f"{self.source.at}, &o, "
                  f"{self.rng.choice([0, 50, 300])}, NULL) == 0); }}")

    def alloc(self):
        size = self.rng.randint(1, 1500)
        return self.new(size, 8, f"loam_pool_set_alloc({self.at}, {size})")

    def free(self, made):
        self.drop(made, lambda p, size: f"loam_pool_set_free({self.at}, {p})")

    def step_check(self):
        self.emit(f"for (int i = 0; i < 3; i++) HOLDS(loam_pool_check(&{self.name}_pools[i]));")

    def step_trim(self):
        self.emit(f"for (int i = 0; i < 3; i++) (void)loam_pool_trim(&{self.name}_pools[i]);")

    def step_usage(self):
        pass

    def must_free(self):
        return True


class Blocks(Allocator):
    kind, handle = "blocks", "loam_blocks_as_alloc"
    aligns = (1, 2, 4, 8, 16, 16, 32, 64, 256, 4096)
    threads = cached = False

    def begin(self):
        rng = self.rng
        self.small = rng.random() < 0.2 and not self.threads
        self.may_fail = int(bool(self.source.may_fail))
        threads = self.threads or (not self.small and rng.random() < 0.2)
        self.cached = threads
        members = {"flags": self.flags(*["LOAM_THREADS"] * threads)}
        before = ""
        if self.small:
            before = "static const uint32_t classes[] = {8, 24, 64, 200, 1000};"
            members.update(classes="classes", class_count=5)
        if rng.random() < 0.2 and not self.threads and not self.world.careful:
            self.may_fail = 1
            memory = f"{self.name}_memory_{self.world.count()}"
            self.world.declarations.append(f"static char {memory}[150000];")
            members.update(memory=memory, memory_bytes=f"sizeof {memory}")
        else:
            members["source"] = self.source.at
        if rng.random() < 0.2:
            members["counted"] = "true"
        self.emit(f"{{ {before} {self.options('blocks', **members)} "
                  f"HOLDS(loam_blocks_init({self.at}, &o) == 0); }}")

    def must_free(self):
        return self.checked  # what is left is told as a leak

    def align_of(self, size):
        return 8 if self.small and size <= 8 else 16

    def alloc(self):
        rng, size, form, zero = self.rng, size_of(self.rng), self.rng.randint(0, 5), 0
        align = self.align_of(size)
        call = f"loam_blocks_alloc({self.at}, {size})"
        if form == 0:
            align = rng.choice(self.aligns)
            call = f"loam_blocks_alloc_aligned({self.at}, {size}, {align})"
        elif form == 1:
            zero, call = 1, f"loam_blocks_calloc({self.at}, 1, {size})"
        return self.new(size, align, call, zero)

    def free(self, made):
        self.drop(made, lambda p, size: f"loam_blocks_free({self.at}, {p})")

    def step_realloc(self):
        made = self.any()
        if made:
            size = size_of(self.rng)
            self.change(made, size, lambda p, old,
                        new: f"loam_blocks_realloc({self.at}, {p}, {new})",
                        align=self.align_of(size))

    def step_usable(self):
        made = self.any()
        if made:
            self.emit(f"HOLDS(loam_blocks_usable_size({self.at}, object(T, {made.slot})) >= "
                      f"bytes_of(T, {made.slot}));")

    def step_reset(self):
        if self.exact and self.rng.random() < 0.2:
            self.forget(self.objects)
            self.emit(f"loam_blocks_reset({self.at});")


    def step_usage(self):
        if not self.cached:  # what lies in other threads' caches counts as handed out
            super().step_usage()


class ThreadBlocks(Blocks):
    threads = cached = True


class Heap(Allocator):
    kind, handle = "heap", "loam_heap_as_alloc"

    @property
    def at(self):
        return self.name

    def declare(self):
        return f"static loam_heap *{self.name};"

    def begin(self):
        self.may_fail = 0
        self.emit(f"{self.name} = loam_heap_create(); HOLDS({self.name} != NULL);")

    def alloc(self):
        rng, size, form, zero = self.rng, size_of(self.rng), self.rng.randint(0, 3), 0
        align = 8 if size >= 8 else 1
        call = f"loam_heap_malloc({self.at}, {size})"
        if form == 0:
            align = rng.choice(self.aligns)
            call = f"loam_heap_malloc_aligned({self.at}, {size}, {align})"
        elif form == 1:
            zero, call = 1, f"loam_heap_zalloc({self.at}, {size})"
        return self.new(size, align, call, zero)

    def free(self, made):
        self.drop(made, lambda p, size: f"loam_free({p})")

    def step_realloc(self):
        made = self.any()
        if made:
            size = size_of(self.rng)
            self.change(made, size, lambda p, old, new: f"loam_heap_realloc({self.at}, {p}, {new})",
                        align=8 if size >= 8 else 1)

    def step_check(self):
        made = self.any()
        if made:
            self.emit(f"HOLDS(loam_heap_owns({self.at}, object(T, {made.slot})));")

    def step_usage(self):
        pass

    def step_trim(self):
        self.emit(f"loam_heap_collect({self.at});")

    def finish(self):
        if self.rng.random() < 0.5:
            self.forget(self.objects)
            self.emit(f"loam_heap_destroy({self.at});")
        else:
            self.emit(f"loam_heap_delete({self.at});")
            while self.objects:
                self.free(self.objects[0])


class Malloc(Allocator):
    """loam_malloc or xmalloc: one for all."""
    kind = "malloc"
    names = ("loam_malloc", "loam_realloc", "loam_free")

    def declare(self):
        return ""

    def begin(self):
        self.may_fail = 0

    def alloc(self):
        size = size_of(self.rng)
        return self.new(size, 8 if size >= 8 else 1, f"{self.names[0]}({size})")

    def free(self, made):
        self.drop(made, lambda p, size: f"{self.names[2]}({p})")

    def step_realloc(self):
        made = self.any()
        if made:
            size = size_of(self.rng)
            self.change(made, size, lambda p, old, new: f"{self.names[1]}({p}, {new})", align=8
                        if size >= 8 else 1)

    def step_check(self):
        pass

    def step_usage(self):
        pass

    def step_trim(self):
        pass

    def finish(self):
        while self.objects:
            self.free(self.objects[0])


class Xmalloc(Malloc):
    names = ("loam_xmalloc", "loam_xrealloc", "loam_xfree")


KINDS = (Region, Region, Pool, Pool, SharedPool, PoolSet, Fifo, Stack, Ring, Blocks, Heap, Malloc,
         Xmalloc)
# What all threads may use at once. ThreadSanitizer knows nothing of loam_malloc's blocks, and
# reports false races there
# unless it is told by an allocator of the family.
EVERY_THREADS = (SharedPool, ThreadBlocks, Xmalloc)
EVERY_THREADS_OF_HEAP = (SharedPool, ThreadBlocks, Heap, Malloc, Xmalloc)
