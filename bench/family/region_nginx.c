// region_nginx.c: table 000's row of nginx's own pool, inside Debian's unmodified nginx.
//
// nginx keeps its pool for itself: no library has it. But its binary exports ngx_palloc and the
// like for its dynamic modules. So a cell of this row turns into nginx, with a configuration that
// loads region_nginx.so (region_nginx_module.c), which runs the cell at its start and ends the
// process. The configuration is a file in memory; nothing is written, no socket is opened.

#define _GNU_SOURCE // memfd_create
#include "region.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char *nginx_binary(void) {
    static const char *const places[] = {"/usr/sbin/nginx", "/usr/local/sbin/nginx",
                                         "/usr/bin/nginx"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!access(places[i], X_OK)) {
            return places[i];
        }
    }
    fprintf(stderr, "family: nginx is not installed: it needs nginx-light\n");
    exit(77);
}

static void become_nginx(const FamilyRequest *asked) {
    const char *binary = nginx_binary();
    char here[PATH_MAX], file[32], cell[128];
    ssize_t length = readlink("/proc/self/exe", here, sizeof here - 1);
    if (length < 0) {
        family_fail("/proc/self/exe: %s", strerror(errno));
    }
    here[length] = 0;
    *strrchr(here, '/') = 0;
    int configuration = memfd_create("nginx.conf", 0); // stays open in nginx, which reads it
    if (configuration < 0 ||
        dprintf(configuration,
                "load_module \"%s/region_nginx.so\";\n"
                "daemon off;\nmaster_process off;\nerror_log stderr;\nevents {}\n",
                here) < 0) {
        family_fail("nginx's configuration: %s", strerror(errno));
    }
    snprintf(file, sizeof file, "/proc/self/fd/%d", configuration);
    snprintf(cell, sizeof cell, "%s %llu %d", asked->column->name, (unsigned long long)asked->n,
             asked->huge);
    if (setenv("FAMILY_NGINX_CELL", cell, 1)) {
        family_fail("%s", strerror(errno));
    }
    execl(binary, binary, "-e", "stderr", "-p", "/", "-c", file, (char *)NULL);
    family_fail("%s: %s", binary, strerror(errno));
}

static const FamilyCell cells[] = {
    {"small", become_nginx},
    {"big", become_nginx},
    {"mix", become_nginx},
    {"mix-free", become_nginx},
    {"create-destroy", become_nginx},
    FAMILY_END,
};
FAMILY_ROW(nginx, "nginx", "as installed", "nginx's pool, in nginx's own process", FAMILY_RIVAL,
           cells)
