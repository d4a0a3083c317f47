/* stack_c.c: LOAM_SCOPE and its helpers as C has them, for stack_test.cc. */
#include "loam/stack.h"

#include <string.h>

int stack_in_c(int depth);

static int sum_of(const int *numbers, int count) {
    int sum = 0;
    for (int i = 0; i < count; i++) sum += numbers[i];
    return sum;
}

/* 1 + 2 + ... + depth, by way of text. */
int stack_in_c(int depth) {
    LOAM_SCOPE;
    int *numbers = LOAM_SCOPE_ARRAY(int, 2);
    char *text = loam_scope_sprintf("%d", depth);
    if (numbers == NULL || text == NULL || strcmp(loam_scope_strdup(text), text) != 0) return -1;
    numbers[0] = depth;
    numbers[1] = 0;
    if (depth > 1) {
        LOAM_STACK_SCOPE(loam_thread_stack());
        numbers[1] = stack_in_c(depth - 1);
    }
    return sum_of(numbers, 2);
}
