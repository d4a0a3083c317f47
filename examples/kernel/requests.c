/* requests.c: a module whose requests each live in a region, served in a task and where nothing may
 * sleep.
 *
 * A request, with all that belongs to it, begins in one page and ends by one call. Here it is lines
 * "name: value" cut into a list; the module serves a few as it loads, and says whether all were
 * right.
 */
#include "loam/kernel_pages.h"
#include "loam/region.h"

#include <linux/bottom_half.h>
#include <linux/module.h>
#include <linux/string.h>

enum { REQUESTS = 200 };

struct header {
    struct header *next;
    const char *name, *value;
};

struct request {
    loam_region *region; /* in which it lives itself */
    struct header *headers;
    unsigned count;
};

static loam_kernel_pages sleeping, atomic;
static const loam_region_options pages_only = LOAM_REGION_TFW;

static struct request *request_create(loam_kernel_pages *pages) {
    loam_region *region;
    struct request *request =
        loam_region_create_object(&pages->source, &pages_only, sizeof(struct request), &region);
    if (request != NULL) request->region = region;
    return request;
}

static void request_destroy(struct request *request) { loam_region_destroy(request->region); }

/* false iff there is no memory: nothing need be undone, for all goes with the request. */
static bool request_parse(struct request *request, const char *text) {
    while (*text != '\0') {
        size_t name = strcspn(text, ":\n"), skip = name + strspn(text + name, ": ");
        size_t value = strcspn(text + skip, "\n");
        struct header *header = LOAM_REGION_NEW(request->region, struct header);
        if (header == NULL) return false;
        header->name = loam_region_strndup(request->region, text, name);
        header->value = loam_region_strndup(request->region, text + skip, value);
        if (header->name == NULL || header->value == NULL) return false;
        header->next = request->headers;
        request->headers = header;
        request->count++;
        text += skip + value;
        text += strspn(text, "\n");
    }
    return true;
}

static bool serve(loam_kernel_pages *pages) {
    struct request *request = request_create(pages);
    if (request == NULL) return false;
    bool good = request_parse(request, "Host: example.org\nAccept: */*\nCookie: 0123456789\n") &&
                request->count == 3 && strcmp(request->headers->name, "Cookie") == 0 &&
                strcmp(request->headers->next->value, "*/*") == 0;
    request_destroy(request);
    return good;
}

static int __init requests_begin(void) {
    unsigned good = 0;
    if (loam_kernel_pages_init(&sleeping, GFP_KERNEL) != 0 ||
        loam_kernel_pages_init(&atomic, GFP_ATOMIC) != 0)
        return -EINVAL;
    for (int i = 0; i < REQUESTS; i++) good += serve(&sleeping);
    local_bh_disable(); /* as in softirq: the source that never sleeps */
    for (int i = 0; i < REQUESTS; i++) good += serve(&atomic);
    local_bh_enable();
    pr_info("loam_requests: %u of %d requests served\n", good, 2 * REQUESTS);
    return 0;
}

static void __exit requests_end(void) {}

module_init(requests_begin);
module_exit(requests_end);

MODULE_DESCRIPTION("an example of loam's region");
MODULE_LICENSE("Dual MIT/GPL");
