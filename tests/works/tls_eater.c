/*
 * tls_eater.c - a library with 64 bytes of initial-exec thread-local storage: each copy that
 * dlopen_loam.c loads takes that much of the little room the C library keeps for libraries loaded
 * late.
 */
__attribute__((tls_model("initial-exec"))) __thread char tls_eater_room[64] = {1};

char *tls_eater_touch(void);
char *tls_eater_touch(void) { return tls_eater_room; }
