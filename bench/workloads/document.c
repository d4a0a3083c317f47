// document.c: trees with string keys are read in, looked through, and thrown away, as a compiler or
// a reader of JSON does.
//
// Asks: what does it cost to allocate a great deal that lives for a while, and then to free all
// of it in another order? Reading a document allocates nodes, keys and texts depth first, and
// lists of children that grow by realloc and are cut to size at their end; nothing is freed
// meanwhile, so a fast path to fresh memory and few bytes beside each object are what counts. The
// document is then walked (close objects make this fast) and freed breadth first, strings before
// nodes.
// Documents are shared out among the threads, which have nothing else in common. Of its
// instructions on glibc, 36% are malloc's, realloc's and free's; of its time more, for the order
// misses caches.
#include "workload.h"

static uint64_t nodes = 60000, documents = 16;

enum { MOST_DEPTH = 12, FANOUT = 12 };

typedef enum { NUMBER, TEXT, LIST } Kind;

typedef struct Node {
    struct Node *link; // the next one in the order of freeing
    char *key;
    Kind kind;
    uint32_t count, room; // of children
    union {
        uint64_t number;
        char *text;
        struct Node **children;
    } is;
} Node;

typedef struct {
    WlRandom random;
    WlTally tally;
    uint64_t left; // nodes that the document may still have
} Reader;

static char *make_string(Reader *reader, size_t least, size_t most) {
    size_t length = wl_skewed(&reader->random, least, most);
    char *text = wl_malloc(length + 1);
    uint64_t letters = wl_next(&reader->random);
    for (size_t at = 0; at < length; at++) {
        text[at] = (char)('a' + (letters & 15));
        letters = letters >> 4 | letters << 60;
    }
    text[length] = '\0';
    reader->tally.ops++;
    return text;
}

static void resize(Reader *reader, Node *list, uint32_t room) {
    list->is.children = wl_realloc(list->is.children, room * sizeof(Node *));
    list->room = room;
    reader->tally.ops++;
}

static Node *read_node(Reader *reader, int depth) {
    Node *node = wl_malloc(sizeof *node);
    reader->tally.ops++;
    reader->left--;
    *node = (Node){.kind = NUMBER};
    node->key = make_string(reader, 4, 40);
    uint64_t drawn = wl_below(&reader->random, 8);
    if (depth > 0 && (drawn < 4 || depth == MOST_DEPTH)) {
        node->kind = drawn < 3 && depth < MOST_DEPTH ? LIST : TEXT;
    } else if (depth == 0) {
        node->kind = LIST;
    }
    if (node->kind == NUMBER) node->is.number = wl_next(&reader->random) >> 32;
    if (node->kind == TEXT) node->is.text = make_string(reader, 8, 300);
    if (node->kind != LIST) return node;
    node->is.children = NULL;
    // The root takes whatever comes; other lists are short.
    uint64_t wanted = depth == 0 ? UINT64_MAX : wl_below(&reader->random, FANOUT);
    for (uint64_t at = 0; at < wanted && reader->left > 0; at++) {
        if (node->count == node->room) resize(reader, node, node->room == 0 ? 4 : node->room * 2);
        node->is.children[node->count++] = read_node(reader, depth + 1);
    }
    if (node->count > 0 && node->count < node->room) resize(reader, node, node->count);
    return node;
}

static uint64_t sum_of(const char *text) {
    uint64_t sum = 0;
    for (; *text != '\0'; text++) sum += (unsigned char)*text;
    return sum;
}

static uint64_t walk(const Node *node) {
    uint64_t sum = sum_of(node->key);
    if (node->kind == NUMBER) sum += node->is.number;
    if (node->kind == TEXT) sum += sum_of(node->is.text);
    if (node->kind != LIST) return sum;
    for (uint32_t at = 0; at < node->count; at++) sum += walk(node->is.children[at]);
    return sum;
}

// Level by level: what is freed one after the other was not allocated one after the other.
static void throw_away(Reader *reader, Node *root) {
    Node *last = root;
    for (Node *node = root; node != NULL; node = node->link) {
        free(node->key);
        reader->tally.ops++;
        if (node->kind == TEXT) {
            free(node->is.text);
            reader->tally.ops++;
        }
        if (node->kind != LIST || node->is.children == NULL) continue;
        for (uint32_t at = 0; at < node->count; at++) {
            last->link = node->is.children[at];
            last = last->link;
        }
        free(node->is.children);
        reader->tally.ops++;
    }
    while (root != NULL) {
        Node *next = root->link;
        free(root);
        reader->tally.ops++;
        root = next;
    }
}

static WlTally body(WlWorker *me) {
    Reader reader = {.random = me->random};
    uint64_t mine = wl_share(me, documents);
    for (uint64_t at = 0; at < mine; at++) {
        reader.left = nodes;
        Node *root = read_node(&reader, 0);
        uint64_t sum = walk(root);
        if (walk(root) != sum) wl_fail("a document changed by being read");
        reader.tally.sum += sum;
        throw_away(&reader, root);
    }
    return reader.tally;
}

int main(int argc, char **argv) {
    const WlOption options[] = {{"--nodes", &nodes, 1, 100000000, "of a document, at --scale 1"},
                                {"--documents", &documents, 1, 1000000, "all threads together"},
                                {0}};
    wl_begin(argc, argv, "document", WL_THREADED, options);
    nodes = wl_scaled(nodes); // large and small documents are the same question
    return wl_end(wl_run(wl.threads, body, NULL));
}
