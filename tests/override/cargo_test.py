"""cargo on loam: a release build and the tests of a generated workspace, without a network.

The workspace has a library, a procedural macro (a plugin that the compiler loads), a build script
and a program with threads; no dependencies. The program must equal, byte for byte, the one made
without the preload, and print the same with and without it.

cargo, its helpers and everything it builds take loam. Whether the compiler does depends on who
built it: rustup's has an allocator linked into the program itself, which no preload displaces (the
test says so when it is like that); Debian's has not.
"""

import os

import preload

MODULES = 16

FILES = {
    "Cargo.toml": '[workspace]\nmembers = ["work", "shapes", "derive"]\nresolver = "2"\n'
    "[profile.release]\ndebug = 0\n",
    "derive/Cargo.toml": '[package]\nname = "derive"\nversion = "0.1.0"\nedition = "2021"\n[lib]\n'
                         'proc-macro = true\n',
    "derive/src/lib.rs": r"""
use proc_macro::{TokenStream, TokenTree};

/// The name of a struct, and of its fields as far as the top level tells them.
#[proc_macro_derive(Described)]
pub fn described(input: TokenStream) -> TokenStream {
    let tokens: Vec<TokenTree> = input.into_iter().collect();
    let at = tokens.iter().position(|t| t.to_string() == "struct").expect("a struct");
    let name = tokens[at + 1].to_string();
    let body = tokens.last().unwrap().to_string();
    let fields: Vec<String> = body.split(',').filter_map(|f| f.split(':').next())
        .map(|f| f.trim_matches(|c: char| !c.is_alphanumeric() && c != '_').to_string()).collect();
    format!("impl {} {{ pub fn described() -> String {{ {:?}.to_string() }} }}", name,
            format!("{} {}", name, fields.join("+").len())).parse().unwrap()
}
""",
    "shapes/Cargo.toml": '[package]\nname = "shapes"\nversion = "0.1.0"\nedition = "2021"\n'
    '[dependencies]\nderive = { path = "../derive" }\n',
    "work/Cargo.toml": '[package]\nname = "work"\nversion = "0.1.0"\nedition = "2021"\n'
    '[dependencies]\nshapes = { path = "../shapes" }\n',
    "work/build.rs": r"""
use std::{env, fs, path::Path};
fn main() {
    let table: Vec<String> = (0..2000u64)
        .map(|n| format!("({}, \"word{}\")", n * 7919 % 10007, n))
        .collect();
    let path = Path::new(&env::var("OUT_DIR").unwrap()).join("table.rs");
    let joined = table.join(", ");
    fs::write(path, format!("pub static TABLE: [(u64, &str); 2000] = [{}];", joined)).unwrap();
    println!("cargo:rerun-if-changed=build.rs");
}
""",
    "work/src/main.rs": r"""
use std::collections::{BTreeMap, HashMap};
use std::sync::{mpsc, Arc, Mutex};
use std::{env, fs, thread};
include!(concat!(env!("OUT_DIR"), "/table.rs"));

#[repr(align(256))]
struct Aligned([u8; 300]);

fn churn(seed: u64) -> u64 {
    let mut state = seed * 2 + 1;
    let mut live: Vec<Option<Box<[u8]>>> = (0..500).map(|_| None).collect();
    let mut sum = 0u64;
    for i in 0..60_000u64 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let at = (state >> 33) as usize % live.len();
        if let Some(old) = live[at].take() {
            sum = sum.wrapping_mul(31) + old.len() as u64 + old[0] as u64; }
        live[at] = Some(vec![i as u8; 1 + (state >> 40) as usize % 2000].into_boxed_slice());
        let aligned = Box::new(Aligned([1; 300]));
        assert!(&*aligned as *const _ as usize % 256 == 0 && aligned.0[299] == 1);
    }
    sum
}

fn main() {
    fs::write(env::var("MAPS_COPY").unwrap(), fs::read("/proc/self/maps").unwrap()).unwrap();
    println!("{}", shapes::all(17));
    let map: BTreeMap<u64, String> = TABLE.iter().map(|(k, v)| (*k, v.repeat(3))).collect();
    let index: Arc<Mutex<HashMap<String, u64>>> = Arc::default();
    let (sender, receiver) = mpsc::channel();
    let threads: Vec<_> = (0..4u64).map(|t| {
        let (index, sender, part) = (index.clone(), sender.clone(), map.clone());
        thread::spawn(move || {
            for (k, v) in part.iter().filter(|(k, _)| *k % 4 == t) {
                index.lock().unwrap().insert(v.clone(), *k);
                sender.send(format!("{v}{k}")).unwrap();
            }
            churn(t)
        })
    }).collect();
    drop(sender);
    let received: usize = receiver.iter().map(|s| s.len()).sum();
    let sums: Vec<u64> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    println!("{received} {} {:?}", index.lock().unwrap().len(), sums);
    println!("{}", std::panic::catch_unwind(|| { let v: Vec<u8> = Vec::new(); v[1] }).is_err());
    println!("end");
}
""",
}


def module(n):
    return f"""
use derive::Described;
use std::collections::HashMap;
use std::fmt;

#[derive(Described, Clone, Debug, PartialEq, Default)]
pub struct Shape{n} {{ pub width: f64, pub height: f64,
    pub names: Vec<String>, pub table: HashMap<u32, String> }}

impl fmt::Display for Shape{n} {{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {{
        write!(f, "{{}} by {{}}: {{:?}}", self.width, self.height, self.names)
    }}
}}

pub fn make(seed: u32) -> Result<Shape{n}, std::num::ParseIntError> {{
    let mut shape = Shape{n} {{ width: {n}.5, ..Default::default() }};
    for i in 0..seed {{
        shape.height += f64::from(i) / {n + 3}.0;
        shape.names.push(format!("{{}}-{{i:03}}", i.to_string().parse::<u32>()? * {n + 1}));
        shape.table.entry(i % {n + 2}).or_default().push_str("x");
    }}
    shape.names.sort_by_key(|name| std::cmp::Reverse(name.len()));
    Ok(shape)
}}

#[test]
fn makes() {{
    let shape = make(40).unwrap();
    assert_eq!(shape.names.len(), 40);
    assert_eq!(shape.clone(), shape);
    assert!(Shape{n}::described().starts_with("Shape{n} "));
}}
"""


class CompilerParts:
    """What calls malloc in the compiler's process, and there gets the compiler's own."""

    def __contains__(self, caller):
        return caller == "rustc" or caller.startswith(
            ("librustc_driver", "libLLVM", "libstd-", "libc.so", "libstdc++")
        )


def workspace(bench):
    for name, text in FILES.items():
        bench.write(f"crate/{name}", text)
    for n in range(MODULES):
        bench.write(f"crate/shapes/src/m{n}.rs", module(n))
    parts = "".join(
        f"    total += make_len(m{n}::make(seed).map(|s| s.to_string() + "
        f"&m{n}::Shape{n}::described()));\n"
        for n in range(MODULES)
    )
    bench.write(
        "crate/shapes/src/lib.rs",
        "".join(f"pub mod m{n};\n" for n in range(MODULES))
        + "fn make_len<E: std::fmt::Debug>(text: Result<String, E>) -> usize { text.unwrap().len() "
          "}\n"
        f"pub fn all(seed: u32) -> usize {{\n    let mut total = 0;\n{parts}    total\n}}\n",
    )
    return bench.path("crate")


def test(bench):
    cargo, _, _ = bench.need("cargo", "rustc", "cc")
    # rustup finds its toolchain in the caller's home; everything else stays in the test's folder.
    home = os.environ.get("HOME", "/root")
    env = {
        "CARGO_HOME": bench.path("cargo"),
        "CARGO_NET_OFFLINE": "true",
        "CARGO_TERM_COLOR": "never",
        "RUSTUP_HOME": os.environ.get("RUSTUP_HOME", f"{home}/.rustup"),
    }
    if "RUSTUP_TOOLCHAIN" in os.environ:
        env["RUSTUP_TOOLCHAIN"] = os.environ["RUSTUP_TOOLCHAIN"]
    folder = workspace(bench)
    build = [cargo, "build", "--release", "--offline", "-j2"]

    bench.run(build, preload=False, env=env, cwd=folder)
    program = folder / "target/release/work"
    plain = program.read_bytes()
    (folder / "target").rename(bench.path("plain"))
    bench.run(build, env=env, cwd=folder)
    preload.expect(
        program.read_bytes() == plain,
        "the program is not the same, byte for byte, when built under the preload",
    )

    out = bench.twice([program], "the program")
    preload.expect(out.endswith(b"end\n"), "the program did not reach its end")
    tests = bench.run(
        [cargo, "test", "--offline", "-j2", "-p", "shapes", "--lib"], env=env, cwd=folder
    ).out
    preload.expect(f"test result: ok. {MODULES} passed".encode() in tests, preload.tail(tests))

    # Who had its malloc from where: once more, the smallest crate with a plugin.
    (folder / "derive/src/lib.rs").touch()
    answered = bench.answers(
        [*build, "-p", "derive"],
        ["cargo", "cc", "collect2"],
        env=env,
        cwd=folder,
        exempt=CompilerParts(),
    )
    own = sorted(answer for answer in answered.get("rustc", ()) if answer != str(bench.library))
    return "passed" + (f"; the compiler itself brings an allocator: {own[0]}" if own else "")


preload.main(test)
