"""programs_arenas.py: regions, FIFOs, stacks and rings in the programs of programs.py.

Objects here belong to a place in time: a mark of a region, a frame of a stack or ring. Each class
keeps them by that, so that what a rewind, pop or release ends is told to the model before. It does
not use an object of an older frame, or change an older one than the newest mark: those are
mistakes, or move the object to where the rewind takes it.

Invariant: levels[-1], frames[-1] and frames[last] are what the next allocation belongs to.
"""

from programs_model import Allocator, size_of


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
            self.emit(f"{{ loam_region_options o = LOAM_REGION_TFW; {self.name} = "
                      f"loam_region_create({self.source.at}, "
                      "&o); }")
        else:
            members = {"first_bytes": rng.choice([0, 256, 4096, 20000]),
                       "large_bytes": rng.choice([0, 1024, 9000]),
                       "keep_bytes": rng.choice([0, 0, 30000]),
                       "chunk_align": rng.choice([0, 0, 64, 4096]),
                       "growth": rng.choice(["LOAM_GROWTH_DOUBLE", "LOAM_GROWTH_FIXED"]),
                       "flags": self.flags()}
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
            self.drop(made, lambda p, size: f"loam_region_free_aligned({self.at}, {p}, {size}, "
                      f"{made.align})")

    def step_realloc(self):
        made = self.any(self.newest())
        if made:
            self.change(made, size_of(self.rng), lambda p, old, new:
                        f"loam_region_realloc({self.at}, {p}, {old}, {new})" if made.align == 16
                        else
                        f"loam_region_realloc_aligned({self.at}, {p}, {old}, {new}, {made.align})")

    def step_extend(self):
        made = self.any([each for each in self.newest() if each.align == 16])
        if made and not self.may_fail:
            size = max(1, made.size + self.rng.randint(-30, 200))
            self.emit(f"if (loam_region_extend({self.at}, object(T, {made.slot}), {made.size}, "
                      f"{size}))")
            self.emit(f"    changed(T, {made.slot}, {self.number}, object(T, {made.slot}), "
                      f"{size}, 16, 0, 0);")
            self.free_as_it_is(made)

    def free_as_it_is(self, made):
        """Which of both sizes it has, only the program knows."""
        level = next(each for each in self.levels if made in each)
        level.remove(made)
        self.world.put_back(made.slot)
        self.objects.remove(made)
        self.emit(f"{{ size_t b = bytes_of(T, {made.slot}); loam_region_free({self.at}, gone(T, "
                  f"{made.slot}), b); }}")

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
            self.emit(f"{{ loam_region_mark m = loam_region_mark_here({self.at}); size_t n = 0; "
                      f"char *s = NULL;")
            self.emit(f"  for (int i = 0; i < 40; i++) s = loam_region_appendf({self.at}, s, &n, "
                      f"\"%d,\", i);")
            self.emit("  HOLDS(s != NULL && n == strlen(s) && n == 110 && memcmp(s + 104, "
                      "\"38,39,\", 7) == 0);")
            self.emit(f"  loam_region_rewind({self.at}, &m); }}")

    def step_contains(self):
        made = self.any([each for each in self.objects if each.size > 0])
        if made:
            self.emit(f"HOLDS(object(T, {made.slot}) == NULL || loam_region_contains({self.at}, "
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
        spares = self.rng.choice([0, 1])
        pages = 0 if self.world.careful else pages  # a page that is empty forgets what was freed
        # in it
        self.emit(f"{{ "
                  f"{self.options('fifo', page_bytes=pages, spare_pages=spares, flags=flags)} "
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
                        f"loam_fifo_realloc_aligned({self.at}, {p}, {old}, {new}, {made.align})",
                        zero=int(not self.raw))

    def finish(self):
        """Ends before its objects, or with them; a checked one would tell these as leaks."""
        if self.rng.random() < 0.5:
            while self.objects:
                self.free(self.objects[0])
            self.emit(f"loam_fifo_destroy({self.at});")
        elif not self.checked and self.rng.random() < 0.5:
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
        self.frames, self.marked = [[]], None  # marked: objects of the newest frame that are older
        # than its mark
        members = {"block_bytes": self.rng.choice([0, 256, 5000]),
                   "keep_bytes": self.rng.choice([0, 30000]),
                   "flags": self.flags()}
        self.emit(f"{{ {self.options('stack', **members)} HOLDS(loam_stack_init({self.at}, "
                  f"{self.source.at}, &o) == 0);"
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
            self.emit(f"{{ LOAM_STACK_SCOPE({self.at}); HOLDS(loam_stack_alloc({self.at}, 50) != "
                      f"NULL); }}")
            self.emit(f"loam_stack_unseal({self.at});")

    def step_reset(self):
        if self.rng.random() < 0.2:
            self.forget(self.objects)
            self.frames, self.marked = [[]], None
            self.emit(f"loam_stack_reset({self.at});")

    def step_contains(self):
        made = self.any([each for each in self.objects if each.size > 0])
        if made:
            self.emit(f"HOLDS(object(T, {made.slot}) == NULL || loam_stack_contains({self.at}, "
                      f"object(T, {made.slot})));")

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
        self.emit(f"{{ {self.options('ring', **members)} HOLDS(loam_ring_init({self.at}, "
                  f"{self.source.at}, &o) == 0); }}")
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
