"""perl on loam: hashes, strings, regular expressions, sorting, objects, forks and threads.

One script of perl's core is run with and without the preload; what it prints must be equal. The
order of hashes is random and never printed. PERL_DESTRUCT_LEVEL=2 has every value freed at exit.
"""

import preload

SCRIPT = r"""
use strict; use warnings; use Config;
use Storable qw(dclone freeze thaw); use Digest::MD5 qw(md5_hex);
use List::Util qw(sum reduce shuffle);
use Scalar::Util qw(weaken); use Data::Dumper; use POSIX ();
$| = 1;
{ local (@ARGV, $/) = ("/proc/self/maps"); my $maps = <>;
  open my $copy, ">", $ENV{MAPS_COPY} or die; print $copy $maps; close $copy or die; }

print "== hashes and arrays\n";
my %table;
$table{"key" . ($_ * 7919 % 100003)} = { n => $_, list => [1 .. $_ % 7],
  text => "x" x ($_ % 300) } for 1 .. 30000;
print scalar(keys %table), " ", sum(map { scalar @{ $_->{list} } } values %table), "\n";
delete $table{"key$_"} for grep { $_ % 3 } 0 .. 100003;
print scalar(keys %table), " ", md5_hex(join ",",
  map { "$_$table{$_}{text}" } sort keys %table), "\n";
my @deque; for my $round (1 .. 50000) { push @deque, $round, "v$round"; shift @deque if $round % 3 }
print scalar(@deque), " $deque[0]\n";
my @sorted = sort { $a <=> $b } map { ($_ * 48271) % 2147483647 } 1 .. 100000;
print md5_hex("@sorted"), "\n";

print "== strings and expressions\n";
my $text = join "\n",
  map { sprintf "%05d the quick brown fox %s", $_, "ab" x ($_ % 40) } 1 .. 20000;
my %words; $words{$_}++ for $text =~ /\b(\w+)\b/g; print scalar(keys %words), " $words{fox}\n";
(my $changed = $text) =~ s/(\d+) the (\w+)/$2-$1/g;
print length $changed, " ", md5_hex($changed), "\n";
my $grown = ""; $grown .= chr(65 + $_ % 26) x ($_ % 50) for 1 .. 50000;
print length $grown, " ", md5_hex($grown), "\n";
print md5_hex(pack "(w/a*)*", map { "item $_" } 1 .. 30000), " ",
  md5_hex(scalar reverse $text), "\n";
my $wide = join "", map { chr(0x100 + $_ % 5000) } 1 .. 50000;
utf8::encode(my $bytes = $wide); print length $wide, " ", md5_hex($bytes), "\n";
print md5_hex(join "|", split /[, ]+/, "a, b c,d " x 20000), "\n";
my $nested = qr/(\((?:[^()]++|(?1))*\))/;
print scalar(() = ("(a(b)(c(d)))" x 2000) =~ /$nested/g), "\n";

print "== structures\n";
my $tree; my $add;
$add = sub { my ($t, $v) = @_; return { v => $v } unless $t;
             my $side = $v < $t->{v} ? "l" : "r"; $t->{$side} = $add->($t->{$side}, $v); $t };
$tree = $add->($tree, $_ * 7919 % 20011) for 1 .. 4000;
my $depth; $depth = sub { my $t = shift or return 0;
  1 + (sort { $b <=> $a } $depth->($t->{l}), $depth->($t->{r}))[0] };
my $copy = thaw(freeze(dclone($tree))); print $depth->($copy), "\n";
{ local $Data::Dumper::Sortkeys = 1; local $Data::Dumper::Indent = 0;
  print md5_hex(Dumper($copy)), "\n"; }
for (1 .. 20000) { my $up = {}; my $down = { up => $up };
  $up->{down} = $down; weaken($down->{up}); }
package Counted { my $alive = 0; sub new { $alive++; bless { room => "y" x 100 }, shift }
                  sub DESTROY { $alive-- } sub alive { $alive } }
{ my @many = map { Counted->new } 1 .. 20000; print Counted->alive, "\n"; }
print Counted->alive, "\n";
my @made = map { my $n = $_; sub { $n += shift } } 1 .. 10000;
print sum(map { $_->(2) } @made), "\n";
for my $n (1 .. 300) {
    no warnings; my $value = eval "package P$n; sub f { my \@a = (1..$n); return scalar \@a } f()";
    die $@ if $@; die unless $value == $n;
}
eval { die { code => 42, rest => [1 .. 1000] } } for 1 .. 5000; print $@->{code}, "\n";

print "== processes\n";
my $total = 0;
for my $n (1 .. 60) {
    pipe my $in, my $out or die; my $pid = fork // die;
    if (!$pid) {
        close $in; my %own = %table; $own{$_} = "z" x $n for 1 .. 200;
        print $out scalar(keys %own) + $n; close $out; %own = (); POSIX::_exit(0);
    }
    close $out; $total += <$in>; waitpid $pid, 0; die "child: $?" if $?;
}
print "$total\n";
print `echo from a shell; printf %s done`, "\n";
open my $sorter, "|-", "sort -n | tail -1" or die;
print $sorter "$_\n" for 1 .. 20000; close $sorter or die;

if ($Config{useithreads}) {
    print "== threads\n"; require threads; require Thread::Queue;
    my $queue = Thread::Queue->new; my $answers = Thread::Queue->new;
    my @workers = map { threads->create(sub {
        while (defined(my $job = $queue->dequeue)) {
            my %h = map { $_ => "t" x ($_ % 60) } 1 .. $job;
            $answers->enqueue(length join "", values %h);
        }
        return "ended";
    }) } 1 .. 4;
    $queue->enqueue(map { 100 + $_ } 1 .. 200); $queue->end;
    print join(" ", map { $_->join } @workers), "\n";
    $answers->end; my $sum = 0;
    while (defined(my $n = $answers->dequeue)) { $sum += $n } print "$sum\n";
}
END { print "left\n" }
"""


def test(bench):
    perl = bench.need("perl")
    script = bench.write("script.pl", SCRIPT)
    out = bench.twice([perl, script], "the script", env={"PERL_DESTRUCT_LEVEL": "2"})
    preload.expect(out.endswith(b"left\n"), "the script did not reach its end")
    bench.answers([perl, "-e", "my %h = map { $_ => 1 } 1 .. 100"], ["perl"])


preload.main(test)
