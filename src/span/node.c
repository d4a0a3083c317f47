/* node.c: NUMA nodes as ranges distinguish them (range.h).
 *
 *   lm_nodes_most   0: every node counts by itself
 *                   1: all nodes count as one, and the system is not asked
 *                   n: node i counts as node i % n. Memory of that node is taken from the
 *                      lowest existing node that counts as it
 *
 * The system is asked which nodes exist once, when a range of a node is made. It is asked where a
 * thread runs once for each page that is taken from these ranges. A program that has shut itself in
 * is not asked. In that case, or if there is one node, every thread counts as running on node 0.
 * Memory in no range lies where the kernel puts it: on the node of the thread that touches it
 * first.
 */
#include "span/internal.h"

uint32_t lm_nodes_most;

static uint64_t node_known; /* atomic: the system's nodes as bits; 0: not asked yet */

/* Returns the nodes as they are distinguished. */
static uint64_t fold(uint64_t nodes, unsigned most) {
    LM_ASSERT(nodes != 0);
    if (most == 0 || most >= 64) return nodes;
    uint64_t folded = 0;
    for (; nodes != 0; nodes &= nodes - 1) folded |= (uint64_t)1 << lm_lowest_bit(nodes) % most;
    return folded;
}

uint64_t lm_nodes(void) {
    /* Relaxed: independent words. A second question gets the same answer. */
    uint64_t nodes = lm_load_relaxed(&node_known);
    unsigned most = lm_load_relaxed(&lm_nodes_most);
    if (nodes == 0) {
        nodes = most == 1 ? 1 : lm_os_nodes();
        if (nodes == 0) nodes = 1;
        lm_store_relaxed(&node_known, nodes);
    }
    return fold(nodes, most);
}

int lm_node_real(int node) {
    unsigned most = lm_load_relaxed(&lm_nodes_most);
    if (node < 0 || most == 1) return LM_NODE_ANY;
    (void)lm_nodes();
    for (uint64_t nodes = lm_load_relaxed(&node_known); nodes != 0; nodes &= nodes - 1) {
        unsigned real = lm_lowest_bit(nodes);
        if ((int)(most != 0 ? real % most : real) == node) return (int)real;
    }
    return LM_NODE_ANY;
}

void lm_nodes_forget(void) { lm_store_relaxed(&node_known, 0); }

bool lm_node_exists(int node) {
    return node == LM_NODE_ANY || (node >= 0 && node < 64 && (lm_nodes() >> node & 1) != 0);
}

int lm_node_here(void) {
    if (lm_nodes() == 1 || lm_load_relaxed(&lm_space.worker_forbidden)) return 0;
    unsigned most = lm_load_relaxed(&lm_nodes_most), node = lm_os_node();
    return (int)(most != 0 ? node % most : node);
}
