// region_nginx_rules.c: table 000's rows of nginx's rules (nginx_rules.h) outside nginx, with the
// scan of its blocks and without.
//
// `nginx` is the pool itself, called through its binary; `nginx-rules` has the same rules in this
// file, where they can be inlined, and differs from `nginx-no-scan` in the scan alone: that is what
// the seed's two columns before and after its reader's change compare.

#include "nginx_rules.h"
#include "region.h"

static void *ngx_rules_create(size_t size, uint64_t count) {
    (void)size, (void)count;
    return family_need(ngx_create(REGION_PAGE));
}
static inline void *ngx_rules_alloc(void *pool, size_t size) {
    return ngx_alloc((NgxPool *)pool, size, true);
}
static inline void ngx_rules_free(void *pool, void *object, size_t size) {
    (void)size;
    ngx_free((NgxPool *)pool, object);
}
static void ngx_rules_destroy(void *pool) { ngx_destroy((NgxPool *)pool); }

#define REGION ngx_rules
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_LARGE
#include "region.h"
FAMILY_ROW(ngx_rules, "nginx-rules", "1.9.5", "nginx's pool, its rules outside nginx",
           FAMILY_RENDITION, ngx_rules_cells)

static void *ngx_no_scan_create(size_t size, uint64_t count) {
    return ngx_rules_create(size, count);
}
static inline void *ngx_no_scan_alloc(void *pool, size_t size) {
    return ngx_alloc((NgxPool *)pool, size, false);
}
static inline void ngx_no_scan_free(void *pool, void *object, size_t size) {
    ngx_rules_free(pool, object, size);
}
static void ngx_no_scan_destroy(void *pool) { ngx_rules_destroy(pool); }

#define REGION ngx_no_scan
#define REGION_SIZES REGION_ANY
#define REGION_FREES REGION_LARGE
#include "region.h"
FAMILY_ROW(ngx_no_scan, "nginx-no-scan", "1.9.5", "the same without the scan of its blocks",
           FAMILY_RENDITION, ngx_no_scan_cells)
