"""programs_model.py: what programs.py holds of an allocator while it writes a program.

An operation is a method step_...() of an allocator's class (programs_arenas.py,
programs_family.py): it writes calls beside those of the model (programs.h), in the common subset of
C and C++. A class keeps just so much of the state as is needed to write no mistake: which objects
are alive, to which mark or frame they belong. Bytes, addresses and NULL are the running program's.

Invariant: objects in self.objects are alive in the program, but for those whose allocation the
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
        self.emit(f"made(T, {slot}, {self.number}, {call}, {size}, {align}, {zero}, "
                  f"{self.may_fail});")
        self.objects.append(made)
        if objects is not None:
            objects.append(made)
        return made

    def drop(self, made, write):
        """write(pointer, size): the call that frees."""
        self.world.put_back(made.slot)
        self.objects.remove(made)
        if self.may_fail:
            self.emit(f"{{ size_t b = bytes_of(T, {made.slot}); void *p = gone(T, {made.slot}); "
                      f"(void)b; "
                      f"{write('p', 'b')}; }}")
        else:
            self.emit(f"{write(f'gone(T, {made.slot})', made.size)};")

    def change(self, made, size, write, align=None, zero=0):
        """write(pointer, old size, new size): the call that changes it."""
        old = f"bytes_of(T, {made.slot})" if self.may_fail or self.rng.random() < 0.5 else made.size
        align = align or made.align
        self.emit(f"changed(T, {made.slot}, {self.number}, "
                  f"{write(f'object(T, {made.slot})', old, size)}, {size}, "
                  f"{align}, {zero}, {self.may_fail});")
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

    def step_churn(self):
        """What was freed is had again, and more."""
        self.step_free_many()
        self.step_alloc_more()

    def step_check(self):
        self.emit(f"HOLDS({self.function('check')});")

    def step_usage(self):
        if self.exact:
            self.emit(f"{{ loam_usage u; loam_{self.kind}_usage({self.at}, &u); counts(T, "
                      f"{self.number}, &u, "
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
        made = self.new(size, align, f"loam_alloc_alloc({handle}, {size}, {align})",
                        objects=self.newest())
        size = self.handle_size()[0]
        if made and self.rng.random() < 0.5:
            self.change(made, size, lambda p, old,
                        new: f"loam_alloc_realloc({handle}, {p}, {old}, {new}, {align})")

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
