// region_nginx_module.c: a module for an unmodified nginx that runs one cell of table 000 on
// nginx's own pool when it is initialised, and ends the process.
//
// It is built against no file of nginx. What a dynamic module and nginx have to agree upon is
// declared here: the two records below, whose layout has stood since modules became dynamic, and
// two values that nginx compares with its own: its version as a number and its signature (which
// tells optional features). Both are read out of the running binary, so one build serves every
// nginx.
//
// nginx's pool frees nothing singly but objects beyond its limit (4095 bytes for pools of a page),
// which come from malloc.

#include "region.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- what nginx exports -------------------------------------------------------------------------

void *ngx_create_pool(size_t size, void *log);
void ngx_destroy_pool(void *pool);
void *ngx_palloc(void *pool, size_t size);
intptr_t ngx_pfree(void *pool, void *object);

// The beginning of nginx's cycle; the log is the third word.
typedef struct {
    void *configuration;
    void *pool;
    void *log;
} NgxCycle;

// ---- the row ------------------------------------------------------------------------------------

static void *cycle_log;

static void *nginx_create(size_t size, uint64_t count) {
    (void)size, (void)count;
    return family_need(ngx_create_pool(REGION_PAGE, cycle_log));
}
static inline void *nginx_alloc(void *pool, size_t size) { return ngx_palloc(pool, size); }
static inline void nginx_free(void *pool, void *object, size_t size) {
    (void)size;
    ngx_pfree(pool, object);
}
static void nginx_destroy(void *pool) { ngx_destroy_pool(pool); }

#define REGION nginx
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_LARGE
#include "region.h"
FAMILY_ROW(nginx, "nginx", "as installed", "nginx's pool", FAMILY_RIVAL, nginx_cells)

static intptr_t run_cell(void *cycle) {
    cycle_log = ((NgxCycle *)cycle)->log;
    char column[64];
    unsigned long long n;
    int huge;
    const char *cell = getenv("FAMILY_NGINX_CELL");
    if (!cell || sscanf(cell, "%63s %llu %d", column, &n, &huge) != 3) {
        family_fail("this module is started by `region nginx COLUMN` only");
    }
    exit(family_run("nginx", column, n, huge));
}

// ---- the module ---------------------------------------------------------------------------------

typedef struct {
    struct {
        size_t length;
        const char *text;
    } name;
    void *(*create)(void *cycle);
    char *(*init)(void *cycle, void *configuration);
} NgxCoreContext;

typedef struct {
    uintptr_t place_in_kind, place; // given by nginx
    const char *name;
    uintptr_t spare[2];
    uintptr_t version;
    const char *signature;
    const NgxCoreContext *context;
    void *commands;
    uintptr_t kind;
    intptr_t (*init_master)(void *log);
    intptr_t (*init_module)(void *cycle);
    intptr_t (*init_process)(void *cycle);
    intptr_t (*init_thread)(void *cycle);
    void (*exit_thread)(void *cycle);
    void (*exit_process)(void *cycle);
    void (*exit_master)(void *cycle);
    uintptr_t spare_hooks[8];
} NgxModule;

static const NgxCoreContext context = {{11, "loam_bench_"}, NULL, NULL};

static NgxModule module = {
    .place_in_kind = UINTPTR_MAX,
    .place = UINTPTR_MAX,
    .context = &context,
    .kind = 0x45524F43, // "CORE"
    .init_module = run_cell,
};

// nginx asks the module for these by name.
extern NgxModule *ngx_modules[];
extern const char *ngx_module_names[];
NgxModule *ngx_modules[] = {&module, NULL};
const char *ngx_module_names[] = {"loam_bench_module", NULL};

// "8,4,8," and then a digit for each feature: the sizes of a pointer and two integers come first.
static bool is_signature(const char *text) {
    size_t prefix = strspn(text, "0123456789,"), length = strlen(text);
    return prefix == length && length > 26 && isdigit(text[0]) && text[1] == ',' &&
           text[3] == ',' && text[5] == ',' && strspn(text + 6, "01") == length - 6;
}

static char *nginx_signature(const char *text, size_t size) {
    const char *end = text + size;
    for (const char *at = text; at < end; at += strlen(at) + 1) { // the last byte is a 0
        if (is_signature(at)) {
            return strdup(at);
        }
    }
    return NULL;
}

static uintptr_t nginx_version(const char *text, size_t size) {
    static const char name[] = "nginx/";
    for (const char *at = text; at + sizeof name < text + size; at++) {
        unsigned major, minor, patch;
        if (!memcmp(at, name, sizeof name - 1) &&
            sscanf(at + sizeof name - 1, "%u.%u.%u", &major, &minor, &patch) == 3) {
            return major * 1000000 + minor * 1000 + patch;
        }
    }
    return 0;
}

__attribute__((constructor)) static void agree_with_nginx(void) {
    FILE *file = fopen("/proc/self/exe", "rb");
    if (!file || fseek(file, 0, SEEK_END)) {
        family_fail("/proc/self/exe cannot be read");
    }
    size_t size = (size_t)ftell(file);
    char *text = (char *)family_need(malloc(size + 1));
    rewind(file);
    if (fread(text, 1, size, file) != size) {
        family_fail("/proc/self/exe cannot be read");
    }
    fclose(file);
    text[size] = 0;
    module.signature = nginx_signature(text, size);
    module.version = nginx_version(text, size);
    free(text);
    if (!module.signature || !module.version) {
        family_fail("this nginx does not show its version and signature");
    }
}
