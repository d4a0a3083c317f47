/* list.h: a circular doubly linked list whose links are inside its members.
 *
 *     list ──> first <──> second <──> ... <──> last <──┐
 *                └─────────────────────────────────────┘
 *
 * Choose it where members are removed from the middle. It allocates nothing and takes no lock. A
 * member cannot be in one list twice. Invariant: x->next->prev == x for every member; a node that
 * is in no list has next == NULL.
 */
#ifndef LM_BASE_LIST_H
#define LM_BASE_LIST_H

#include "base/check.h"
#include "base/compiler.h"

typedef struct lm_node {
    struct lm_node *next, *prev;
} lm_node_t;

typedef struct lm_list {
    lm_node_t *first;
} lm_list_t;

#define LM_CONTAINER(node, type, member) ((type *)((char *)(node)-offsetof(type, member)))

LM_INLINE bool lm_node_linked(const lm_node_t *node) { return node->next != NULL; }

LM_INLINE void lm_list_add_last(lm_list_t *list, lm_node_t *node) {
    lm_node_t *first = list->first;
    LM_ASSERT(node != first);
    if (first == NULL) {
        node->next = node->prev = node;
        list->first = node;
        return;
    }
    node->next = first;
    node->prev = first->prev;
    first->prev->next = node;
    first->prev = node;
}

LM_INLINE void lm_list_add_first(lm_list_t *list, lm_node_t *node) {
    lm_list_add_last(list, node);
    list->first = node;
}

LM_INLINE void lm_list_remove(lm_list_t *list, lm_node_t *node) {
    LM_ASSERT(list->first != NULL && lm_node_linked(node));
    LM_ASSERT(node->next->prev == node && node->prev->next == node);
    if (node->next == node) {
        list->first = NULL;
    } else {
        node->prev->next = node->next;
        node->next->prev = node->prev;
        if (list->first == node) list->first = node->next;
    }
    node->next = node->prev = NULL;
}

/* Returns the member after node, or NULL if node is the last. */
LM_INLINE lm_node_t *lm_list_after(const lm_list_t *list, const lm_node_t *node) {
    return node->next == list->first ? NULL : node->next;
}

#endif
