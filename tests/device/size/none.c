/* none.c: a program without an allocator, which the others here are compared with. */
int main(void);

int main(void) { return 0; }
