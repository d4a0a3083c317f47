/* mixed.c: a program whose malloc is loam-override.o's, and whose library brought libloam.a.
 *
 * There is one heap: what either gives, the other takes. A foreign pointer would be reported and
 * abort.
 */
#include <loam/loam.h>

#include <stdlib.h>

void *user_takes(size_t size);

int main(void) {
    /* Volatile: no compiler may see through which function is called. */
    void *(*volatile take)(size_t) = malloc;
    void (*volatile give)(void *) = free;
    for (size_t size = 1; size < 100000; size *= 3) {
        void *a = user_takes(size), *b = take(size);
        if (a == NULL || b == NULL) return 1;
        give(a);
        loam_free(b);
    }
    return 0;
}
