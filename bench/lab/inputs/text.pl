# perl's share of the demo: hashes, arrays, strings and regular expressions.
# The argument is the number of lines of text that are made and taken apart.
# Prints only counts and sums; keys are sorted before they are walked.
use strict;
use warnings;

my $size  = shift @ARGV;
my @stems = qw(river stone cloud meadow harbour lantern winter garden silver thunder);
my ( %count, %lines_of, @log );

for my $i ( 1 .. $size ) {
    my $word = $stems[ $i % 10 ] . ( ( $i * 7919 ) % 4999 );
    my $line = sprintf "%06d %s user=%s bytes=%d path=/%s/%s", $i, $word, $stems[ ( $i * 3 ) % 10 ],
        ( $i * 31 ) % 65536, $stems[ ( $i * 7 ) % 10 ], $word x ( 1 + $i % 3 );
    push @log, $line;
}

for my $line (@log) {
    next unless $line =~ m{^(\d+) (\w+) user=(\w+) bytes=(\d+) path=(\S+)$};
    my ( $number, $word, $user, $bytes, $path ) = ( $1, $2, $3, $4, $5 );
    $count{$word}{$user} += $bytes;
    push @{ $lines_of{$user} }, { number => $number, path => [ split m{/}, $path ] };
}

my $total = 0;
for my $word ( sort keys %count ) {
    $total = ( $total * 31 + $count{$word}{$_} ) % 1_000_000_007 for sort keys %{ $count{$word} };
}
print scalar( keys %count ), " words, sum $total\n";

for my $user ( sort keys %lines_of ) {
    my @deep = grep { @{ $_->{path} } > 2 } @{ $lines_of{$user} };
    my $text = join ',', map { join '.', @{ $_->{path} } } @deep;
    ( my $other = $text ) =~ s/([aeiou])(\w)/uc($2) . $1/ge;
    print "$user ", scalar(@deep), ' ', length($other), ' ', unpack( '%32C*', $other ), "\n";
}

my @sorted = sort { length($a) <=> length($b) || $a cmp $b } map { scalar reverse $_ } @log;
my $joined = join "\n", @sorted;
print unpack( '%32C*', $joined ), ' ', substr( $joined, 0, 60 ) =~ s/\n.*//sr, "\n";
