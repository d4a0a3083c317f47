// watcher: runs one program and says of every executable that ran with it whether a library was
// preloaded into it. The run is not measured: every fork, exec and exit stops under ptrace.
//
//     watcher REPORT_FD LIBRARY COUNT NAME=VALUE... PROGRAM ARGUMENT...
//
// The program's environment is given as COUNT arguments, as starter.c's is. Standard input, output,
// error and the folder are handed on. The program leads a process group of its own and dies with
// the watcher. On REPORT_FD, which the program does not get, come lines:
//
//     failed REASON                                               nothing was watched
//     image PID PRELOADED SECURE DYNAMIC MAPPED NANOSECONDS PATH  one that has ended
//     ended STATUS                                                wait4's, of the program
//
// An image is what a process runs from one exec to the next, or to its end. A process that is
// forked and executes nothing counts with its parent's image. PRELOADED is 1 if LD_PRELOAD in the
// image's first environment names LIBRARY. SECURE is 1 if the dynamic linker ignores LD_PRELOAD
// (AT_SECURE: set-user-ID and the like). DYNAMIC is 1 if the image is a 64-bit program that asks
// for a dynamic linker, 2 if it is a 32-bit one, 0 if it asks for none. MAPPED is 1 if LIBRARY was
// in the memory map when a thread of the image ended, 0 if not, 2 if nobody could look, because the
// image ended by an exec or by SIGKILL. NANOSECONDS is the processor time of its threads.
// It does not see programs that a daemon starts on request: those are not the program's children.
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNKNOWN = 2 };

typedef struct {
    pid_t pid;
    int preloaded, secure, dynamic, mapped;
    long long nanoseconds;
    int threads;
    char path[4096];
} image_t;

typedef struct {
    pid_t id;
    image_t *image;
    long long counted; // nanoseconds of this thread that belong to earlier images
} task_t;

static FILE *report;
static const char *library;
static task_t *tasks;
static size_t task_count, task_room;

_Noreturn static void fail(const char *what) {
    fprintf(report, "failed %s: %s\n", what, strerror(errno));
    fclose(report);
    _exit(1);
}

static void *needed(void *memory) {
    if (memory == NULL) fail("memory");
    return memory;
}

// What a file of /proc holds, with a NUL behind it; the caller frees it. NULL if it cannot be read.
static char *proc_file(pid_t id, const char *name, size_t *length) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)id, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return NULL;
    size_t room = 8192;
    char *text = needed(malloc(room));
    *length = 0;
    for (;;) {
        ssize_t got = read(file, text + *length, room - *length - 1);
        if (got <= 0) break;
        *length += (size_t)got;
        if (room - *length < 4096) text = needed(realloc(text, room *= 2));
    }
    close(file);
    text[*length] = '\0';
    return text;
}

static long long nanoseconds_of(pid_t id) {
    size_t length;
    char *text = proc_file(id, "schedstat", &length);
    long long value = text != NULL ? atoll(text) : 0;
    free(text);
    return value;
}

static int is_preloaded(pid_t id) {
    size_t length;
    char *text = proc_file(id, "environ", &length);
    int found = 0;
    for (char *at = text; text != NULL && at < text + length; at += strlen(at) + 1) {
        if (strncmp(at, "LD_PRELOAD=", 11) == 0 && strstr(at, library) != NULL) found = 1;
    }
    free(text);
    return found;
}

static int is_secure(pid_t id) {
    size_t length;
    char *text = proc_file(id, "auxv", &length);
    int found = 0;
    for (size_t at = 0; text != NULL && at + 2 * sizeof(long) <= length; at += 2 * sizeof(long)) {
        unsigned long pair[2];
        memcpy(pair, text + at, sizeof pair);
        if (pair[0] == AT_SECURE && pair[1] != 0) found = 1;
    }
    free(text);
    return found;
}

static int is_dynamic(pid_t id) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)id);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return UNKNOWN;
    Elf64_Ehdr head;
    int found = UNKNOWN;
    if (pread(file, &head, sizeof head, 0) == sizeof head && head.e_ident[EI_CLASS] == ELFCLASS64) {
        found = 0;
        for (int i = 0; i < head.e_phnum; i++) {
            Elf64_Phdr part;
            off_t place = (off_t)(head.e_phoff + (size_t)i * head.e_phentsize);
            if (pread(file, &part, sizeof part, place) == sizeof part && part.p_type == PT_INTERP) {
                found = 1;
            }
        }
    }
    close(file);
    return found;
}

// Whether a line of the memory map ends with the library's path.
static int is_mapped(pid_t id) {
    size_t length;
    char *text = proc_file(id, "maps", &length);
    if (text == NULL || length == 0) {
        free(text);
        return UNKNOWN;
    }
    int found = 0;
    size_t own = strlen(library);
    for (char *at = text; (at = strstr(at, library)) != NULL; at += own) {
        if (at > text && at[-1] == ' ' && (at[own] == '\n' || at[own] == '\0')) found = 1;
    }
    free(text);
    return found;
}

static task_t *task_of(pid_t id) {
    for (size_t i = 0; i < task_count; i++) {
        if (tasks[i].id == id) return &tasks[i];
    }
    return NULL;
}

static task_t *add_task(pid_t id, image_t *image) {
    if (task_count == task_room) {
        task_room = task_room * 2 + 64;
        tasks = needed(realloc(tasks, task_room * sizeof *tasks));
    }
    tasks[task_count] = (task_t){.id = id, .image = image};
    if (image != NULL) image->threads++;
    return &tasks[task_count++];
}

// Writes the image down once its last thread has left it.
static void leave(image_t *image) {
    if (image == NULL || --image->threads > 0) return;
    for (char *at = image->path; *at != '\0'; at++) {
        if (*at == '\n') *at = '?';
    }
    fprintf(report, "image %d %d %d %d %d %lld %s\n", (int)image->pid, image->preloaded,
            image->secure, image->dynamic, image->mapped, image->nanoseconds, image->path);
    free(image);
}

static void count_time(task_t *task) {
    long long now = nanoseconds_of(task->id);
    if (task->image != NULL && now > task->counted) task->image->nanoseconds += now - task->counted;
    task->counted = now;
}

static void on_exec(pid_t id) {
    unsigned long former = 0;
    ptrace(PTRACE_GETEVENTMSG, id, NULL, &former);
    task_t *task = task_of((pid_t)former);
    if (task == NULL) task = add_task((pid_t)former, NULL);
    task->id = id; // the thread that executes becomes the leader
    count_time(task);
    image_t *image = needed(calloc(1, sizeof *image));
    image->pid = id;
    image->preloaded = is_preloaded(id);
    image->secure = is_secure(id);
    image->dynamic = is_dynamic(id);
    image->mapped = UNKNOWN;
    image->threads = 1;
    char link[64];
    snprintf(link, sizeof link, "/proc/%d/exe", (int)id);
    if (readlink(link, image->path, sizeof image->path - 1) <= 0) image->path[0] = '?';
    leave(task->image);
    task->image = image;
}

static void on_end(pid_t id) {
    task_t *task = task_of(id);
    if (task == NULL) return;
    count_time(task);
    if (task->image != NULL && task->image->mapped != 1) {
        int mapped = is_mapped(id);
        if (mapped != UNKNOWN) task->image->mapped = mapped;
    }
}

static void drop_task(pid_t id) {
    task_t *task = task_of(id);
    if (task == NULL) return;
    leave(task->image);
    *task = tasks[--task_count];
}

// A process or thread that `parent` has made. It may have stopped before its parent told of it.
static void on_new(pid_t parent) {
    unsigned long made = 0;
    ptrace(PTRACE_GETEVENTMSG, parent, NULL, &made);
    task_t *task = task_of((pid_t)made), *maker = task_of(parent);
    image_t *image = maker != NULL ? maker->image : NULL;
    if (task == NULL) {
        add_task((pid_t)made, image);
    } else if (task->image == NULL && image != NULL) {
        task->image = image;
        image->threads++;
    }
}

static void on_stop(pid_t id, int status) {
    int number = WSTOPSIG(status), event = status >> 16;
    if (task_of(id) == NULL) add_task(id, NULL);
    switch (event) {
    case PTRACE_EVENT_EXEC: on_exec(id); break;
    case PTRACE_EVENT_EXIT: on_end(id); break;
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
    case PTRACE_EVENT_CLONE: on_new(id); break;
    case PTRACE_EVENT_STOP:
        if (number != SIGTRAP) { // a stop of the whole group, until SIGCONT
            ptrace(PTRACE_LISTEN, id, NULL, NULL);
            return;
        }
        break;
    default: ptrace(PTRACE_CONT, id, NULL, (void *)(long)number); return;
    }
    ptrace(PTRACE_CONT, id, NULL, NULL);
}

// In the child: waits until it is watched.
_Noreturn static void become(char **command, char **environment, int go) {
    char byte;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (read(go, &byte, 1) == 1) execve(command[0], command, environment);
    _exit(127);
}

int main(int argc, char **argv) {
    int count = argc > 3 ? atoi(argv[3]) : 0;
    if (argc < 5 || count < 0 || argc <= 4 + count) {
        fputs("watcher: REPORT_FD LIBRARY COUNT NAME=VALUE... PROGRAM ARGUMENT...\n", stderr);
        return 2;
    }
    int handle = atoi(argv[1]), ends[2];
    fcntl(handle, F_SETFD, FD_CLOEXEC);
    report = fdopen(handle, "w");
    if (report == NULL) return 2;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    library = argv[2];
    // The program's environment and command, each ended by a NULL: one place is free between.
    char **environment = argv + 3;
    memmove(environment, argv + 4, (size_t)count * sizeof *environment);
    environment[count] = NULL;
    char **command = argv + 4 + count;

    if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
    pid_t child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
        setpgid(0, 0);
        become(command, environment, ends[0]);
    }
    long options = PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_TRACEFORK |
                   PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SEIZE, child, NULL, (void *)options) != 0) {
        int error = errno;
        kill(child, SIGKILL);
        errno = error;
        fail("ptrace");
    }
    add_task(child, NULL);
    if (write(ends[1], "x", 1) != 1) fail("pipe");

    // Until the program ends: what it leaves behind is killed with this process.
    for (;;) {
        int status;
        pid_t id = waitpid(-1, &status, __WALL);
        if (id < 0 && errno == EINTR) continue;
        if (id < 0) fail("waitpid");
        if (WIFSTOPPED(status)) {
            on_stop(id, status);
            continue;
        }
        drop_task(id);
        if (id != child) continue;
        while (task_count > 0) {
            on_end(tasks[0].id);
            drop_task(tasks[0].id);
        }
        fprintf(report, "ended %d\n", status);
        fclose(report);
        return 0;
    }
}
