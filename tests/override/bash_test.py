"""bash on loam: arrays, strings, here-documents, subshells, pipes, job control, a thousand forks.

One script is run with and without the preload; what it prints must be equal. Nothing in it depends
on time, process ids or the order of an associative array.
"""

import preload

SCRIPT = r"""
set -u
while IFS= read -r line; do printf '%s\n' "$line"; done < /proc/$$/maps > "$MAPS_COPY"

echo "== arrays"
declare -A seen; declare -a squares
for ((i = 0; i < 20000; i++)); do
    seen[key$((i * 7919 % 20011))]=$i
    squares[i]=$((i * i))
done
echo "${#seen[@]} ${#squares[@]} ${seen[key7919]} ${squares[19999]}"
for ((i = 0; i < 20000; i += 2)); do unset "squares[i]"; done
echo "${#squares[@]} ${squares[*]:0:5}"
for key in "${!seen[@]}"; do printf '%s %s\n' "$key" "${seen[$key]}"; done | sort | cksum

echo "== strings"
text=
for ((i = 0; i < 3000; i++)); do text+="line $i of the text;"; done
echo "${#text} ${text:100:20} ${text//line/LINE}" | cksum
long=${text//;/$'\n'}
mapfile -t lines <<< "$long"
echo "${#lines[@]} ${lines[2999]}"
[[ ${lines[77]} =~ ^line\ ([0-9]+)\ of\ (.*)$ ]] && echo "${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
printf -v padded '%0500d' 42; echo "${#padded}"
read -r -a words <<< "$text"; echo "${#words[@]}"

echo "== here-documents and substitution"
for ((i = 0; i < 100; i++)); do
    read -r first _ <<END
word$i $(printf 'x%.0s' {1..200})
END
    [ "$first" = "word$i" ] || echo "wrong: $first"
done
big=$(for ((i = 0; i < 20000; i++)); do echo "number $i"; done)
echo "${#big}"; cksum <<< "$big"
paste -d, <(seq 1 1000) <(seq 1001 2000) | cksum

echo "== functions and recursion"
fib() { if (($1 < 2)); then echo "$1"; else echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); fi; }
fib 10
deep() { local frame="frame $1"
  if (($1 > 0)); then deep $(($1 - 1)); else echo "${#FUNCNAME[@]} $frame"; fi; }
deep 500

echo "== a thousand forks"
sum=0
for ((i = 0; i < 1000; i++)); do
    (seen[own]=$i; squares=(); exit $((${seen[own]} % 200)))
    sum=$((sum + $?))
done
echo "$sum ${#seen[@]} ${#squares[@]}"

echo "== jobs"
set -m
for ((i = 0; i < 20; i++)); do (for ((k = 0; k < 200; k++)); do a[k]=$k$i; done
  exit $i) & pids[i]=$!; done
for ((i = 0; i < 20; i++)); do wait "${pids[i]}"; printf '%d ' $?; done; echo
sleep 100 & kill %%; wait %% 2> /dev/null; echo "killed: $?"
coproc { while read -r n; do echo $((n * 2)); done; }
for n in 1 20 300; do echo $n >&"${COPROC[1]}"; read -r answer <&"${COPROC[0]}"
  echo "$answer"; done
exec {COPROC[1]}>&-; wait "$COPROC_PID"
set +m
trap 'echo trapped' USR1; kill -USR1 $$
trap 'echo left' EXIT
"""


def test(bench):
    bash = bench.need("bash")
    script = bench.write("script.bash", SCRIPT)
    out = bench.twice([bash, script], "the script")
    preload.expect(out.endswith(b"left\n"), "the script did not reach its end")
    bench.answers([bash, "-c", "x=$(echo a b c); exec sort <<< $x"], ["bash", "sort"])


preload.main(test)
