"""programs_family.py: how the programs of programs.py use each allocator of the family, and what they hold of it.

A class for each allocator: its operations are methods step_...() that write calls beside those of the model
(programs.h), in the common subset of C and C++. Each keeps just so much of the state as is needed to write no mistake:
which objects are alive, to which mark or frame they belong. Bytes, addresses and NULL are the running program's.

To add an allocator: a class here, with its operations, and a line in KINDS; what a user can do wrong with it is in
programs_mistakes.py. Invariant: objects in self.objects are alive in the program, but for those whose allocation the
source was allowed to refuse.
"""


def size_of(rng, large=True):
    drawn = rng.random()
    if drawn < 0.5:
        return rng.randint(1, 64)
    if drawn < 0.85:
        return rng.randint(65, 900)
    if drawn < 0.97 or not large:
        return rng.randint(901, 6000)
    return rng.randint(60000, 150000)


class Object:
    def __init__(self, slot, size, align):
        self.slot, self.size, self.align = slot, size, align


class Allocator:
    """One allocator of a world. name: its variable; number: its number in the model."""
    aligns = (1, 2, 4, 8, 16, 16, 32, 64, 256, 4096)
    handle = None  # the expression of its loam_alloc
    fails_source = True  # a limited source may refuse it memory

    def __init__(self, world, name, number, source, checked):
        self.world, self.rng, self.name, self.number = world, world.rng, name, number
        self.source, self.objects = source, []
        self.checked = checked
        self.may_fail = 1 if source and source.may_fail else 0
        self.exact = True

    def emit(self, text):
        self.world.emit(text)

    def flags(self, *more):
        return " | ".join(("LOAM_CHECK",) * self.checked + tuple(more)) or "0"

    def options(self, kind, **members):
        drawn = " ".join(f"o.{member} = {value};" for member, value in members.items())
        return f"loam_{kind}_options o = ALL_ZERO; {drawn} o.name = {self.title()};"

    def title(self):
        return self.rng.choice(["NULL", f'"{self.name}"'])

    def new(self, size, align, call, zero=0, objects=None):
        """call: of the allocation. The object, in self.objects too."""
        slot = self.world.slot()
        if slot is None:
            return None
        made = Object(slot, size, align)
        self.emit(f"made(T, {slot}, {self.number}, {call}, {size}, {align}, {zero}, {self.may_fail});")
        self.objects.append(made)
        if objects is not None:
            objects.append(made)
        return made

    def drop(self, made, write):
        """write(pointer, size): the call that frees."""
        self.world.put_back(made.slot)
        self.objects.remove(made)
        if self.may_fail:
            self.emit(f"{{ size_t b = bytes_of(T, {made.slot}); void *p = gone(T, {made.slot}); (void)b; "
                      f"{write('p', 'b')}; }}")
        else:
            self.emit(f"{write(f'gone(T, {made.slot})', made.size)};")

    def change(self, made, size, write, align=None):
        """write(pointer, old size, new size): the call that changes it."""
        old = f"bytes_of(T, {made.slot})" if self.may_fail or self.rng.random() < 0.5 else made.size
        align = align or made.align
        self.emit(f"changed(T, {made.slot}, {self.number}, {write(f'object(T, {made.slot})', old, size)}, {size}, "
                  f"{align}, {self.may_fail});")
        made.size, made.align = size, align

    def forget(self, objects):
        """They end with something else."""
        for made in list(objects):
            self.emit(f"(void)gone(T, {made.slot});")
            self.world.put_back(made.slot)
            self.objects.remove(made)

    def any(self, objects=None):
        objects = self.objects if objects is None else objects
        return self.rng.choice(objects) if objects else None

    def steps(self):
        return [getattr(self, each) for each in sorted(dir(self)) if each.startswith("step_")]

    def step_alloc(self):
        self.alloc()

    def step_alloc_more(self):
        for _ in range(self.rng.randint(2, 6)):
            self.alloc()

    def step_free(self):
        made = self.any(self.freeable())
        if made:
            self.free(made)

    def step_free_many(self):
        for _ in range(self.rng.randint(1, 5)):
            self.step_free()

    def step_check(self):
        self.emit(f"HOLDS({self.function('check')});")

    def step_usage(self):
        if self.exact:
            self.emit(f"{{ loam_usage u; loam_{self.kind}_usage({self.at}, &u); counts(T, {self.number}, &u, "
                      f"{int(self.kind in ('pool', 'shared_pool', 'blocks'))}); }}")

    def step_trim(self):
        self.emit(f"(void){self.function('trim')};")

    def step_again(self):
        if self.exact and self.rng.random() < 0.3:
            self.finish()
            self.begin()

    def step_handle(self):
        if self.handle is None:
            return
        size, align = self.handle_size()
        handle = f"{self.handle}({self.at})"
        made = self.new(size, align, f"loam_alloc_alloc({handle}, {size}, {align})", objects=self.newest())
        size = self.handle_size()[0]
        if made and self.rng.random() < 0.5:
            self.change(made, size, lambda p, old, new: f"loam_alloc_realloc({handle}, {p}, {old}, {new}, {align})")

    def handle_size(self):
        return size_of(self.rng, False), self.rng.choice(self.aligns)

    def newest(self):
        return None

    def freeable(self):
        return self.objects

    @property
    def at(self):
        return f"&{self.name}"

    def function(self, what):
        return f"loam_{self.kind}_{what}({self.at})"

    def declare(self):
        return f"static loam_{self.kind} {self.name};"

    def finish(self):
        """Some are freed, the others end with the allocator."""
        for made in list(self.freeable()):
            if self.rng.random() < 0.5 or self.must_free():
                self.free(made)
        self.forget(self.objects)
        self.emit(f"{self.end()};")

    def must_free(self):
        return False

    def end(self):
        return self.function("deinit")

    def adopt(self):
        """Another thread goes on."""


class Region(Allocator):
    kind, handle = "region", "loam_region_as_alloc"

    def __init__(self, *args):
        super().__init__(*args)
        self.levels, self.children, self.cleanups = [], [], []

    @property
    def at(self):
        return self.name

    def declare(self):
        return f"static loam_region *{self.name};\nstatic loam_region_mark {self.name}_marks[8];"

    def begin(self):
        rng = self.rng
        self.cleanups, self.levels = [], [[]]
        if rng.random() < 0.15 and not self.checked:
            self.emit(f"{{ loam_region_options o = LOAM_REGION_TFW; {self.name} = loam_region_create({self.source.at}, "
                      "&o); }")
        else:
            members = {"first_bytes": rng.choice([0, 256, 4096, 20000]), "large_bytes": rng.choice([0, 1024, 9000]),
                       "keep_bytes": rng.choice([0, 0, 30000]), "chunk_align": rng.choice([0, 0, 64, 4096]),
                       "growth": rng.choice(["LOAM_GROWTH_DOUBLE", "LOAM_GROWTH_FIXED"]), "flags": self.flags()}
            self.emit(f"{{ {self.options('region', **members)} {self.name} = "
                      f"loam_region_create({self.source.at}, &o); }}")
        self.emit(f"HOLDS({self.name} != NULL);")

    def newest(self):
        return self.levels[-1]

    def alloc(self):
        rng, size, align = self.rng, size_of(self.rng), 16
        form, zero = rng.randint(0, 9), 0
        call = f"loam_region_alloc({self.at}, {size})"
        if form < 4:
            align = rng.choice(self.aligns)
            call = f"loam_region_alloc_aligned({self.at}, {size}, {align})"
        elif form == 4:
            align, call = 1, f"loam_region_alloc_packed({self.at}, {size})"
        elif form == 5:
            zero, call = 1, f"loam_region_calloc({self.at}, {size}, 1)"
        elif form == 6:
            size, align = 12, 1
            call = f'loam_region_strdup({self.at}, "abcdefghijk")'
        elif form == 7 and rng.random() < 0.3:
            size = 0
            call = f"loam_region_alloc({self.at}, 0)"
        return self.new(size, align, call, zero, self.newest())

    def free(self, made):
        for level in self.levels:
            if made in level:
                level.remove(made)
        if made.align == 16:
            self.drop(made, lambda p, size: f"loam_region_free({self.at}, {p}, {size})")
        else:
            self.drop(made, lambda p, size: f"loam_region_free_aligned({self.at}, {p}, {size}, {made.align})")

    def step_realloc(self):
        made = self.any(self.newest())
        if made:
            self.change(made, size_of(self.rng), lambda p, old, new:
                        f"loam_region_realloc({self.at}, {p}, {old}, {new})" if made.align == 16 else
                        f"loam_region_realloc_aligned({self.at}, {p}, {old}, {new}, {made.align})")

    def step_extend(self):
        made = self.any([each for each in self.newest() if each.align == 16])
        if made and not self.may_fail:
            size = max(1, made.size + self.rng.randint(-30, 200))
            self.emit(f"if (loam_region_extend({self.at}, object(T, {made.slot}), {made.size}, {size}))")
            self.emit(f"    changed(T, {made.slot}, {self.number}, object(T, {made.slot}), {size}, 16, 0);")
            self.free_as_it_is(made)

    def free_as_it_is(self, made):
        """Which of both sizes it has, only the program knows."""
        level = next(each for each in self.levels if made in each)
        level.remove(made)
        self.world.put_back(made.slot)
        self.objects.remove(made)
        self.emit(f"{{ size_t b = bytes_of(T, {made.slot}); loam_region_free({self.at}, gone(T, {made.slot}), b); }}")

    def step_mark(self):
        if len(self.levels) < 8:
            self.emit(f"{self.name}_marks[{len(self.levels)}] = loam_region_mark_here({self.at});")
            self.levels.append([])

    def step_rewind(self):
        if len(self.levels) < 2:
            return
        depth = self.rng.randint(1, len(self.levels) - 1)
        self.back_to(depth)
        self.emit(f"loam_region_rewind({self.at}, &{self.name}_marks[{depth}]);")

    def back_to(self, depth):
        while len(self.levels) > depth:
            self.forget(self.levels.pop())
        self.world.cleanups += len([each for each in self.cleanups if each >= depth])
        self.cleanups = [each for each in self.cleanups if each < depth]
        for child, level in list(self.children):
            if level >= depth:
                self.world.leave(child)
        self.children = [each for each in self.children if each[1] < depth]

    def step_keep(self):
        if len(self.levels) > 1:
            depth = len(self.levels) - 1
            newest = self.levels.pop()
            self.levels[-1] += newest
            self.cleanups = [min(each, depth - 1) for each in self.cleanups]
            self.children = [(child, min(level, depth - 1)) for child, level in self.children]
            self.emit(f"loam_region_keep({self.at}, &{self.name}_marks[{depth}]);")

    def step_reset(self):
        if self.rng.random() < 0.3:
            self.back_to(0)
            self.levels = [[]]
            self.emit(f"loam_region_reset({self.at});")

    def step_cleanup(self):
        if not self.may_fail:
            self.emit(f"HOLDS(loam_region_add_cleanup({self.at}, cleanup, T) != NULL);")
            self.cleanups.append(len(self.levels) - 1)

    def step_child(self):
        if not self.may_fail and len(self.world.allocators) < 12:
            child = self.world.add(Child, self.source, self.checked)
            child.parent = self
            child.start()
            self.children.append((child, len(self.levels) - 1))

    def step_text(self):
        if not self.may_fail:
            self.emit(f"{{ loam_region_mark m = loam_region_mark_here({self.at}); size_t n = 0; char *s = NULL;")
            self.emit(f"  for (int i = 0; i < 40; i++) s = loam_region_appendf({self.at}, s, &n, \"%d,\", i);")
            self.emit("  HOLDS(s != NULL && n == strlen(s) && n == 110 && memcmp(s + 104, \"38,39,\", 7) == 0);")
            self.emit(f"  loam_region_rewind({self.at}, &m); }}")

    def step_is_from(self):
        made = self.any([each for each in self.objects if each.size > 0])
        if made:
            self.emit(f"HOLDS(object(T, {made.slot}) == NULL || loam_region_is_from({self.at}, "
                      f"object(T, {made.slot})));")

    def finish(self):
        self.back_to(0)
        self.emit(f"{self.end()};")

    def end(self):
        return f"loam_region_destroy({self.at})"


class Child(Region):
    parent = None

    def begin(self):
        raise AssertionError("a child begins with its parent")

    def start(self):
        self.cleanups, self.levels = [], [[]]
        flags = self.flags()
        self.emit(f"{{ {self.options('region', flags=flags)} {self.name} = "
                  f"loam_region_create_child({self.parent.at}, &o); }}")
        self.emit(f"HOLDS({self.name} != NULL);")

    def step_again(self):
        """Ends before its parent does."""
        if self.rng.random() < 0.2:
            self.parent.children = [each for each in self.parent.children if each[0] is not self]
            self.world.leave(self)
            self.emit(f"{self.end()};")


class Pool(Allocator):
    kind, handle = "pool", "loam_pool_as_alloc"
    flag_choices = ("", "", "LOAM_HARDEN", "LOAM_POOL_DENSE", "LOAM_POOL_HANDLES", "LOAM_POOL_HANDLES | LOAM_HARDEN")

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
            self.world.declarations.append(f"static char {self.name}_memory_{self.world.count()}[40000];")
            memory = self.world.declarations[-1].split()[2].split("[")[0]
            self.emit(f"{{ {options} HOLDS(loam_pool_init_buffer(&{self.name}, {memory}, sizeof {memory}, "
                      f"{self.size}, &o) == 0); }}")
        else:
            self.emit(f"{{ {options} HOLDS(loam_{self.kind}_init(&{self.name}, {self.source.at}, {self.size}, &o) "
                      "== 0); }")

    def alloc(self):
        return self.new(self.size, self.align, f"loam_{self.kind}_alloc({self.at})")

    def free(self, made):
        self.drop(made, lambda p, size: f"loam_{self.kind}_free({self.at}, {p})")

    def handle_size(self):
        return self.rng.randint(1, self.size), self.rng.choice([each for each in (1, 2, 4, 8) if each <= self.align])

    def step_handles(self):
        if self.kind != "pool" or "HANDLES" not in self.extra:
            return
        slot = self.world.slot()
        if slot is None:
            return
        self.emit(f"{{ loam_handle h = loam_pool_alloc_handle({self.at}); void *p = loam_pool_get({self.at}, h);")
        self.emit(f"  HOLDS(loam_pool_handle({self.at}, p) == h);")
        self.emit(f"  made(T, {slot}, {self.number}, p, {self.size}, {self.align}, 0, {self.may_fail});")
        self.emit(f"  (void)gone(T, {slot}); HOLDS(loam_pool_free_handle({self.at}, h) == (p != NULL));")
        self.emit(f"  HOLDS(loam_pool_get({self.at}, h) == NULL && !loam_pool_free_handle({self.at}, h)); }}")
        self.world.put_back(slot)

    def step_visit(self):
        if self.kind == "pool":
            self.emit(f"{{ size_t c = 0; HOLDS(loam_pool_visit({self.at}, visited, &c) == c && c == "
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
        self.emit(f"{{ static const size_t sizes[] = {{{self.rng.choice(['16, 48, 200', '32, 64, 1024'])}}};")
        self.emit(f"  {self.options('pool', flags=self.flags())}")
        self.emit(f"  HOLDS(loam_pool_set_init(&{self.name}, {self.name}_pools, sizes, 3, {self.source.at}, &o, "
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


class Fifo(Allocator):
    kind, handle = "fifo", "loam_fifo_as_alloc"

    @property
    def at(self):
        return self.name

    def declare(self):
        return f"static loam_fifo *{self.name};"

    def begin(self):
        self.raw = self.rng.random() < 0.3
        self.remote = self.rng.random() < 0.3
        flags = self.flags(*["LOAM_FIFO_RAW"] * self.raw, *["LOAM_FIFO_REMOTE"] * self.remote)
        pages = self.rng.choice([512, 4096] if self.may_fail else [0, 512, 1024, 4096])
        pages = 0 if self.world.careful else pages  # a page that is empty forgets what was freed in it
        self.emit(f"{{ {self.options('fifo', page_bytes=pages, spare_pages=self.rng.choice([0, 1]), flags=flags)} "
                  f"{self.name} = loam_fifo_create({self.source.at}, &o); }}")
        self.emit(f"HOLDS({self.name} != NULL);")

    def alloc(self):
        rng, size, align = self.rng, size_of(self.rng), 16
        form, zero = rng.randint(0, 5), int(not self.raw)
        call = f"loam_fifo_alloc({self.at}, {size})"
        if form < 2:
            align = rng.choice(self.aligns)
            call = f"loam_fifo_alloc_aligned({self.at}, {size}, {align})"
        elif form == 2:
            zero, call = 1, f"loam_fifo_calloc({self.at}, 1, {size})"
        return self.new(size, align, call, zero)

    def free(self, made):
        remote = "_remote" if self.remote and self.rng.random() < 0.4 else ""
        self.drop(made, lambda p, size: f"loam_fifo_free{remote}({self.at}, {p})")
        if remote:
            self.emit(f"loam_fifo_collect({self.at});")

    def freeable(self):
        return self.objects[:6] if self.rng.random() < 0.8 else self.objects

    def step_realloc(self):
        made = self.any()
        if made:
            self.change(made, size_of(self.rng), lambda p, old, new:
                        f"loam_fifo_realloc_aligned({self.at}, {p}, {old}, {new}, {made.align})")

    def finish(self):
        """Ends before its objects, or with them."""
        if self.rng.random() < 0.5:
            while self.objects:
                self.free(self.objects[0])
            self.emit(f"loam_fifo_destroy({self.at});")
        elif self.rng.random() < 0.5:
            self.forget(self.objects)
            self.emit(f"loam_fifo_deinit({self.at});")
        else:
            self.emit(f"loam_fifo_destroy({self.at});")
            while self.objects:
                self.drop(self.objects[0], lambda p, size: f"loam_fifo_free({self.at}, {p})")

    def adopt(self):
        self.emit(f"loam_fifo_adopt({self.at});")


class Stack(Allocator):
    kind, handle = "stack", "loam_stack_as_alloc"

    def declare(self):
        return (f"static loam_stack {self.name};\nstatic loam_stack_frame {self.name}_frames[8];\n"
                f"static loam_stack_mark {self.name}_mark;")

    def begin(self):
        self.frames, self.marked = [[]], None  # marked: objects of the newest frame that are older than its mark
        members = {"block_bytes": self.rng.choice([0, 256, 5000]), "keep_bytes": self.rng.choice([0, 30000]),
                   "flags": self.flags()}
        self.emit(f"{{ {self.options('stack', **members)} HOLDS(loam_stack_init({self.at}, {self.source.at}, &o) == 0);"
                  " }")

    def newest(self):
        return self.frames[-1]

    def alloc(self):
        rng, size, align = self.rng, size_of(self.rng), 16
        form, zero = rng.randint(0, 5), 0
        call = f"loam_stack_alloc({self.at}, {size})"
        if form < 2:
            align = rng.choice(self.aligns)
            call = f"loam_stack_alloc_aligned({self.at}, {size}, {align})"
        elif form == 2:
            zero, call = 1, f"loam_stack_calloc({self.at}, 1, {size})"
        return self.new(size, align, call, zero, self.newest())

    def freeable(self):
        return [each for each in self.newest() if self.marked is None or each not in self.marked]

    def free(self, made):
        self.newest().remove(made)
        self.drop(made, lambda p, size: f"loam_stack_free({self.at}, {p}, {size})")

    def step_realloc(self):
        made = self.any(self.freeable())
        if made:
            self.change(made, size_of(self.rng), lambda p, old, new:
                        f"loam_stack_realloc_aligned({self.at}, {p}, {old}, {new}, {made.align})")

    def step_push(self):
        if len(self.frames) < 8 and not self.may_fail:
            self.emit(f"{self.name}_frames[{len(self.frames)}] = loam_stack_push({self.at});")
            self.frames.append([])
            self.marked = None

    def step_pop(self):
        if len(self.frames) > 1:
            self.forget(self.frames.pop())
            self.marked = None
            self.emit(f"loam_stack_pop({self.at}, {self.name}_frames[{len(self.frames)}]);")

    def step_unwind(self):
        if len(self.frames) > 2:
            depth = self.rng.randint(1, len(self.frames) - 1)
            while len(self.frames) > depth + 1:
                self.forget(self.frames.pop())
            self.marked = None
            self.emit(f"loam_stack_unwind({self.at}, &{self.name}_frames[{depth}]);")

    def step_mark(self):
        self.marked = list(self.newest())
        self.emit(f"{self.name}_mark = loam_stack_mark_here({self.at});")

    def step_rewind(self):
        if self.marked is not None:
            newer = [each for each in self.newest() if each not in self.marked]
            self.forget(newer)
            self.frames[-1] = list(self.marked)
            self.emit(f"loam_stack_rewind({self.at}, &{self.name}_mark);")

    def step_seal(self):
        if not self.may_fail:
            self.emit(f"loam_stack_seal({self.at});")
            self.emit(f"{{ LOAM_STACK_SCOPE({self.at}); HOLDS(loam_stack_alloc({self.at}, 50) != NULL); }}")
            self.emit(f"loam_stack_unseal({self.at});")

    def step_reset(self):
        if self.rng.random() < 0.2:
            self.forget(self.objects)
            self.frames, self.marked = [[]], None
            self.emit(f"loam_stack_reset({self.at});")

    def step_is_from(self):
        made = self.any([each for each in self.objects if each.size > 0])
        if made:
            self.emit(f"HOLDS(object(T, {made.slot}) == NULL || loam_stack_is_from({self.at}, object(T, {made.slot})));")

    def finish(self):
        self.forget(self.objects)
        self.emit(f"{self.end()};")


class Ring(Allocator):
    kind, handle = "ring", "loam_ring_as_alloc"

    def declare(self):
        return f"static loam_ring {self.name};\nstatic loam_ring_frame *{self.name}_frames[12];"

    def begin(self):
        self.frames = {}  # number: objects
        self.last = None
        members = {"block_bytes": self.rng.choice([0, 256, 5000]), "flags": self.flags()}
        self.emit(f"{{ {self.options('ring', **members)} HOLDS(loam_ring_init({self.at}, {self.source.at}, &o) == 0); }}")
        self.step_open()

    def step_open(self):
        free = [each for each in range(12) if each not in self.frames]
        if free and not self.may_fail:
            self.last = free[0]
            self.frames[self.last] = []
            self.emit(f"{self.name}_frames[{self.last}] = loam_ring_open({self.at});")
            self.emit(f"HOLDS({self.name}_frames[{self.last}] != NULL);")

    def newest(self):
        return self.frames.get(self.last)

    def step_handle(self):
        if self.newest() is not None:
            super().step_handle()

    def alloc(self):
        if self.newest() is None:
            self.step_open()
        if self.newest() is None:
            return None
        size, align = size_of(self.rng), 16
        form, zero = self.rng.randint(0, 5), 0
        call = f"loam_ring_alloc({self.at}, {size})"
        if form < 2:
            align = self.rng.choice(self.aligns)
            call = f"loam_ring_alloc_aligned({self.at}, {size}, {align})"
        elif form == 2:
            zero, call = 1, f"loam_ring_calloc({self.at}, 1, {size})"
        return self.new(size, align, call, zero, self.newest())

    def free(self, made):
        for objects in self.frames.values():
            if made in objects:
                objects.remove(made)
        self.drop(made, lambda p, size: f"loam_ring_free({self.at}, {p}, {size})")

    def step_realloc(self):
        made = self.any([each for each in self.newest() or [] if each.align == 16])
        if made:
            self.change(made, size_of(self.rng), lambda p, old, new:
                        f"loam_ring_realloc({self.at}, {p}, {old}, {new})")

    def step_release(self):
        if self.frames:
            frame = self.rng.choice(sorted(self.frames))
            self.forget(self.frames.pop(frame))
            self.emit(f"loam_ring_release({self.at}, {self.name}_frames[{frame}]);")

    def finish(self):
        self.forget(self.objects)
        self.emit(f"{self.end()};")


class Blocks(Allocator):
    kind, handle = "blocks", "loam_blocks_as_alloc"
    aligns = (1, 2, 4, 8, 16, 16, 32, 64, 256, 4096)
    threads = False

    def begin(self):
        rng = self.rng
        self.small = rng.random() < 0.2 and not self.threads
        self.may_fail = int(bool(self.source.may_fail))
        members = {"flags": self.flags(*["LOAM_THREADS"] * (self.threads or (not self.small and rng.random() < 0.2)))}
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
        self.emit(f"{{ {before} {self.options('blocks', **members)} HOLDS(loam_blocks_init({self.at}, &o) == 0); }}")

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
            self.change(made, size, lambda p, old, new: f"loam_blocks_realloc({self.at}, {p}, {new})",
                        align=self.align_of(size))

    def step_usable(self):
        made = self.any()
        if made:
            self.emit(f"HOLDS(loam_blocks_usable_size({self.at}, object(T, {made.slot})) >= bytes_of(T, {made.slot}));")

    def step_reset(self):
        if self.exact and self.rng.random() < 0.2:
            self.forget(self.objects)
            self.emit(f"loam_blocks_reset({self.at});")


class ThreadBlocks(Blocks):
    threads = True


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
            self.change(made, size, lambda p, old, new: f"{self.names[1]}({p}, {new})", align=8 if size >= 8 else 1)

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


KINDS = (Region, Region, Pool, Pool, SharedPool, PoolSet, Fifo, Stack, Ring, Blocks, Heap, Malloc, Xmalloc)
# What all threads may use at once. ThreadSanitizer knows nothing of loam_malloc's blocks, and reports false races there
# unless it is told by an allocator of the family.
EVERY_THREADS = (SharedPool, ThreadBlocks, Xmalloc)
EVERY_THREADS_OF_HEAP = (SharedPool, ThreadBlocks, Heap, Malloc, Xmalloc)
