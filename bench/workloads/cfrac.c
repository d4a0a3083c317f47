// cfrac.c: factors integers by continued fractions, with little big numbers from malloc.
//
// Asks: what do many small, short-lived blocks cost in a program that computes something? Every
// result of an addition, a product, a division is a block of its own of 4 to 32 bytes, most of
// them free again a moment later; relations that are found live to the end of their factoring.
//
// The method is Morrison's and Brillhart's (1975) with the early abort: the convergents A/B of
// sqrt(n) give A^2 = (-1)^i Q (mod n) with Q below 2 sqrt(n); those Q that fall apart over a base
// of small primes are combined, by elimination over GF(2), into X^2 = Y^2 (mod n), and gcd(X-Y, n)
// is a factor in half of the cases. Each n is the product of two known primes, so the answer is
// checked. Cannot show anything of large blocks, or of memory: it needs well under a megabyte.
#include "workload.h"

enum { MOST_PRIMES = 256, EARLY = 20, EARLY_BITS = 14 };

// ---- numbers: never negative, never changed, each a block of malloc --------------------------

typedef struct {
    uint32_t length; // without leading zeros; 0 has none
    uint32_t digits[];
} Number;

static uint64_t numbers_made;

static Number *blank(uint32_t length) {
    Number *made = wl_malloc(sizeof(Number) + length * sizeof(uint32_t));
    made->length = length;
    numbers_made++;
    return made;
}

static Number *trimmed(Number *number) {
    while (number->length > 0 && number->digits[number->length - 1] == 0) number->length--;
    return number;
}

static Number *from(uint64_t value) {
    Number *made = blank(2);
    made->digits[0] = (uint32_t)value;
    made->digits[1] = (uint32_t)(value >> 32);
    return trimmed(made);
}

static void set(Number **place, Number *value) {
    free(*place);
    *place = value;
}

static unsigned bits(const Number *a) {
    if (a->length == 0) return 0;
    return 32 * a->length - (unsigned)__builtin_clz(a->digits[a->length - 1]);
}

static int compare(const Number *a, const Number *b) {
    if (a->length != b->length) return a->length < b->length ? -1 : 1;
    for (uint32_t at = a->length; at-- > 0;) {
        if (a->digits[at] != b->digits[at]) return a->digits[at] < b->digits[at] ? -1 : 1;
    }
    return 0;
}

static Number *sum(const Number *a, const Number *b) {
    if (a->length < b->length) return sum(b, a);
    Number *made = blank(a->length + 1);
    uint64_t carry = 0;
    for (uint32_t at = 0; at < a->length; at++) {
        carry += (uint64_t)a->digits[at] + (at < b->length ? b->digits[at] : 0);
        made->digits[at] = (uint32_t)carry;
        carry >>= 32;
    }
    made->digits[a->length] = (uint32_t)carry;
    return trimmed(made);
}

static Number *difference(const Number *a, const Number *b) { // a >= b
    Number *made = blank(a->length);
    int64_t borrow = 0;
    for (uint32_t at = 0; at < a->length; at++) {
        borrow += (int64_t)a->digits[at] - (at < b->length ? (int64_t)b->digits[at] : 0);
        made->digits[at] = (uint32_t)borrow;
        borrow >>= 32;
    }
    return trimmed(made);
}

static Number *product(const Number *a, const Number *b) {
    Number *made = blank(a->length + b->length);
    memset(made->digits, 0, made->length * sizeof(uint32_t));
    for (uint32_t i = 0; i < a->length; i++) {
        uint64_t carry = 0;
        for (uint32_t j = 0; j < b->length; j++) {
            carry += (uint64_t)a->digits[i] * b->digits[j] + made->digits[i + j];
            made->digits[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        made->digits[i + b->length] = (uint32_t)carry;
    }
    return trimmed(made);
}

static Number *quotient_small(const Number *a, uint32_t b, uint32_t *rest) {
    Number *made = blank(a->length);
    uint64_t carry = 0;
    for (uint32_t at = a->length; at-- > 0;) {
        carry = carry << 32 | a->digits[at];
        made->digits[at] = (uint32_t)(carry / b);
        carry %= b;
    }
    *rest = (uint32_t)carry;
    return trimmed(made);
}

static Number *shifted(const Number *a, unsigned left) { // by less than 32 bits; one digit longer
    Number *made = blank(a->length + 1);
    uint64_t carry = 0;
    for (uint32_t at = 0; at < a->length; at++) {
        carry |= (uint64_t)a->digits[at] << left;
        made->digits[at] = (uint32_t)carry;
        carry >>= 32;
    }
    made->digits[a->length] = (uint32_t)carry;
    return made;
}

// Long division (Knuth, volume 2, 4.3.1, algorithm D); *rest may be left out.
static Number *quotient(const Number *a, const Number *b, Number **rest) {
    if (compare(a, b) < 0) {
        if (rest != NULL) {
            *rest = blank(a->length);
            memcpy((*rest)->digits, a->digits, a->length * sizeof(uint32_t));
        }
        return from(0);
    }
    if (b->length == 1) {
        uint32_t small;
        Number *made = quotient_small(a, b->digits[0], &small);
        if (rest != NULL) *rest = from(small);
        return made;
    }
    unsigned shift = (unsigned)__builtin_clz(b->digits[b->length - 1]);
    Number *u = shifted(a, shift), *v = shifted(b, shift);
    uint32_t n = b->length, m = a->length - n;
    uint64_t first = v->digits[n - 1], second = v->digits[n - 2];
    Number *made = blank(m + 1);
    for (uint32_t j = m + 1; j-- > 0;) {
        uint64_t top = (uint64_t)u->digits[j + n] << 32 | u->digits[j + n - 1];
        uint64_t guess = top / first, left = top % first;
        while (guess >> 32 != 0 || guess * second > (left << 32 | u->digits[j + n - 2])) {
            guess--;
            left += first;
            if (left >> 32 != 0) break;
        }
        uint64_t carry = 0;
        int64_t borrow = 0;
        for (uint32_t i = 0; i <= n; i++) {
            carry += guess * (i < n ? v->digits[i] : 0);
            borrow += (int64_t)u->digits[i + j] - (int64_t)(uint32_t)carry;
            u->digits[i + j] = (uint32_t)borrow;
            borrow >>= 32;
            carry >>= 32;
        }
        if (borrow < 0) { // one too many: add the divisor back
            guess--;
            carry = 0;
            for (uint32_t i = 0; i < n; i++) {
                carry += (uint64_t)u->digits[i + j] + v->digits[i];
                u->digits[i + j] = (uint32_t)carry;
                carry >>= 32;
            }
            u->digits[j + n] += (uint32_t)carry;
        }
        made->digits[j] = (uint32_t)guess;
    }
    if (rest != NULL) {
        Number *out = blank(n);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t two = (uint64_t)u->digits[i + 1] << 32 | u->digits[i];
            out->digits[i] = (uint32_t)(two >> shift);
        }
        *rest = trimmed(out);
    }
    free(u);
    free(v);
    return trimmed(made);
}

static Number *remainder_of(const Number *a, const Number *b) {
    Number *rest;
    free(quotient(a, b, &rest));
    return rest;
}

static Number *product_modulo(const Number *a, const Number *b, const Number *n) {
    Number *whole = product(a, b), *rest = remainder_of(whole, n);
    free(whole);
    return rest;
}

static Number *square_root(const Number *a) { // Newton's, from above
    Number *guess = from(UINT64_C(1) << ((bits(a) + 1) / 2));
    for (;;) {
        Number *other = quotient(a, guess, NULL), *both = sum(guess, other);
        uint32_t odd;
        Number *next = quotient_small(both, 2, &odd);
        free(other);
        free(both);
        if (compare(next, guess) >= 0) {
            free(next);
            return guess;
        }
        set(&guess, next);
    }
}

static Number *common_divisor(const Number *a, const Number *b) {
    Number *x = remainder_of(a, b), *zero = from(0), *y = sum(b, zero);
    free(zero);
    while (x->length != 0) {
        Number *next = remainder_of(y, x);
        set(&y, x);
        x = next;
    }
    free(x);
    return y;
}

// ---- the factoring ---------------------------------------------------------------------------

// x^2 = y^2 * product of those base[i] that are odd[i] (mod n)
typedef struct {
    Number *x, *y;
    bool odd[];
} Relation;

typedef struct {
    const Number *n;
    uint32_t count; // of primes; base[0] stands for the sign
    uint32_t base[MOST_PRIMES];
    Relation *pivots[MOST_PRIMES]; // whose first odd one is that one
} Search;

static uint32_t power_modulo(uint64_t a, uint64_t exponent, uint32_t p) {
    uint64_t result = 1;
    for (a %= p; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result = result * a % p;
        a = a * a % p;
    }
    return (uint32_t)result;
}

static bool is_small_prime(uint32_t p) {
    for (uint32_t d = 3; d * d <= p; d += 2) {
        if (p % d == 0) return false;
    }
    return true;
}

// The primes that can divide a Q: those of which n is a square.
static void choose_base(Search *search) {
    uint32_t wanted = 2 * bits(search->n);
    search->count = 2;
    search->base[0] = 1;
    search->base[1] = 2;
    if (wanted > MOST_PRIMES) wanted = MOST_PRIMES;
    for (uint32_t p = 3; search->count < wanted; p += 2) {
        uint32_t rest;
        if (!is_small_prime(p)) continue;
        free(quotient_small(search->n, p, &rest));
        if (power_modulo(rest, (p - 1) / 2, p) <= 1) search->base[search->count++] = p;
    }
}

static void multiply(Number **place, uint32_t prime, const Number *n) {
    Number *number = from(prime);
    set(place, product_modulo(*place, number, n));
    free(number);
}

static void drop(Relation *relation) {
    free(relation->x);
    free(relation->y);
    free(relation);
}

// What Q gives over the base, or NULL where something is left over.
static Relation *smooth(const Search *search, const Number *q, bool negative, const Number *x) {
    Relation *made = wl_calloc(1, sizeof(Relation) + search->count * sizeof(bool));
    Number *left = remainder_of(q, search->n); // a copy: q is the smaller
    made->x = remainder_of(x, search->n);
    made->y = from(1);
    made->odd[0] = negative;
    for (uint32_t at = 1; at < search->count && bits(left) > 1; at++) {
        if (at == EARLY && bits(left) + EARLY_BITS > bits(q)) break;
        for (;;) {
            uint32_t rest;
            Number *divided = quotient_small(left, search->base[at], &rest);
            if (rest != 0) {
                free(divided);
                break;
            }
            set(&left, divided);
            if (made->odd[at]) multiply(&made->y, search->base[at], search->n);
            made->odd[at] = !made->odd[at];
        }
    }
    bool whole = bits(left) == 1;
    free(left);
    if (whole) return made;
    drop(made);
    return NULL;
}

// Takes the relation in: as a pivot, or, where it depends on the others, as a try: x^2 = y^2. Gives
// a true factor, or NULL.
static Number *combine(Search *search, Relation *relation) {
    const Number *n = search->n;
    for (uint32_t at = 0; at < search->count; at++) {
        if (!relation->odd[at]) continue;
        const Relation *pivot = search->pivots[at];
        if (pivot == NULL) {
            search->pivots[at] = relation;
            return NULL;
        }
        set(&relation->x, product_modulo(relation->x, pivot->x, n));
        set(&relation->y, product_modulo(relation->y, pivot->y, n));
        for (uint32_t i = at; i < search->count; i++) {
            // base[0], the sign, is 1 here: its square is gone without a trace.
            if (relation->odd[i] && pivot->odd[i]) multiply(&relation->y, search->base[i], n);
            relation->odd[i] = relation->odd[i] != pivot->odd[i];
        }
    }
    Number *larger = sum(relation->x, n), *apart = difference(larger, relation->y);
    Number *found = common_divisor(apart, n);
    free(larger);
    free(apart);
    drop(relation);
    if (bits(found) > 1 && compare(found, n) != 0) return found;
    free(found);
    return NULL;
}

// A factor of n, which is odd, composite and no square.
static Number *factor(const Number *n) {
    Search search = {.n = n};
    choose_base(&search);
    Number *root = square_root(n), *p = from(0), *q = from(1), *a = sum(root, p);
    Number *before = from(1), *x = sum(root, p), *found = NULL;
    for (bool negative = true; found == NULL; negative = !negative) {
        // p = a q - p,  q = (n - p^2) / q,  a = (root + p) / q,  x = a x + the x before (mod n)
        Number *aq = product(a, q);
        set(&p, difference(aq, p));
        free(aq);
        Number *square = product(p, p), *rest = difference(n, square);
        set(&q, quotient(rest, q, NULL));
        free(square);
        free(rest);
        if (bits(q) == 1) wl_fail("the continued fraction came to its end");
        Relation *relation = smooth(&search, q, negative, x);
        if (relation != NULL) found = combine(&search, relation);
        Number *top = sum(root, p);
        set(&a, quotient(top, q, NULL));
        free(top);
        Number *ax = product(a, x), *next = sum(ax, before);
        free(ax);
        set(&before, x);
        x = remainder_of(next, n);
        free(next);
    }
    Number *all[] = {root, p, q, a, before, x};
    for (size_t at = 0; at < sizeof all / sizeof all[0]; at++) free(all[at]);
    for (uint32_t at = 0; at < search.count; at++) {
        if (search.pivots[at] != NULL) drop(search.pivots[at]);
    }
    return found;
}

// ---- the workload ----------------------------------------------------------------------------

static uint64_t power_modulo_64(uint64_t a, uint64_t exponent, uint64_t p) {
    __extension__ typedef unsigned __int128 Wide;
    uint64_t result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1) result = (uint64_t)((Wide)result * a % p);
        a = (uint64_t)((Wide)a * a % p);
    }
    return result;
}

// The next prime from here on, 3 modulo 4: there, one power decides for a base (Miller, Rabin).
static uint64_t prime_from(uint64_t p) {
    static const uint64_t bases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
    for (p |= 3;; p += 4) {
        bool prime = true;
        for (size_t at = 0; prime && at < sizeof bases / sizeof bases[0]; at++) {
            uint64_t power = power_modulo_64(bases[at], (p - 1) / 2, p);
            prime = power == 1 || power == p - 1;
        }
        if (prime) return p;
    }
}

static WlTally body(WlWorker *me) {
    WlTally tally = {0, 0};
    for (uint64_t left = wl_scaled(45); left > 0; left--) {
        uint64_t size = wl_between(&me->random, 37, 41); // bits of a prime
        uint64_t half = UINT64_C(1) << (size - 1);
        uint64_t p = prime_from(half + wl_next(&me->random) % half);
        uint64_t q = prime_from(half + wl_next(&me->random) % half);
        if (p == q) continue;
        Number *first = from(p), *second = from(q), *n = product(first, second);
        Number *found = factor(n);
        if (compare(found, first) != 0 && compare(found, second) != 0) {
            wl_fail("a wrong factor of %ju * %ju", (uintmax_t)p, (uintmax_t)q);
        }
        tally.sum += found->digits[0];
        Number *all[] = {first, second, n, found};
        for (size_t at = 0; at < sizeof all / sizeof all[0]; at++) free(all[at]);
    }
    tally.ops = 2 * numbers_made;
    return tally;
}

int main(int argc, char **argv) {
    wl_begin(argc, argv, "cfrac", WL_SINGLE, NULL);
    return wl_end(wl_run(1, body, NULL));
}
