/* exports.c: names that other modules may call: the region, the sources without an operating
 * system, and the registry. */
#include "module.h"

#include "loam/region.h"

#include <linux/export.h>
#include <linux/module.h>

EXPORT_SYMBOL_GPL(loam_region_init_as);
EXPORT_SYMBOL_GPL(loam_region_deinit);
EXPORT_SYMBOL_GPL(loam_region_create_as);
EXPORT_SYMBOL_GPL(loam_region_destroy);
EXPORT_SYMBOL_GPL(loam_region_create_object_as);
EXPORT_SYMBOL_GPL(loam_region_create_child);
EXPORT_SYMBOL_GPL(loam_region_alloc_slow);
EXPORT_SYMBOL_GPL(loam_region_free_slow);
EXPORT_SYMBOL_GPL(loam_region_realloc_slow);
EXPORT_SYMBOL_GPL(loam_region_extend_slow);
EXPORT_SYMBOL_GPL(loam_region_memdup_at);
EXPORT_SYMBOL_GPL(loam_region_strdup_at);
EXPORT_SYMBOL_GPL(loam_region_strndup_at);
EXPORT_SYMBOL_GPL(loam_region_mark_here);
EXPORT_SYMBOL_GPL(loam_region_rewind);
EXPORT_SYMBOL_GPL(loam_region_keep);
EXPORT_SYMBOL_GPL(loam_region_reset);
EXPORT_SYMBOL_GPL(loam_region_trim);
EXPORT_SYMBOL_GPL(loam_region_add_cleanup);
EXPORT_SYMBOL_GPL(loam_region_remove_cleanup);
EXPORT_SYMBOL_GPL(loam_region_contains);
EXPORT_SYMBOL_GPL(loam_region_usage);
EXPORT_SYMBOL_GPL(loam_region_check);

EXPORT_SYMBOL_GPL(loam_buffer_init);
EXPORT_SYMBOL_GPL(loam_limit_init);
EXPORT_SYMBOL_GPL(loam_count_init);

EXPORT_SYMBOL_GPL(loam_registry_visit);
EXPORT_SYMBOL_GPL(loam_registry_print);
EXPORT_SYMBOL_GPL(loam_registry_check);
EXPORT_SYMBOL_GPL(loam_registry_leaks);
