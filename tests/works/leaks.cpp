/* leaks.cpp: a program of leaks.py, which ends in the way that it is told, with libraries that it
 * is linked with and a plugin that it loads: each has an agent (leaks.h).
 *
 *   leaks END STEP...     END: return, exit, quick_exit, _exit, thread (another one is asleep as
 *                         main returns), child (of a fork, which calls exit), twice (what the first
 *                         plugin has allocated first is freed twice)
 *                         STEP: the path of a plugin, which is loaded; closes; removes FILE;
 *                         renames FROM TO
 */
#define LEAKS_MODULE 'p'
#include "leaks.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

extern "C" void *leaks_main_a();
extern "C" void *leaks_main_b();

static int end(const char *how) {
    if (strcmp(how, "exit") == 0) exit(0);
    if (strcmp(how, "quick_exit") == 0) quick_exit(0);
    if (strcmp(how, "_exit") == 0) _exit(0);
    if (strcmp(how, "thread") == 0) std::thread([] { pause(); }).detach();
    if (strcmp(how, "child") == 0) {
        pid_t child = fork();
        if (child == 0) exit(0);
        int status = -1;
        if (waitpid(child, &status, 0) != child || status != 0) _exit(1);
        _exit(0);
    }
    return 0;
}

/* Loads a plugin and calls its leaks_main_<letter>, whichever that is. */
static void *load(const char *path, void **first) {
    void *plugin = dlopen(path, RTLD_NOW);
    if (plugin == nullptr) exit(3);
    for (char letter = 'g'; letter <= 'h'; letter++) {
        char name[] = "leaks_main_?";
        name[sizeof name - 2] = letter;
        void *found = dlsym(plugin, name), *(*call)();
        if (found == nullptr) continue;
        memcpy(&call, &found, sizeof call);
        void *object = call();
        if (*first == nullptr) *first = object;
        return plugin;
    }
    exit(4);
}

int main(int count, char **arguments) {
    if (count < 2) return 2;
    void *plugin = nullptr, *first = nullptr;
    for (int i = 2; i < count; i++) {
        const char *word = arguments[i];
        if (strcmp(word, "closes") == 0) {
            if (dlclose(plugin) != 0) return 5;
        } else if (strcmp(word, "removes") == 0) {
            if (unlink(arguments[i + 1]) != 0) return 6;
            i++;
        } else if (strcmp(word, "renames") == 0) {
            if (rename(arguments[i + 1], arguments[i + 2]) != 0) return 7;
            i += 2;
        } else {
            plugin = load(word, &first);
        }
    }
    (void)in_main();
    leaks_main_a();
    leaks_main_b();
    if (strcmp(arguments[1], "twice") == 0) {
        void *volatile object = first;
        free(object);
        free(object);
    }
    return end(arguments[1]);
}
