"""loam_heap.py: reads loam's heap out of a process or a core file, for loam.py, which shows it.

Pages, blocks, free lists and sampled objects as gdb's values and Python's, and what is to be said
of one. It only reads memory, and calls nothing. The constants are those of the headers that are
named beside them: of another version's library it may say what is not so.
"""

import gdb

SLICE_SHIFT = 16  # LM_SLICE_SHIFT in span/span.h
CLASSES = 113  # LM_CLASSES in heap/classes.h
OWNER_OFFSET, OWNER_COMMON = 2, 3  # LM_OWNER_* in span/span.h
OWNER_LEAST = 16  # thread tokens are not below
OFFSET_FREED = 1 << 63  # FREED in heap/offset.c
OFFSET_SHIFT = (1 << 31) - 1  # below SUM_MASK


def symbol(name):
    """A variable of loam's own; with its file where it is static there."""
    try:
        return gdb.parse_and_eval(name)
    except gdb.error as error:
        raise gdb.GdbError(
            f"loam: no {name} here: is loam in the program, with debug information? ({error})"
        )


def number(value):
    return int(value) & 0xFFFFFFFFFFFFFFFF


def address_of(argument):
    """What the user's expression means as an address."""
    try:
        return number(gdb.parse_and_eval(argument))
    except gdb.error as error:
        raise gdb.GdbError(f"loam: {argument} is no address: {error}")


def no_arguments(command, argument):
    if argument:
        raise gdb.GdbError(f"loam: {command} takes no argument")


def word_at(address):
    return int.from_bytes(bytes(gdb.selected_inferior().read_memory(address, 8)), "little")


def kind_name(page):
    for field in gdb.lookup_type("lm_kind_t").strip_typedefs().fields():
        if field.enumval == int(page["kind"]):
            return field.name.replace("LM_KIND_", "").lower()
    return "damaged"


def size_text(count):
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 10240 or unit == "GiB":
            return f"{count} {unit}"
        count //= 1024
    return ""


def end_of_block(page, start, block):
    """Where the debug build's word of a block is: just before this."""
    return (
        block + int(page["block_bytes"])
        if kind_name(page) == "page"
        else start + int(page["bytes"])
    )


def mask_of_word(end):
    """What the word before `end` is xored with: mask_of in checks/fence.c."""
    bits = ((end >> 4 ^ number(gdb.parse_and_eval("lm_secret"))) * 0x9E3779B97F4A7C15) & (2**64 - 1)
    return (bits ^ bits >> 29) & 0x3F3F3F3F3F3F3F3F | 0x8080808080808080


def request_text(page, start, block):
    """What the debug build's word behind the object says (checks/fence.c): ", 100 B requested", or
    why it says nothing."""
    if gdb.lookup_global_symbol("lm_word_get", gdb.SYMBOL_VAR_DOMAIN) is None:
        return ""
    end = end_of_block(page, start, block)
    try:
        word = word_at(end - 8) ^ mask_of_word(end)
    except gdb.error:  # a MemoryError, too
        return ""
    mixed = (end >> 4) + (word >> 16) * 0xD6E8FEB86659FD93
    tag = (mixed * 0x9E3779B97F4A7C15 & 0xFFFFFFFFFFFFFFFF) >> 48 ^ word & 0xFFFF
    if tag not in (0x5A11, 0xDEAD):
        return ", its end is overwritten or is loam's own"
    return f", {word >> 16} B {'requested' if tag == 0x5A11 else 'requested before it was freed'}"


def offset_of(page, block):
    """Where in its block an object at an offset begins, freed or not (heap/offset.c); None of other
    pages."""
    if number(page["owner"]) != OWNER_OFFSET:
        return None
    if kind_name(page) == "large":
        return number(page["remote"]) & ~OFFSET_FREED
    try:
        return word_at(block + 8) & OFFSET_SHIFT
    except gdb.MemoryError:
        return None


def place_text(pc):
    """Of a return address: the function and line that called."""
    symbol = gdb.execute(f"info symbol {pc - 1:#x}", to_string=True).strip()
    name = symbol.split(" + ")[0] if not symbol.startswith("No symbol") else "?"
    line = gdb.find_pc_line(pc - 1)
    at = f" at {line.symtab.filename}:{line.line}" if line.symtab is not None and line.line else ""
    return f"{pc:#x} in {name}{at}"


def threads_by_token():
    """gdb's numbers of the threads, by the thread pointers that loam knows them by."""
    numbers, selected = {}, gdb.selected_thread()
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        for register in ("$fs_base", "$tpidr"):  # x86-64, aarch64
            value = gdb.parse_and_eval(register)
            if value.type.code != gdb.TYPE_CODE_VOID:
                numbers[number(value)] = thread.num
    if selected is not None:
        selected.switch()
    return numbers


class Links:
    """Free lists as the library's build makes them."""

    def __init__(self):
        self.key = 0
        self.known = True
        if gdb.lookup_global_symbol("lm_link_last", gdb.SYMBOL_VAR_DOMAIN) is None:
            return  # links as they are
        try:
            self.key = number(gdb.parse_and_eval("lm_secret"))
        except gdb.error:
            self.known = False

    def next(self, address, link):
        """What a link means that lies there: lm_link_key in heap.h; in debug builds a sum stands
        above its address."""
        if self.key == 0:
            return link
        word = link ^ self.key ^ (((address >> SLICE_SHIFT) * 0x9E3779B97F4A7C15) & (2**64 - 1))
        return word & (2**48 - 1)

    def walk(self, first, most=1 << 20):
        """The blocks' addresses, as far as they can be read."""
        address, seen = first, 0
        while address != 0 and seen < most:
            yield address
            seen += 1
            try:
                link = word_at(address)
            except gdb.MemoryError:
                return
            address = self.next(address, link)


class Place:
    """Slices in a row, with their map and descriptors: the arena, or a range outside it
    (span/range.h)."""

    def __init__(self, name, base, slices, pages, page_of_slice):
        self.name, self.base, self.slices, self.pages, self.map = (
            name,
            base,
            slices,
            pages,
            page_of_slice,
        )
        self.first, self.each = number(pages), pages.dereference().type.sizeof

    def has(self, page):
        return 0 <= number(page.address) - self.first < self.slices * self.each

    def start(self, page):
        return self.base + ((number(page.address) - self.first) // self.each << SLICE_SHIFT)

    def slice_of(self, address):
        """Its number, or None where the address lies elsewhere."""
        slice_number = (address - self.base) >> SLICE_SHIFT
        return slice_number if 0 <= slice_number < self.slices else None

    def spans(self):
        slice_number = 0
        while slice_number < self.slices:
            span = self.pages[slice_number]
            yield span
            slice_number += max(1, int(span["slices"]))


def ranges():
    """Those outside the arena: what lies inside it is told by the arena's own map and
    descriptors."""
    table = symbol("lm_ranges")
    for i in range(table.type.range()[1] + 1):
        bounds = number(table[i]["bounds"])
        if bounds != 0 and number(table[i]["memory"]) != 0:
            yield Place(
                "range",
                bounds >> 32 << SLICE_SHIFT,
                bounds & 0xFFFFFFFF,
                table[i]["pages"],
                table[i]["map"],
            )


class Arena:
    def __init__(self):
        arena = symbol("lm_arena")
        own = Place(
            "arena", number(arena["base"]), int(arena["slices"]), arena["pages"], arena["map"]
        )
        self.places = [own, *ranges()]
        self.links = Links()
        self.threads = threads_by_token()
        self.waiting_large = self.large_that_wait()

    def thread_of(self, heap):
        """Whose a heap is; a branch of a first-class heap is said to be one."""
        whole = number(heap["fheap"]["fheap"])
        branch = f"branch of loam_heap {whole:#x}, " if whole != 0 else ""
        return branch + self.plain_thread_of(heap)

    def plain_thread_of(self, heap):
        if number(symbol("lm_heap_common").address) == number(heap.address):
            return "all threads"
        if not bool(heap["active"]):
            return "no thread"
        token = number(heap["token"])
        return (
            f"thread {self.threads[token]}"
            if token in self.threads
            else f"a thread that gdb does not see ({token:#x})"
        )

    def start(self, page):
        return next(place.start(page) for place in self.places if place.has(page))

    def page_of(self, address):
        """The page whose blocks lie at this address, or None."""
        for place in self.places:
            slice_number = place.slice_of(address)
            if slice_number is not None:
                page = place.map[slice_number].dereference()
                return page if kind_name(page) in ("page", "large") else None
        return None

    @staticmethod
    def large_that_wait():
        """Freed large objects whose memory is not to be used again at once, by address: their
        bytes. They count as loam's own meanwhile."""
        spans = []
        try:  # debug: checks/reuse.c
            ring = gdb.parse_and_eval("'reuse.c'::ring")
            spans = [ring[i] for i in range(ring.type.range()[1] + 1) if number(ring[i]) != 0]
        except gdb.error:
            pass
        try:  # secure: span/held.c
            aged = gdb.parse_and_eval("'held.c'::held_lists")["aged"]
            page = gdb.lookup_type("lm_page_t")
            link = next(field.bitpos // 8 for field in page.fields() if field.name == "age")
            for kind in range(2):
                first = number(aged[kind]["first"])
                node = first
                while node != 0:
                    spans.append(gdb.Value(node - link).cast(page.pointer()))
                    node = number(spans[-1]["age"]["next"])
                    node = 0 if node == first else node
        except gdb.error:
            pass
        arena, waiting = symbol("lm_arena"), {}
        for span in spans:  # of a range none waits
            slice_number = (number(span) - number(arena["pages"])) // span.dereference().type.sizeof
            waiting[number(arena["base"]) + (slice_number << SLICE_SHIFT)] = int(
                span.dereference()["bytes"]
            )
        return waiting

    def kind_of(self, span):
        """Its kind's name, or waiting."""
        kind = kind_name(span)
        return "waiting" if kind == "meta" and self.start(span) in self.waiting_large else kind

    def spans(self):
        for place in self.places:
            yield from place.spans()

    def span_of(self, address):
        for span in self.spans():
            start = self.start(span)
            if start <= address < start + (int(span["slices"]) << SLICE_SHIFT):
                return span
        return None

    def heaps(self):
        """Every heap ever made, once."""
        first = symbol("lm_registry")["first"]
        node, heap_type = first, gdb.lookup_type("lm_theap_t")
        offset = next(field.bitpos // 8 for field in heap_type.fields() if field.name == "link")
        while number(node) != 0:
            yield gdb.Value(number(node) - offset).cast(heap_type.pointer()).dereference()
            node = node["next"]
            if number(node) == number(first):
                return

    def free_of_page(self, page):
        """Addresses of the page's blocks that are on its own two lists: by whom they were freed."""
        where = {
            block: "free" for block in self.links.walk(number(page["free"]), int(page["carved"]))
        }
        remote, start = number(page["remote"]), self.start(page)
        count = remote >> 16 & 0xFFFF
        if count != 0:
            first = start + (remote >> 48) * 16
            for block in self.links.walk(first, count):
                where[block] = "freed by another thread"
        return where

    def waiting(self, heap, size_class):
        """In a secure build: freed blocks that are not to be used again at once, by ring: of a
        small size class, or of all that are larger."""
        if not any(field.name == "quarantine" for field in heap.type.fields()):
            return []
        rings = heap["quarantine"]["ring"]
        if size_class >= rings.type.range()[1] + 1:
            return []
        ring = rings[size_class]
        taken, last, end = (number(ring[name]) for name in ("taken", "last", "ready"))
        end = end + number(ring["mask"]) + 1 if number(ring["most"]) != 0 else taken
        blocks = [number(ring["places"][i & last]) for i in range(taken, end)]
        return [block for block in blocks if block != 0]

    def ready(self):
        """Blocks that are out of their pages and in nobody's hands: in lists of threads, or between
        them."""
        where = {}
        for heap in self.heaps():
            thread = self.thread_of(heap)
            for size_class in range(1, CLASSES):
                for block in self.links.walk(number(heap["head"][size_class])):
                    where[block] = f"free, ready for {thread}"
                for block in self.links.walk(number(heap["foreign"][size_class]["first"])):
                    where[block] = f"free, held by {thread}"
                for block in self.waiting(heap, size_class):
                    where[block] = f"free, waits in {thread}"
        transfers, counts = symbol("'transfer.c'::transfers"), symbol("lm_transfer_count")
        for size_class in range(1, CLASSES):
            for i in range(int(counts[size_class])):
                for block in self.links.walk(number(transfers[size_class]["list"][i])):
                    where[block] = "free, between threads"
        return where


class Sampled:
    """Objects between guard pages (sampling/sampling.h)."""

    def __init__(self):
        self.all = symbol("lm_sampled")
        self.base, self.count = number(self.all["base"]), int(self.all["count"])

    def slot_of(self, address):
        """The slot that an address lies in, or whose guard it is; None where it is neither:
        lm_sampled_near."""
        if self.base == 0 or not 0 <= address - self.base < (2 * self.count + 1) << SLICE_SHIFT:
            return None
        slice_number = (address - self.base) >> SLICE_SHIFT
        slot = slice_number // 2
        if slice_number % 2 == 0:
            before = max(slot - 1, 0)
            after = min(slot, self.count - 1)
            low = address & ((1 << SLICE_SHIFT) - 1) < 1 << (SLICE_SHIFT - 1)
            slot, other = (before, after) if low else (after, before)
            if self.state(slot) == 0:
                slot = other
        return slot

    def state(self, slot):
        return int(self.all["slots"][slot]["state"])

    def show(self, address, index):
        slot = self.all["slots"][index]
        where = f"slot {index} of {self.count}"
        if self.state(index) == 0:
            print(f"{address:#x}: never used, {where} of sampled objects")
            return
        start, count = number(slot["object"]), int(self.all["span"][2 * index + 1]["bytes"])
        at, guard = address - start, (address - self.base) >> SLICE_SHIFT & 1 == 0
        state = "a guard" if guard else "in use" if self.state(index) == 1 else "free"
        part = (
            f"{-at} B before"
            if at < 0
            else f"byte {at} of" if at < count or at == 0 else f"{at - count} B behind the end of"
        )
        print(
            f"{address:#x}: {state}, {part} a sampled object of {count} B at "
            f"{start:#x}, {where}"
        )
        self.trace("allocated", slot["allocated"])
        if self.state(index) != 1:
            self.trace("freed", slot["freed"])

    @staticmethod
    def trace(done, trace):
        tid = int(trace["thread"])
        known = {thread.ptid[1]: thread.num for thread in gdb.selected_inferior().threads()}
        print(
            f"  {done} by {f'thread {known[tid]}' if tid in known else 'a thread that has ended'} "
            f"(LWP {tid}):"
        )
        for i in range(int(trace["depth"])):
            print(f"    #{i} {place_text(number(trace['frames'][i]))}")


def owner_text(arena, page):
    owner = number(page["owner"])
    if owner == OWNER_OFFSET:
        return "no thread: it is for objects at an offset"
    if owner == OWNER_COMMON:
        return f"all threads (heap {number(symbol('lm_heap_common').address):#x})"
    # A thread's own heap and its branches have the same token: the page's own heap first.
    own = [page["heap"].dereference()] if number(page["heap"]) != 0 else []
    for heap in [*own, *arena.heaps()]:
        if owner >= OWNER_LEAST and number(heap["token"]) == owner and bool(heap["active"]):
            return f"{arena.thread_of(heap)} (heap {number(heap.address):#x})"
    return "nobody: its thread has ended"


def block_state(arena, page, address):
    """Of the block of a page that an address lies in."""
    start, each = arena.start(page), int(page["block_bytes"])
    index = (address - start) // each
    block = start + index * each
    if index >= int(page["capacity"]):
        return "behind the last block"
    if index >= int(page["carved"]):
        return "never used"
    if not arena.links.known:
        return "unknown"
    return arena.free_of_page(page).get(block) or arena.ready().get(block) or "in use"
