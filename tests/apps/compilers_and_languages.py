"""Interpreters and compilers for apps.py: each function runs one of them on both mallocs."""

import sys

import apps
import preload

PHP = r"""<?php
mb_internal_encoding('UTF-8');
$db = new PDO('sqlite::memory:');
$db->exec('CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, weight REAL)');
$add = $db->prepare('INSERT INTO t (name, weight) VALUES (?, ?)');
for ($i = 0; $i < 20000; $i++) $add->execute([str_repeat(chr(97 + $i % 26), $i % 90), $i / 7]);
foreach ($db->query('SELECT length(name) n, count(*) c, sum(weight) w FROM t GROUP BY n ORDER BY n')
    as $row) echo "$row[n] $row[c] ", round($row['w'], 3), "\n";
$dom = new DOMDocument();
$root = $dom->appendChild($dom->createElement('list'));
for ($i = 0; $i < 3000; $i++) $root->appendChild($dom->createElement('item', "number $i"));
$found = (new DOMXPath($dom))->query('//item[contains(., "77")]');
echo $found->length, ' ', sha1($dom->saveXML()), "\n";
$image = imagecreatetruecolor(300, 200);
for ($i = 0; $i < 400; $i++)
    imagefilledellipse($image, $i * 7 % 300, $i * 13 % 200, 40, 30, $i * 65793);
ob_start(); imagepng($image); echo sha1(ob_get_clean()), "\n";
$words = [];
for ($i = 0; $i < 60000; $i++) $words["k" . ($i * 7919 % 30011)][] = mb_strtoupper("ä$i");
ksort($words); echo count($words), ' ', sha1(json_encode($words)), "\n";
echo strlen(preg_replace_callback('/\d+/', fn($m) => $m[0] * 2,
    implode(',', range(1, 40000)))), "\n";
echo (new NumberFormatter('de_DE', NumberFormatter::DECIMAL))->format(1234567.891), "\n";
"""


def php(work):
    """php-cli with its SQLite, DOM, GD, mbstring and intl extensions"""
    php = work.need("php")
    work.twice([php, work.write("work.php", PHP)], inside="php")
    return work.version([php, "-v"])


RUBY = r"""
require 'json'
require 'digest'
GC.stress = false
words = Hash.new { |hash, key| hash[key] = [] }
120_000.times { |i| words["k#{i * 7919 % 30_011}"] << "v" * (i % 50) }
puts words.size, words.values.sum { |list| list.sum(&:size) }
threads = 8.times.map { |t| Thread.new { (1..3_000).map { |i| (i**40).to_s[t, 9] }.join } }
puts Digest::SHA1.hexdigest(threads.map(&:value).join)
text = (1..30_000).map { |i| "line #{i} of #{i * i}" }.join("\n")
puts Digest::SHA1.hexdigest(text.gsub(/\d+/) { |d| d.reverse }), text.scan(/7+/).size
puts JSON.parse(JSON.generate(words)).size
GC.start
reader, writer = IO.pipe
fork { reader.close; writer.puts words.size; writer.close; exit! 0 }
writer.close
puts reader.read
Process.wait
10.times { GC.compact rescue nil; words.delete_if { |k, _| k.hash % 3 == 0 } if false }
"""


def ruby(work):
    """strings, hashes, threads, JSON, fork and heap compaction in Ruby"""
    ruby = work.need("ruby")
    work.twice([ruby, work.write("work.rb", RUBY)], inside="libruby")
    return work.version([ruby, "--version"])


ERLANG = r"""
Parent = self(),
Loop = fun(F, N) -> receive {From, X} -> From ! {N, X * X}, F(F, N); stop -> ok end end,
Pids = [spawn(fun() -> Loop(Loop, N) end) || N <- lists:seq(1, 2000)],
[P ! {Parent, I} || {P, I} <- lists:zip(Pids, lists:seq(1, 2000))],
Sum = lists:sum([receive {_, Y} -> Y end || _ <- Pids]),
[P ! stop || P <- Pids],
Table = ets:new(t, [set, public]),
[ets:insert(Table, {I, binary:copy(<<"x">>, I rem 300)}) || I <- lists:seq(1, 50000)],
Bytes = ets:foldl(fun({_, B}, A) -> A + byte_size(B) end, 0, Table),
Big = lists:foldl(fun(I, A) -> A * I end, 1, lists:seq(1, 2000)),
Hash = erlang:phash2(lists:sort(
    [{erlang:phash2(I), integer_to_list(I)} || I <- lists:seq(1, 90000)])),
io:format("~p ~p ~p ~p~n", [Sum, Bytes, erlang:phash2(Big), Hash]),
io:format("~p~n", [erlang:crc32(crypto:hash(sha256, integer_to_binary(Big)))]),
init:stop().
"""


def erlang(work):
    """2,000 Erlang processes, ETS tables, big integers, crypto on all schedulers"""
    erl = work.need("erl")
    work.twice([erl, "-noshell", "-eval", ERLANG], inside="beam")
    return work.version(
        [
            erl,
            "-noshell",
            "-eval",
            'io:format("Erlang/OTP ~s~n", [erlang:system_info(otp_release)]), halt().',
        ]
    )


ELIXIR = r"""
1..200 |> Task.async_stream(fn n -> Enum.reduce(1..n, 1, &(&1 * &2)) end)
|> Enum.map(fn {:ok, x} -> rem(x, 1_000_003) end) |> Enum.sum() |> IO.puts()
for n <- 1..30 do
  defmodule Module.concat(Made, "M#{n}") do
    def value(x), do: x * unquote(n) + String.length(String.duplicate("ä", unquote(n)))
  end
end
IO.puts(Enum.map(1..30, fn n -> Module.concat(Made, "M#{n}").value(n) end) |> Enum.sum())
IO.puts(1..50_000 |> Enum.map(&Integer.to_string/1) |> Enum.sort() |> Enum.join() |> :erlang.md5()
  |> Base.encode16())
"""


def elixir(work):
    """the Elixir compiler: 30 modules at run time, parallel tasks"""
    elixir = work.need("elixir")
    work.twice([elixir, work.write("work.exs", ELIXIR)], inside="beam")
    return work.version([elixir, "--version"], line=-1)


R = r"""
set.seed(1)
x <- matrix(rnorm(40000), 200); s <- svd(x)
cat(format(sum(s$d), digits = 9), "\n")
frame <- data.frame(a = rnorm(50000), b = sample(letters, 50000, TRUE), c = runif(50000))
fit <- lm(a ~ b + c, frame); cat(format(coef(fit), digits = 6), "\n")
print(aggregate(cbind(a, c) ~ b, frame, function(v) round(mean(v), 6)))
words <- vapply(1:40000, function(i) paste(rev(strsplit(as.character(i * 7919), "")[[1]]),
                                           collapse = ""), "")
cat(length(unique(words)), sum(nchar(words)), "\n")
l <- lapply(1:2000, function(i) as.list(1:(i %% 50))); gc(verbose = FALSE) -> g
cat(sum(lengths(l)), length(serialize(l, NULL)), "\n")
postscript("plot.ps"); plot(frame$a[1:500], frame$c[1:500]); hist(frame$a); invisible(dev.off())
"""


def without_dates(text):
    lines = text.splitlines(keepends=True)
    return b"".join(
        line for line in lines if b"CreationDate" not in line and b"%%Title" not in line
    )


def r_language(work):
    """R: singular values, a linear model, aggregation, strings, a plot as PostScript"""
    rscript = work.need("Rscript")
    work.twice(
        [rscript, work.write("work.R", R)],
        inside="libR.so",
        files=["plot.ps"],
        normal=without_dates,
    )
    return work.version([rscript, "--version"])


OCTAVE = r"""
rand("seed", 1); a = reshape(mod((1:90000) * 7919, 10007), 300, 300) / 10007;
printf("%.8g %.8g\n", sum(svd(a)), abs(det(a(1:20, 1:20))));
c = cell(1, 5000); for i = 1:5000, c{i} = repmat("x", 1, mod(i, 70)); end
printf("%d\n", sum(cellfun(@numel, c)));
s = struct(); for i = 1:2000, s.(sprintf("f%d", i)) = 1:mod(i, 30); end
printf("%d %d\n", numel(fieldnames(s)), numel(regexprep(num2str(1:3000), "7", "seven")));
f = fft(reshape(a, 1, [])); printf("%.6g\n", sum(abs(f)) / numel(f));
"""


def octave(work):
    """GNU Octave: matrices, cells, structures, a Fourier transform"""
    octave = work.need("octave-cli")
    work.twice(
        [octave, "--no-init-file", "--quiet", work.write("work.m", OCTAVE)], inside="liboctinterp"
    )
    return work.version([octave, "--version"])


HASKELL = r"""
module Main where
import Control.Concurrent
import qualified Data.Map.Strict as M
import Data.List (foldl')
work :: Int -> Int
work n = foldl' (+) 0 (M.elems (M.fromListWith (+) [(i * 7919 `mod` 1009, i) | i <- [1 .. n]]))
main :: IO ()
main = do
  boxes <- mapM (\n -> do { b <- newEmptyMVar; _ <- forkIO (putMVar b $! work (n * 5000));
                            return b })
                [1 .. 12]
  mapM takeMVar boxes >>= print
  print (length (show (product [1 .. 3000 :: Integer])))
"""


def ghc(work):
    """the Haskell compiler GHC compiles a program with threads; the program runs as well"""
    ghc = work.need("ghc")
    source = work.write("Main.hs", HASKELL)
    program = work.bench.path("haskell")
    work.twice(
        [ghc, "-v0", "-O1", "-threaded", "-outputdir", ".", "-o", program, source],
        inside="ghc",
        output=False,
        files=["Main.hi"],
    )
    work.twice([program, "+RTS", "-N2"], inside="haskell")
    return work.version([ghc, "--version"])


OCAML = r"""
module M = Map.Make (String)
let () =
  let m = ref M.empty in
  for i = 0 to 60_000 do
    m := M.add (string_of_int (i * 7919 mod 30011)) (String.make (i mod 60) 'x') !m
  done;
  Printf.printf "%d %d\n" (M.cardinal !m) (M.fold (fun _ v a -> a + String.length v) !m 0);
  let b = Buffer.create 16 in
  for i = 0 to 100_000 do Buffer.add_string b (string_of_int i) done;
  Printf.printf "%s\n" (Digest.to_hex (Digest.string (Buffer.contents b)));
  let a = Array.init 200 (fun i ->
    Bigarray.Array1.create Bigarray.char Bigarray.c_layout (i * 1000 + 1)) in
  Array.iter (fun x -> Bigarray.Array1.fill x 'y') a; Gc.compact ();
  Printf.printf "%d\n" (Array.fold_left (fun s x -> s + Bigarray.Array1.dim x) 0 a)
"""


def ocaml(work):
    """the native OCaml compiler, and its program with maps, buffers, big arrays, compaction"""
    compiler = work.need("ocamlopt")
    source = work.write("work.ml", OCAML)
    program = work.bench.path("ocamlmade")
    work.twice([compiler, "-o", program, source], inside="ocamlopt", output=False)
    work.twice([program], inside="ocamlmade")
    return "OCaml " + work.version([compiler, "-version"])


JAVA = r"""
import java.util.*;
import java.util.stream.*;
public class Big {
    sealed interface Node permits Leaf, Pair {}
    record Leaf(int value) implements Node {}
    record Pair(Node left, Node right) implements Node {}
    static Node tree(int depth) {
        return depth == 0 ? new Leaf(depth) : new Pair(tree(depth - 1), tree(depth - 1));
    }
    static int count(Node n) {
        return n instanceof Pair p ? count(p.left()) + count(p.right()) : 1;
    }
    public static void main(String[] args) throws Exception {
        System.out.println(IntStream.range(0, 64).parallel().map(i -> count(tree(12))).sum());
        var map = IntStream.range(0, 300_000).boxed().parallel()
            .collect(Collectors.groupingByConcurrent(i -> i * 7919 % 1009, Collectors.counting()));
        System.out.println(new TreeMap<>(map).hashCode());
        var threads = new ArrayList<Thread>();
        var sums = new long[40];
        for (int t = 0; t < sums.length; t++) {
            int at = t;
            threads.add(new Thread(() -> {
                for (int i = 0; i < 20_000; i++) sums[at] += ("" + i).hashCode();
            }));
        }
        for (var thread : threads) thread.start();
        for (var thread : threads) thread.join();
        System.out.println(Arrays.hashCode(sums));
    }
}
"""


def openjdk(work):
    """OpenJDK: javac, then streams and 40 threads on the collectors G1, Parallel and Shenandoah"""
    javac, java = work.need("javac", "java")
    source = work.write("Big.java", JAVA)
    work.twice([javac, "-d", ".", source], inside="libjvm", output=False, files=["Big.class"])
    for collector in ("G1", "Parallel", "Shenandoah"):
        work.twice(
            [java, f"-XX:+Use{collector}GC", "-Xmx512m", "-cp", work.bench.path("plain"), source],
            inside="libjvm",
            env={"JAVA_TOOL_OPTIONS": ""},
        )
    return work.version([java, "-version"])


def maxima(work):
    """the computer algebra system Maxima on GNU Common Lisp: integrals, factors, determinants"""
    program = work.need("maxima")
    text = (
        "display2d:false$ integrate(x^3*exp(x)*sin(x),x); factor(x^40-1); "
        "determinant(genmatrix(lambda([i,j],1/(i+j)),12,12)); bfloat(%pi),fpprec:300; quit();"
    )
    work.twice([program, "--very-quiet", f"--batch-string={text}"], inside="maxima")
    return work.version([program, "--version"])


SBCL = r"""
(require :asdf nil)
(let ((table (make-hash-table :test 'equal)))
  (dotimes (i 60000) (push i (gethash (format nil "~a" (mod (* i 7919) 30011)) table)))
  (format t "~a~%" (hash-table-count table)))
(dotimes (n 40)
  (let ((f (compile nil `(lambda (x) (let ((y (* x ,n))) (loop for i below 50 sum (logxor y i)))))))
    (format t "~a " (funcall f n))))
(sb-ext:gc :full t)
(let ((threads (loop for n from 1 to 6 collect
        (let ((n n))
          (sb-thread:make-thread (lambda () (loop for i below 200000 sum (mod (* i n) 7))))))))
  (format t "~%~a~%" (mapcar #'sb-thread:join-thread threads)))
"""


def sbcl(work):
    """Steel Bank Common Lisp: compiles functions at run time, threads, a full collection"""
    sbcl = work.need("sbcl")
    work.twice([sbcl, "--script", work.write("work.lisp", SBCL)], inside="sbcl")
    return work.version([sbcl, "--version"])


GUILE = r"""
(use-modules (ice-9 threads) (ice-9 regex) (srfi srfi-1))
(define table (make-hash-table))
(do ((i 0 (+ i 1))) ((= i 60000))
  (hash-set! table (modulo (* i 7919) 30011) (make-string (modulo i 60) #\x)))
(display (hash-fold (lambda (k v a) (+ a (string-length v))) 0 table)) (newline)
(display (apply + (par-map (lambda (n) (string-length (number->string (expt n 900))))
                           (iota 60 1))))
(newline)
(display (fold-matches "7+" (string-join (map number->string (iota 20000)) ",") 0
  (lambda (m c) (+ c 1))))
(gc) (newline)
"""


def guile(work):
    """GNU Guile on Boehm's collector: hash tables, parallel maps, regular expressions"""
    guile = work.need("guile")
    work.twice([guile, "--no-auto-compile", work.write("work.scm", GUILE)], inside="libguile")
    return work.version([guile, "--version"])


PROLOG = r"""
:- use_module(library(thread)).
queens(N, Qs) :- numlist(1, N, Ns), permutation_safe(Ns, [], Qs).
permutation_safe([], Qs, Qs).
permutation_safe(Ns, Acc, Qs) :-
  select(Q, Ns, Rest), safe(Q, 1, Acc), permutation_safe(Rest, [Q|Acc], Qs).
safe(_, _, []).
safe(Q, D, [X|Xs]) :- Q =\= X + D, Q =\= X - D, D1 is D + 1, safe(Q, D1, Xs).
:- initialization(main).
main :- queens(16, Qs), writeln(Qs),
  numlist(1, 300, L), concurrent_maplist([X, Y]>>(Y is X ** 50 mod 1000003), L, R),
  sum_list(R, S), writeln(S),
  forall(between(1, 40000, I), (atom_concat(key_, I, K), assertz(fact(K, I)))),
  aggregate_all(sum(V), fact(_, V), T), writeln(T),
  retractall(fact(_, _)), garbage_collect_atoms, halt.
"""


def prolog(work):
    """SWI-Prolog: queens, concurrent map, 40,000 facts and atoms that are collected"""
    swipl = work.need("swipl")
    work.twice([swipl, "-q", work.write("work.pl", PROLOG)], inside="libswipl")
    return work.version([swipl, "--version"])


CSHARP = r"""
using System; using System.Collections.Generic; using System.Linq; using System.Threading.Tasks;
class Work {
  static void Main() {
    var sums = new long[32];
    Parallel.For(0, 32, t => { var m = new Dictionary<string, int>();
      for (int i = 0; i < 8000; i++) m["k" + i * 7919 % 3001] = i;
      sums[t] = m.Values.Sum(v => (long)v); });
    Console.WriteLine(sums.Distinct().Count() + " " + sums[0]);
    Console.WriteLine(string.Join(",", 
      Enumerable.Range(0, 50000).Select(i => i.ToString())).Length);
    GC.Collect();
  }
}
"""


def mono(work):
    """the C# compiler of Mono and its program, with parallel loops and dictionaries"""
    mcs, mono = work.need("mcs", "mono")
    program = work.bench.path("work.exe")
    work.twice([mcs, f"-out:{program}", work.write("work.cs", CSHARP)], inside="mono", output=False)
    work.twice([mono, program], inside="mono")
    return work.version([mono, "--version"])


CHDB = r"""
import sys
sys.path.insert(0, sys.argv[1])
import chdb
print(chdb.query("SELECT number % 7 AS k, count(), sum(number) FROM numbers(1000000) "
                 "GROUP BY k ORDER BY k"))
print(chdb.query("SELECT sum(length(toString(number))), uniqExact(number % 1009) "
                 "FROM numbers(300000)"))
"""


def chdb(work):
    """ClickHouse as a Python module (chdb from PyPI), which brings an allocator of its own"""
    python = work.need("python3")
    if not (apps.PYPI / "chdb").exists():
        raise preload.Skipped("not installed: chdb from PyPI (apps.py --install)")
    work.twice([sys.executable or python, work.write("work.py", CHDB), apps.PYPI], inside="_chdb")
    return "chdb from PyPI"


APPS = {
    "php": (["php-cli", "php-xml", "php-mbstring", "php-sqlite3", "php-gd", "php-intl"], php),
    "ruby": (["ruby"], ruby),
    "erlang": (["erlang-base", "erlang-crypto"], erlang),
    "elixir": (["elixir"], elixir),
    "r": (["r-base-core"], r_language),
    "octave": (["octave"], octave),
    "ghc": (["ghc"], ghc),
    "ocaml": (["ocaml-nox"], ocaml),
    "openjdk": (["openjdk-17-jdk-headless"], openjdk),
    "maxima": (["maxima"], maxima),
    "sbcl": (["sbcl"], sbcl),
    "guile": (["guile-3.0"], guile),
    "prolog": (["swi-prolog-nox"], prolog),
    "mono": (["mono-mcs"], mono),
    "chdb": (["pypi:chdb"], chdb),
}
