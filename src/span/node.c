/* node.c: NUMA nodes as ranges tell them apart (range.h).
 *
 *   lm_nodes_most   0: every node is one; n: node i counts as i % n; 1: there is one, and nothing is asked
 *
 * The system is asked which nodes there are once, when a range of a node is made, and where a thread runs once for each
 * page that is taken from such ranges. A program that has shut itself in is not asked any more: then, or where there is
 * one node, every thread runs on node 0. Memory that is in no range lies where the kernel puts it: on the node of the
 * thread that touches it first.
 */
#include "span/room.h"

uint32_t lm_nodes_most;

static uint64_t known; /* atomic; 0: not asked yet */

uint64_t lm_nodes(void) {
    /* Relaxed: a word by itself; who asks twice gets the same. */
    uint64_t nodes = lm_load_relaxed(&known);
    if (nodes == 0) {
        unsigned most = lm_load_relaxed(&lm_nodes_most);
        nodes = most == 1 ? 1 : lm_os_nodes();
        if (most != 0 && most < 64) nodes &= ((uint64_t)1 << most) - 1;
        if (nodes == 0) nodes = 1;
        lm_store_relaxed(&known, nodes);
    }
    return nodes;
}

void lm_nodes_forget(void) { lm_store_relaxed(&known, 0); }

bool lm_node_exists(int node) {
    return node == LM_NODE_ANY || (node >= 0 && node < 64 && (lm_nodes() >> node & 1) != 0);
}

int lm_node_here(void) {
    if (lm_nodes() == 1 || lm_load_relaxed(&lm_space.worker_forbidden)) return 0;
    unsigned most = lm_load_relaxed(&lm_nodes_most), node = lm_os_node();
    return (int)(most != 0 ? node % most : node);
}
