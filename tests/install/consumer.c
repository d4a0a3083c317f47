/* consumer.c: a program in C that uses an installed loam.
 *
 * TAKES_OVER=1 where malloc itself has to be loam's. The proof: loam_free takes what malloc gave, and
 * free what loam_malloc gave; a foreign pointer would be reported and abort. It checks that linking
 * works, not that the allocator does.
 */
#include <loam/loam.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char *own = loam_malloc(100);
    if (own == NULL) return 1;
    memset(own, 1, 100);
    loam_free(own);
#if TAKES_OVER
    /* Volatile: no compiler may see through which function is called. */
    void *(*volatile take)(size_t) = malloc;
    void (*volatile give)(void *) = free;
    char *text = take(100);
    if (text == NULL) return 1;
    memset(text, 2, 100);
    loam_free(text);
    give(loam_malloc(3000));
    give(strdup("from inside the C library"));
#endif
    printf("consumer: loam %d, malloc %s\n", loam_version(),
           TAKES_OVER ? "taken over" : "untouched");
    return 0;
}
