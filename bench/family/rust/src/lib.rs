//! Table 000's loops over bumpalo and typed-arena. What region.h is to C, this is to Rust: the same
//! objects in the same order, the first word of each written.
//!
//! Pools are handed to C as raw pointers: created, used and destroyed here, never touched there.

use std::alloc::Layout;
use std::hint::black_box;
use std::mem::MaybeUninit;

use bumpalo::Bump;
use typed_arena::Arena;

const SMALL: usize = 24;
const BIG: usize = 240;
const HUGE: usize = 8305;
const IN_POOL: u64 = 100;

/// Writes the first word. black_box keeps the object, not its bytes, from being dropped.
#[inline(always)]
unsafe fn touch(object: *mut u8) {
    (object as *mut u64).write(1);
    black_box(object);
}

// ---- bumpalo ------------------------------------------------------------------------------------

#[inline(always)]
fn bump(pool: &Bump, size: usize) {
    // The size is a constant where this is inlined, and was valid all along.
    let layout = unsafe { Layout::from_size_align_unchecked(size, 8) };
    unsafe { touch(pool.alloc_layout(layout).as_ptr()) }
}

#[no_mangle]
pub extern "C" fn bumpalo_create(_size: usize, _count: u64) -> *mut Bump {
    Box::into_raw(Box::new(Bump::new()))
}

/// # Safety
/// `pool` comes from bumpalo_create and is used no more.
#[no_mangle]
pub unsafe extern "C" fn bumpalo_destroy(pool: *mut Bump) {
    drop(Box::from_raw(pool));
}

/// # Safety
/// `pool` comes from bumpalo_create. So for all that follow.
#[no_mangle]
pub unsafe extern "C" fn bumpalo_small(pool: *mut Bump, count: u64) {
    for _ in 0..count {
        bump(&*pool, SMALL);
    }
}

/// # Safety
/// See bumpalo_small.
#[no_mangle]
pub unsafe extern "C" fn bumpalo_big(pool: *mut Bump, count: u64) {
    for _ in 0..count {
        bump(&*pool, BIG);
    }
}

/// # Safety
/// See bumpalo_small.
#[no_mangle]
pub unsafe extern "C" fn bumpalo_mix(pool: *mut Bump, count: u64) {
    for i in 0..count {
        if i & 3 != 0 {
            bump(&*pool, SMALL);
        } else if i & 0xfff != 0 {
            bump(&*pool, BIG);
        } else {
            bump(&*pool, HUGE);
        }
    }
}

#[no_mangle]
pub extern "C" fn bumpalo_create_destroy(pools: u64) {
    for i in 0..pools {
        let pool = Bump::new();
        if i & 3 != 0 {
            (0..IN_POOL).for_each(|_| bump(&pool, SMALL));
        } else {
            (0..IN_POOL).for_each(|_| bump(&pool, BIG));
        }
    }
}

// ---- typed-arena --------------------------------------------------------------------------------

// Not initialised, or a big object would be written in full where the others write one word.
type Object<const WORDS: usize> = MaybeUninit<[u64; WORDS]>;
type Smalls = Arena<Object<{ SMALL / 8 }>>;
type Bigs = Arena<Object<{ BIG / 8 }>>;

pub enum Typed {
    Small(Smalls),
    Big(Bigs),
}

#[inline(always)]
fn typed<const WORDS: usize>(arena: &Arena<Object<WORDS>>, count: u64) {
    for _ in 0..count {
        let object = arena.alloc(MaybeUninit::uninit());
        unsafe { touch(object.as_mut_ptr() as *mut u8) }
    }
}

#[no_mangle]
pub extern "C" fn typed_arena_create(size: usize, _count: u64) -> *mut Typed {
    let arena = if size == SMALL {
        Typed::Small(Smalls::new())
    } else {
        Typed::Big(Bigs::new())
    };
    Box::into_raw(Box::new(arena))
}

/// # Safety
/// `pool` comes from typed_arena_create and is used no more.
#[no_mangle]
pub unsafe extern "C" fn typed_arena_destroy(pool: *mut Typed) {
    drop(Box::from_raw(pool));
}

/// # Safety
/// `pool` comes from typed_arena_create.
#[no_mangle]
pub unsafe extern "C" fn typed_arena_use(pool: *mut Typed, count: u64) {
    match &*pool {
        Typed::Small(arena) => typed(arena, count),
        Typed::Big(arena) => typed(arena, count),
    }
}

#[no_mangle]
pub extern "C" fn typed_arena_create_destroy(pools: u64) {
    for i in 0..pools {
        if i & 3 != 0 {
            typed(&Smalls::new(), IN_POOL);
        } else {
            typed(&Bigs::new(), IN_POOL);
        }
    }
}
