/* linux_trace.c: return addresses of a thread, read from the stack by call frame information.
 *
 *   pc ──> row in the table of rows ──────────────────> sp', fp', return address ──> pc' ──> ...
 *            │ not there                                 (a few loads and additions)
 *            └── _dl_find_object ── .eh_frame_hdr ── .eh_frame: the function's program, up to pc
 *
 * Programs are compiled without frame pointers, and the compiler's own unwinder interprets these
 * tables at every frame. For one pc, a trace only needs to know where the frame ends (relative to
 * sp or fp), and where fp and the return address were saved: 8 bytes, which never change while the
 * code is there. They are cached in a table without locks. One of an entry's two words is xored
 * with the other, so a half-written pair matches nothing (as in the transposition tables of chess
 * programs).
 *
 * It takes no lock and allocates nothing, so malloc may call it wherever malloc may be called:
 * glibc's _dl_find_object promises that since 2.35. Without that function a trace has one address.
 * A trace stops at code without call frame information (made at run time, for example), at frames
 * of a form that compilers do not use, and at signal frames. The code assumes that tables for the
 * dynamic loader have entries of 4 bytes, relative to the table, as linkers write them.
 */
#define _GNU_SOURCE 1 /* struct dl_find_object */
#include "os/linux_site.h"

#include <string.h>

/* How to find a frame's end and the registers saved in it. */
typedef struct row {
    enum { ROW_NONE, ROW_SP, ROW_FP, ROW_FP_LOAD, ROW_SP_LOAD } base : 8;
    int32_t end : 24; /* sp of the caller, relative to base, in bytes */
    /* Offset of the saved fp from the frame's end; 0: fp is the caller's. */
    int16_t fp;
    /* Offset of the return address from the frame's end; 0: it is in the link register. */
    int16_t back;
} trace_row_t;
LM_STATIC_ASSERT(sizeof(trace_row_t) == 8, "a word of the table");

enum { TABLE = 4096, STACK_FAR = 128 * 1024 * 1024, DEEP = 4 };

/* Both words are atomic. */
static struct {
    uint64_t key, row;
} table[TABLE];

/* ---- Reading tables ---- */

typedef struct reader {
    const uint8_t *at, *end;
    bool bad;
} reader_t;

static uint64_t fixed(reader_t *r, size_t bytes) {
    uint64_t value = 0;
    LM_ASSERT(r->at <= r->end && bytes <= sizeof value);
    if ((size_t)(r->end - r->at) < bytes) {
        r->bad = true;
        r->at = r->end;
        return 0;
    }
    memcpy(&value, r->at, bytes);
    r->at += bytes;
    return value;
}

static uint64_t leb(reader_t *r, bool is_signed) {
    uint64_t value = 0, byte;
    unsigned shift = 0;
    do {
        byte = fixed(r, 1);
        if (shift < 64) value |= (byte & 0x7f) << shift;
        shift += 7;
    } while ((byte & 0x80) != 0 && !r->bad);
    if (is_signed && shift < 64 && (byte & 0x40) != 0) value |= ~(uint64_t)0 << shift;
    return value;
}

static reader_t block(reader_t *r) {
    uint64_t bytes = leb(r, false);
    reader_t inner = {r->at, r->at, false};
    if (bytes > (uint64_t)(r->end - r->at)) {
        r->bad = true;
        return inner;
    }
    r->at += bytes;
    inner.end = r->at;
    return inner;
}

/* Returns a reader of a record of .eh_frame, after its length. */
static reader_t record_at(const uint8_t *at) {
    uint32_t bytes;
    memcpy(&bytes, at, sizeof bytes);
    bool plain = bytes > 4 && bytes < 0xfffffff0u;
    return (reader_t){at + 4, at + 4 + (plain ? bytes : 0), !plain};
}

/* ---- The state of a frame, computed by its program ---- */

enum { SAME, SAVED, UNDEFINED, UNKNOWN };

typedef struct rule {
    int how;
    int64_t at;
} rule_t;

typedef struct state {
    enum { CFA_REGISTER, CFA_LOAD, CFA_UNKNOWN } cfa;
    uint64_t base;
    int64_t offset;
    rule_t fp, back;
} state_t;

typedef struct program {
    uint64_t code_align;
    int64_t data_align;
    uint64_t back; /* register of the return address */
    bool relative; /* addresses are relative, in 4 bytes */
    bool sized;    /* an augmentation block exists */
    reader_t start;
} program_t;

static rule_t *rule_of(state_t *state, const program_t *program, uint64_t reg) {
    if (reg == LM_REGISTER_FP) return &state->fp;
    return reg == program->back ? &state->back : NULL;
}

static void set_rule(state_t *state, const program_t *program, uint64_t reg, int how, int64_t at) {
    rule_t *rule = rule_of(state, program, reg);
    if (rule != NULL) *rule = (rule_t){how, at};
}

/* Interprets "register + number, then a load". Compilers write it where they align the stack, and
 * the system writes it in signal frames. */
static void cfa_expression(state_t *state, reader_t inner) {
    uint64_t first = fixed(&inner, 1);
    state->cfa = CFA_UNKNOWN;
    if (first < 0x70 || first > 0x8f) return; /* DW_OP_breg0 + register */
    int64_t offset = (int64_t)leb(&inner, true);
    if (fixed(&inner, 1) != 0x06 || inner.at != inner.end || inner.bad) return; /* DW_OP_deref */
    state->cfa = CFA_LOAD;
    state->base = first - 0x70;
    state->offset = offset;
}

static void cfa_set(state_t *state, uint64_t base, int64_t offset) {
    state->cfa = CFA_REGISTER;
    state->base = base;
    state->offset = offset;
}

typedef struct run {
    state_t now, first, saved[DEEP];
    unsigned depth;
    /* Code addresses: the one reached, and the one to stop after. */
    uint64_t at, to;
} run_t;

/* Executes an instruction without a number in its upper two bits. Returns false iff the program is
 * not understood. */
static bool step(run_t *run, const program_t *p, reader_t *r, unsigned code) {
    state_t *now = &run->now;
    LM_ASSERT(run->depth <= DEEP);
    uint64_t reg;
    rule_t *rule;
    switch (code) {
    case 0x00: break;                                         /* nop */
    case 0x02: run->at += fixed(r, 1) * p->code_align; break; /* advance_loc1, 2, 4 */
    case 0x03: run->at += fixed(r, 2) * p->code_align; break;
    case 0x04: run->at += fixed(r, 4) * p->code_align; break;
    case 0x05: /* offset_extended, and _sf */
        reg = leb(r, false);
        set_rule(now, p, reg, SAVED, (int64_t)leb(r, false) * p->data_align);
        break;
    case 0x11:
        reg = leb(r, false);
        set_rule(now, p, reg, SAVED, (int64_t)leb(r, true) * p->data_align);
        break;
    case 0x06: /* restore_extended */
        reg = leb(r, false);
        rule = rule_of(now, p, reg);
        if (rule != NULL) *rule = *rule_of(&run->first, p, reg);
        break;
    case 0x07: set_rule(now, p, leb(r, false), UNDEFINED, 0); break;
    case 0x08: set_rule(now, p, leb(r, false), SAME, 0); break;
    case 0x09: /* register */
        reg = leb(r, false);
        (void)leb(r, false);
        set_rule(now, p, reg, UNKNOWN, 0);
        break;
    case 0x0a: /* remember_state, restore_state */
        if (run->depth == DEEP) return false;
        run->saved[run->depth++] = *now;
        break;
    case 0x0b:
        if (run->depth == 0) return false;
        *now = run->saved[--run->depth];
        break;
    case 0x0c: /* def_cfa, and _sf */
        reg = leb(r, false);
        cfa_set(now, reg, (int64_t)leb(r, false));
        break;
    case 0x12:
        reg = leb(r, false);
        cfa_set(now, reg, (int64_t)leb(r, true) * p->data_align);
        break;
    case 0x0d: cfa_set(now, leb(r, false), now->offset); break;
    case 0x0e: now->offset = (int64_t)leb(r, false); break;
    case 0x13: now->offset = (int64_t)leb(r, true) * p->data_align; break;
    case 0x0f: cfa_expression(now, block(r)); break;
    case 0x10: /* expression, val_expression */
    case 0x16:
        reg = leb(r, false);
        (void)block(r);
        set_rule(now, p, reg, UNKNOWN, 0);
        break;
    case 0x14: /* val_offset, and _sf */
    case 0x15:
        reg = leb(r, false);
        (void)leb(r, false);
        set_rule(now, p, reg, UNKNOWN, 0);
        break;
    case 0x2d: break;                      /* aarch64: the return address is signed */
    case 0x2e: (void)leb(r, false); break; /* GNU_args_size */
    default: return false;
    }
    return !r->bad;
}

/* Executes instructions up to run->to. Returns false iff the program is not understood. */
static bool play(run_t *run, const program_t *p, reader_t r) {
    while (r.at < r.end && run->at <= run->to) {
        unsigned code = (unsigned)fixed(&r, 1), low = code & 0x3f;
        switch (code >> 6) {
        case 1: run->at += low * p->code_align; break;
        case 2: set_rule(&run->now, p, low, SAVED, (int64_t)leb(&r, false) * p->data_align); break;
        case 3: {
            rule_t *rule = rule_of(&run->now, p, low);
            if (rule != NULL) *rule = *rule_of(&run->first, p, low);
            break;
        }
        default:
            if (!step(run, p, &r, low)) return false;
        }
    }
    return !r.bad;
}

/* ---- From an address to its row ---- */

static bool read_common(const uint8_t *at, program_t *p) {
    reader_t r = record_at(at);
    if (r.bad || fixed(&r, 4) != 0) return false;
    uint64_t version = fixed(&r, 1);
    const char *letters = (const char *)r.at;
    while (fixed(&r, 1) != 0) {}
    p->code_align = leb(&r, false);
    p->data_align = (int64_t)leb(&r, true);
    p->back = version == 1 ? fixed(&r, 1) : leb(&r, false);
    p->relative = false;
    p->sized = letters[0] == 'z';
    p->start = r;
    if (!p->sized) return false; /* compilers have written no other form for twenty years */
    reader_t data = block(&r);
    p->start = r;
    for (letters++; *letters != 0; letters++) {
        switch (*letters) {
        case 'R': p->relative = fixed(&data, 1) == 0x1b; break; /* pcrel, 4 bytes signed */
        case 'L': (void)fixed(&data, 1); break;
        case 'P': {
            uint64_t encoding = fixed(&data, 1) & 0x0f;
            (void)fixed(&data, encoding == 0x0b || encoding == 0x03 ? 4 : 8);
            break;
        }
        default: break; /* S, B, G have no data */
        }
    }
    return p->relative && !r.bad && !data.bad;
}

/* Returns the record of the function that contains `to`, or NULL iff there is none. */
static const uint8_t *find_record(const uint8_t *header, uintptr_t to) {
    /* Required: version 1; a pointer of 4 bytes, relative to its place; a count of 4 bytes; a table
     * of entries of 4 bytes, relative to the header. */
    if (header[0] != 1 || header[2] != 0x03 || header[3] != 0x3b) return NULL;
    uint32_t count;
    memcpy(&count, header + 8, sizeof count);
    const uint8_t *pairs = header + 12;
    int64_t wanted = (int64_t)(to - (uintptr_t)header);
    uint32_t low = 0, high = count;
    int32_t pair[2];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        memcpy(pair, pairs + (size_t)middle * 8, sizeof pair);
        if (pair[0] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    LM_ASSERT(low <= count);
    if (low == 0) return NULL;
    memcpy(pair, pairs + (size_t)(low - 1) * 8, sizeof pair);
    return header + pair[1];
}

static trace_row_t trace_row_of(const state_t *state) {
    trace_row_t row = {ROW_NONE, 0, 0, 0};
    bool sp = state->base == LM_REGISTER_SP, fp = state->base == LM_REGISTER_FP;
    bool fits = state->offset > -(1 << 22) && state->offset < 1 << 22;
    if (state->cfa == CFA_UNKNOWN || (!sp && !fp) || !fits) return row;
    if (state->back.how > SAVED || state->fp.how > SAVED) return row;
    if (state->back.how == SAVED && (state->back.at < -32768 || state->back.at >= 0)) return row;
    if (state->fp.how == SAVED && (state->fp.at < -32768 || state->fp.at >= 0)) return row;
    bool load = state->cfa == CFA_LOAD;
    row.base = sp ? (load ? ROW_SP_LOAD : ROW_SP) : (load ? ROW_FP_LOAD : ROW_FP);
    row.end = (int32_t)state->offset;
    LM_ASSERT(row.end == state->offset); /* in 24 bits */
    row.fp = state->fp.how == SAVED ? (int16_t)state->fp.at : 0;
    row.back = state->back.how == SAVED ? (int16_t)state->back.at : 0;
    LM_ASSERT(row.fp <= 0 && row.back <= 0);
    return row;
}

static LM_COLD trace_row_t read_row(uintptr_t to) {
    trace_row_t none = {ROW_NONE, 0, 0, 0};
#ifdef DLFO_EH_SEGMENT_TYPE
    struct dl_find_object object;
    if (!lm_linux_find_object(to, &object)) return none;
    const uint8_t *at = find_record((const uint8_t *)object.dlfo_eh_frame, to);
    if (at == NULL) return none;
    reader_t r = record_at(at);
    if (r.bad) return none;
    const uint8_t *here = r.at;
    uint32_t back = (uint32_t)fixed(&r, 4);
    program_t program;
    if (back == 0 || !read_common(here - back, &program)) return none;
    uintptr_t begin = (uintptr_t)r.at + (uintptr_t)(intptr_t)(int32_t)fixed(&r, 4);
    if (to - begin >= fixed(&r, 4)) return none;
    (void)block(&r);
    run_t run = {.at = 0, .to = UINT64_MAX};
    run.now.cfa = CFA_UNKNOWN;
    if (!play(&run, &program, program.start)) return none;
    run.first = run.now;
    run.at = begin;
    run.to = to;
    return play(&run, &program, r) ? trace_row_of(&run.now) : none;
#else
    (void)to;
    return none;
#endif
}

/* Returns the row for a return address, whose call is before it. The module's number is part of the
 * key, because a module that is loaded where another one was has its own rows. Rows of unknown
 * modules are not cached. */
static trace_row_t row_for(uintptr_t pc, uint32_t module) {
    if (LM_UNLIKELY(module == 0)) return read_row(pc - 1);
    uint64_t wanted = pc ^ (uint64_t)module << 48;
    size_t i = (pc * 0x9e3779b97f4a7c15u) >> 52;
    LM_STATIC_ASSERT(TABLE == 1 << 12, "the index's bits");
    LM_ASSERT(i < TABLE && module <= LM_MODULE_OURS);
    /* Relaxed, all: only a pair that belongs together is accepted. */
    uint64_t word = lm_load_relaxed(&table[i].row), key = lm_load_relaxed(&table[i].key);
    trace_row_t row;
    if (LM_UNLIKELY((key ^ word) != wanted)) {
        row = read_row(pc - 1);
        memcpy(&word, &row, sizeof word);
        lm_store_relaxed(&table[i].key, wanted ^ word);
        lm_store_relaxed(&table[i].row, word);
    }
    memcpy(&row, &word, sizeof row);
    return row;
}

/* ---- Walking ---- */

/* Returns the end of the stack that sp lies on, as far as it is known. */
static uintptr_t stack_end(uintptr_t sp) {
    uintptr_t main_top = lm_os_main_top(), thread_top = lm_thread_token();
    if (sp < main_top && main_top - sp < STACK_FAR) return main_top;
    if (sp < thread_top && thread_top - sp < STACK_FAR) return thread_top;
    return UINTPTR_MAX; /* a stack of a coroutine or a signal */
}

static LM_READS_ANYTHING uintptr_t trace_word_at(uintptr_t at) { return *(const uintptr_t *)at; }

/* Modules that a trace has passed through. Most traces pass through few. */
enum { RANGES = 4 };
typedef struct ranges {
    lm_range_t at[RANGES];
    unsigned used, last;
} ranges_t;

/* Returns the module of the call before a return address. */
static const lm_range_t *trace_range_of(ranges_t *ranges, uintptr_t pc) {
    uintptr_t call = pc - 1;
    LM_ASSERT(ranges->used <= RANGES && ranges->last < RANGES);
    for (unsigned i = 0; i < ranges->used; i++) {
        if (call - ranges->at[i].from < ranges->at[i].to - ranges->at[i].from)
            return &ranges->at[i];
    }
    ranges->last = ranges->used < RANGES ? ranges->used++ : (ranges->last + 1) % RANGES;
    ranges->at[ranges->last] = lm_linux_module(call);
    return &ranges->at[ranges->last];
}

/* Steps to the caller. Returns false at the end of the trace. */
static bool up(lm_place_t *place, uintptr_t end, uint32_t module) {
    trace_row_t row = row_for(place->pc, module);
    uintptr_t cfa;
    switch (row.base) {
    case ROW_SP:
    case ROW_SP_LOAD: cfa = place->sp; break;
    case ROW_FP:
    case ROW_FP_LOAD: cfa = place->fp; break;
    default: return false;
    }
    cfa += (uintptr_t)(intptr_t)row.end;
    bool load = row.base == ROW_SP_LOAD || row.base == ROW_FP_LOAD;
    if (load && (cfa < place->sp || cfa >= end || cfa % 8 != 0)) return false;
    if (load) cfa = trace_word_at(cfa);
    /* Frames are stacked; an address outside these bounds is not on the stack. */
    if (cfa < place->sp || cfa > end || cfa % 8 != 0) return false;
    if (row.back != 0 && cfa + (uintptr_t)(intptr_t)row.back < place->sp) return false;
    if (row.fp != 0 && cfa + (uintptr_t)(intptr_t)row.fp < place->sp) return false;
    uintptr_t back =
        row.back != 0 ? trace_word_at(cfa + (uintptr_t)(intptr_t)row.back) : place->link;
    if (row.fp != 0) place->fp = trace_word_at(cfa + (uintptr_t)(intptr_t)row.fp);
    place->pc = lm_code_address(back);
    place->link = 0;
    place->sp = cfa;
    return place->pc > 4096;
}

/* Returns whether it is loam's own code, in a shared library of its own, which traces leave out. */
static bool trace_is_ours(uintptr_t pc) {
#ifdef DLFO_EH_SEGMENT_TYPE
    static uintptr_t from, to; /* atomic; every thread finds the same values */
    if (lm_load_relaxed(&to) == 0) {
        struct dl_find_object object;
        bool known = lm_linux_find_object((uintptr_t)trace_is_ours, &object) &&
                     object.dlfo_link_map != NULL && *object.dlfo_link_map->l_name != '\0';
        lm_store_relaxed(&from, known ? (uintptr_t)object.dlfo_map_start : 0);
        lm_store_relaxed(&to, known ? (uintptr_t)object.dlfo_map_end : 1);
    }
    return pc >= lm_load_relaxed(&from) && pc < lm_load_relaxed(&to);
#else
    (void)pc;
    return false;
#endif
}

/* Stores the trace from `place` on. Either array may be NULL. Returns the number of addresses. */
static size_t walk(lm_place_t *place, uintptr_t *frames, lm_site_t *sites, size_t most) {
    uintptr_t end = stack_end(place->sp);
    ranges_t ranges = {.used = 0};
    uint32_t module = LM_MODULE_OURS;
    size_t depth = 0;
    bool ours = true; /* frames of loam at the beginning are left out */
    do {
        ours = ours && trace_is_ours(place->pc);
        if (ours) continue;
        if (sites != NULL || depth + 1 < most) {
            const lm_range_t *range = trace_range_of(&ranges, place->pc);
            module = range->number;
            if (sites != NULL) sites[depth] = lm_linux_site(range, place->pc);
        }
        if (frames != NULL) frames[depth] = place->pc;
        depth++;
    } while (depth < most && up(place, end, module));
    return depth;
}

LM_NOINLINE size_t lm_os_trace(uintptr_t *frames, lm_site_t *sites, size_t most) {
    const uintptr_t *frame = (const uintptr_t *)__builtin_frame_address(0);
    lm_place_t place = {(uintptr_t)__builtin_return_address(0), (uintptr_t)__builtin_dwarf_cfa(),
                        frame[0], 0};
    return walk(&place, frames, sites, most);
}

size_t lm_os_trace_from(const lm_place_t *place, lm_site_t *sites, size_t most) {
    if (most == 0) return 0;
    lm_place_t at = *place;
    lm_range_t range = lm_linux_module(at.pc++);
    sites[0] = lm_linux_site(&range, at.pc);
    if (most == 1 || !up(&at, stack_end(at.sp), range.number)) return 1;
    return 1 + walk(&at, NULL, sites + 1, most - 1);
}
