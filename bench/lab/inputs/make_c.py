"""Writes the large C file that gcc compiles in the demo.

write(path, count) makes one self-contained file of `count` groups of
functions: a structure, a hash table over it, a parser with a large switch, and
arithmetic on arrays, each with its own constants so that the compiler cannot
merge them. The text depends on `count` alone.
"""

GROUP = """
struct node_@N@ {{
    struct node_@N@ *next;
    unsigned long key;
    double weight[@A@];
    char name[@B@];
}};

static struct node_@N@ *table_@N@[@C@];

static unsigned long hash_@N@(const char *text)
{{
    unsigned long h = @H@ul;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 1099511628211ul;
    return h;
}}

struct node_@N@ *find_@N@(const char *name)
{{
    unsigned long key = hash_@N@(name);
    struct node_@N@ *node;
    for (node = table_@N@[key % @C@]; node; node = node->next)
        if (node->key == key && node->name[0] == name[0])
            return node;
    return 0;
}}

double weigh_@N@(struct node_@N@ *list, int rounds)
{{
    double sum = 0.0;
    int round, i, j;
    for (round = 0; round < rounds; round++)
        for (; list; list = list->next)
            for (i = 0; i < @A@; i++)
                for (j = i; j < @A@; j++)
                    sum += list->weight[i] * list->weight[j] - @F@ * (double)(i ^ j);
    return sum;
}}

int parse_@N@(const char *text, int *out, int room)
{{
    int state = @S@, used = 0;
    for (; *text && used < room; text++) {{
        switch ((state << 3) ^ (*text & 63)) {{
{cases}
        default:
            state = (state + *text) & 7;
        }}
    }}
    return used;
}}
"""

CASE = """        case {label}:
            out[used++] = state * {factor} + {add};
            state = {state};
            break;"""


def group(number):
    cases = "\n".join(
        CASE.format(
            label=label * 5 + number % 5,
            factor=3 + (number * label) % 91,
            add=(number * 7 + label) % 1009,
            state=(number + label) % 8,
        )
        for label in range(24)
    )
    marks = {
        "@N@": number,
        "@A@": 3 + number % 6,
        "@B@": 8 + number % 24,
        "@C@": 61 + 2 * (number % 40),
        "@H@": 14695981039346656037 - number,
        "@F@": f"{1 + number % 17}.5",
        "@S@": number % 8,
    }
    text = GROUP.format(cases=cases)
    for mark, value in marks.items():
        text = text.replace(mark, str(value))
    return text


def write(path, count):
    with open(path, "w", encoding="ascii") as file:
        for number in range(count):
            file.write(group(number))
