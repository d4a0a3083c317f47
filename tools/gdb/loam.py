"""loam.py: shows gdb loam's heap, in a running process or a core file.

    (gdb) source <prefix>/share/loam/gdb/loam.py
    (gdb) loam heap              the arena, ranges of memory that is not its own, each thread's
                                 heap, and branches of first-class heaps
    (gdb) loam page ADDRESS      what lies there: which page, class, block and owner; in use or
                                 free; of sampled objects who allocated and freed them
    (gdb) loam blocks            blocks in use, by size class; large and sampled objects

and prints lm_theap_t, lm_page_t, lm_block_t and lm_arena_t in a line each. It only reads memory
(loam_heap.py, beside this file), and calls nothing. It needs the library's debug information. What
a thread is in the middle of may be counted wrongly by a block; of a library whose free lists are
encoded (debug, secure) the key is read as well, and blocks count as unknown where that does not
work.
"""

import os
import sys

import gdb
import gdb.printing

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from loam_heap import (  # noqa: E402  lies beside this file
    address_of,
    Arena,
    block_state,
    kind_name,
    Links,
    no_arguments,
    number,
    offset_of,
    owner_text,
    ranges,
    request_text,
    Sampled,
    size_text,
    SLICE_SHIFT,
    symbol,
)


class Loam(gdb.Command):
    """loam heap | loam page ADDRESS | loam blocks: what loam's heap holds."""

    def __init__(self):
        super().__init__("loam", gdb.COMMAND_DATA, gdb.COMPLETE_COMMAND, True)


class LoamHeap(gdb.Command):
    """loam heap: the arena, ranges outside it, and each thread's heap."""

    def __init__(self):
        super().__init__("loam heap", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        no_arguments("heap", argument)
        arena = Arena()
        pages = {}
        for place in arena.places:
            slices = {}
            for span in place.spans():
                kind = arena.kind_of(span)
                slices[kind] = slices.get(kind, 0) + int(span["slices"])
                if kind == "page":
                    heap = number(span["heap"])
                    pages[heap] = pages.get(heap, 0) + 1
            print(
                f"{place.name} {place.base:#x}: {size_text(place.slices << SLICE_SHIFT)}"
                + "".join(
                    f", {kind} {size_text(count << SLICE_SHIFT)}"
                    for kind, count in sorted(slices.items())
                )
            )
        for heap in arena.heaps():
            state = (
                ", parked"
                if bool(heap["parked"])
                else ", kept for the next" if bool(heap["kept"]) else ""
            )
            print(
                f"heap {number(heap.address):#x}: {arena.thread_of(heap)}{state}, "
                f"{pages.get(number(heap.address), 0)} pages"
            )


class LoamPage(gdb.Command):
    """loam page ADDRESS: which page, class, block and owner is there, and whether it is in use."""

    def __init__(self):
        super().__init__("loam page", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        if not argument:
            raise gdb.GdbError("loam: page of what? loam page ADDRESS")
        address = address_of(argument)
        arena, sampled = Arena(), Sampled()
        slot = sampled.slot_of(address)
        if slot is not None:
            sampled.show(address, slot)
            return
        page = arena.page_of(address)
        if page is None:
            span = arena.span_of(address)
            if span is None:
                print(f"{address:#x}: not loam's")
            elif kind_name(span) == "large":
                self.large(arena, address, span)
            elif arena.kind_of(span) == "waiting":
                start = arena.start(span)
                print(
                    f"{address:#x}: free, waits before its memory is used again, byte "
                    f"{address - start} of a large object of {arena.waiting_large[start]} B at "
                    f"{start:#x}"
                )
            else:
                text = {"meta": "loam's own", "damaged": "damaged"}.get(
                    kind_name(span), f"free, {kind_name(span)}"
                )
                print(
                    f"{address:#x}: {text}, a span of "
                    f"{size_text(int(span['slices']) << SLICE_SHIFT)} at {arena.start(span):#x}"
                )
        elif kind_name(page) == "large":
            self.large(arena, address, page)
        else:
            self.block(arena, address, page)

    @staticmethod
    def large(arena, address, page):
        span, usable = arena.start(page), int(page["bytes"])
        state = "in use" if address < span + usable else "behind its end"
        request = request_text(page, span, span)
        whole = number(page["fheap"])
        of = f", of loam_heap {whole:#x}" if whole != 0 else ""
        shift = offset_of(page, span)
        start = span + (shift or 0)
        usable -= start - span
        if address < start:
            print(
                f"{address:#x}: loam's own, {start - address} B before a large object of {usable} "
                f"B at {start:#x}"
            )
            return
        print(
            f"{address:#x}: {state}, byte {address - start} of a large object of {usable} B at "
            f"{start:#x}{request}{of}"
        )

    @staticmethod
    def block(arena, address, page):
        start, each = arena.start(page), int(page["block_bytes"])
        index = (address - start) // each
        block = start + index * each
        state = block_state(arena, page, address)
        made = index < int(page["carved"])
        request = request_text(page, start, block) if made else ""
        shift = offset_of(page, block) if made else None
        what, of = address - block, f"block {index} of {int(page['capacity'])} at {block:#x}"
        if shift is not None and 16 <= shift < each and address >= block + shift:
            what, of = address - block - shift, f"the object at {block + shift:#x} in {of}"
        print(f"{address:#x}: {state}, byte {what} of {of}{request}")
        print(
            f"  size class {each} B, page {start:#x} of "
            f"{size_text(int(page['slices']) << SLICE_SHIFT)}, owned by {owner_text(arena, page)}"
        )


class LoamBlocks(gdb.Command):
    """loam blocks: blocks in use, by size class, and large and sampled objects."""

    def __init__(self):
        super().__init__("loam blocks", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        no_arguments("blocks", argument)
        arena = Arena()
        pages, used, room = {}, {}, {}
        large = large_bytes = 0
        for span in arena.spans():
            if kind_name(span) == "large":
                large, large_bytes = large + 1, large_bytes + int(span["bytes"])
            if kind_name(span) != "page":
                continue
            each = int(span["block_bytes"])
            outside = (int(span["live"]) + int(span["bias"])) & 0xFFFFFFFF
            outside -= number(span["remote"]) >> 16 & 0xFFFF
            pages[each] = pages.get(each, 0) + 1
            used[each] = used.get(each, 0) + outside
            room[each] = room.get(each, 0) + int(span["capacity"])
        if arena.links.known:
            for block in arena.ready():
                page = arena.page_of(block)
                if page is not None:
                    used[int(page["block_bytes"])] -= 1
        print(f"{'size':>8} {'pages':>8} {'in use':>8} {'of':>8}")
        for each in sorted(pages):
            print(f"{each:>8} {pages[each]:>8} {used[each]:>8} {room[each]:>8}")
        print(f"large objects: {large}, {size_text(large_bytes)}")
        sampled = symbol("lm_sampled")
        if number(sampled["base"]) != 0:
            print(
                f"sampled objects: {int(sampled['objects']['now'])}, "
                f"{size_text(int(sampled['bytes']['now']))}"
            )


class HeapPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        state = "in use" if bool(self.value["active"]) else "idle"
        if number(self.value["fheap"]["fheap"]) != 0:
            state += f", a branch of loam_heap {number(self.value['fheap']['fheap']):#x}"
        token = number(self.value["token"])
        return f"heap, {state}, {int(self.value['pages'])} pages, token {token:#x}"


class PagePrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        kind, slices = kind_name(self.value), int(self.value["slices"])
        if kind == "page":
            return (
                f"page of {int(self.value['capacity'])} blocks of {int(self.value['block_bytes'])} "
                f"B, {int(self.value['carved'])} made"
            )
        what = f", {int(self.value['bytes'])} B usable" if kind == "large" else ""
        return f"{kind} span of {slices} slices{what}"


class BlockPrinter:
    """A free block's link, decoded; where no free block lies, its word is no link."""

    def __init__(self, value):
        self.value = value

    def to_string(self):
        word = number(self.value["next"])
        if self.value.address is None:
            return f"block, next {word:#x} as it is kept"
        address = number(self.value.address)
        links = Links()
        if not links.known:
            return f"block, next {word:#x} as it is kept: the key cannot be read"
        arena = Arena()
        page = arena.page_of(address)
        if page is None or kind_name(page) != "page":
            return "block in no page of blocks: it has no link"
        state = block_state(arena, page, address)
        if not state.startswith("free") or ", waits" in state:
            return f"block, {state}: it has no link"
        return f"block, {state}, next {links.next(address, word):#x}"


class FheapPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        hard = number(self.value["hard"])
        limit = f", at most {size_text(hard)}" if hard != 0xFFFFFFFFFFFFFFFF else ""
        return f"first-class heap of {size_text(int(self.value['used']))}{limit}"


class ArenaPrinter:
    def __init__(self, value):
        self.value = value

    def to_string(self):
        return f"arena of {int(self.value['slices'])} slices at {number(self.value['base']):#x}"


def printers():
    collection = gdb.printing.RegexpCollectionPrettyPrinter("loam")
    for name, printer in (
        ("theap", HeapPrinter),
        ("page", PagePrinter),
        ("block", BlockPrinter),
        ("arena", ArenaPrinter),
    ):
        collection.add_printer(name, f"^lm_{name}(_t)?$", printer)
    collection.add_printer("fheap", "^loam_heap$", FheapPrinter)
    return collection


gdb.printing.register_pretty_printer(None, printers(), replace=True)
for command in (Loam, LoamHeap, LoamPage, LoamBlocks):
    command()
