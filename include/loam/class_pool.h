/* loam/class_pool.h: the pools behind LOAM_POOLED (loam/pooled.hpp): a process has one for each
 * pooled class.
 *
 * A pooled class may be compiled into a program and into several of its shared libraries. Each of
 * these modules looks up the pool here, by the name of the class and the shape of its blocks, so
 * that one module can delete an object that another one made. That also works if modules hide their
 * symbols (-fvisibility=hidden), and a module that is unloaded takes no pool with it.
 *
 *   program:  cached pointer ──┐
 *   plugin:   cached pointer ──┴──> class pool "Shape", 48 bytes ──> loam_shared_pool
 *
 * A class pool cannot be destroyed: static objects may delete objects of the class until the
 * process exits. A trim gives its memory back. Two copies of loam in one process (a static library
 * in each of two modules) have pools of their own; objects must not cross between such modules.
 *
 * Threads: any thread may call any function. Programs use loam::class_pool<T> of loam/pooled.hpp.
 * Source: src/hosted/class_pool.c.
 */
#ifndef LOAM_CLASS_POOL_H
#define LOAM_CLASS_POOL_H

#include "loam/names_begin.h"

#include "loam/pool.h"

LOAM_BEGIN

/** The key of a class pool. Two requests get the same pool iff all members but flags are equal. */
typedef struct loam_class_pool_key {
    const char *name;   /**< name of the class, which is copied, and of the pool in the registry */
    size_t name_bytes;  /**< length of name, which needs no terminating 0 */
    size_t block_bytes; /**< size of each block in bytes */
    size_t align;       /**< alignment of each block in bytes; a power of two */
    size_t most_blocks; /**< maximum number of blocks; 0: no limit */
    const void *module; /**< NULL; or an address, for a class that no other module can name */
    unsigned flags;     /**< loam_flags of the pool; the request that makes the pool decides */
} loam_class_pool_key;

/** Returns the class pool for *key, and makes it if there is none. Returns NULL iff there is no
 * memory for it, or a size or alignment is not allowed. Cost: a lock, and a comparison with each
 * class pool; call it once for each class. */
LOAM_API loam_shared_pool *loam_class_pool_find(const loam_class_pool_key *key) LOAM_NOEXCEPT;

/** Gives back memory of each class pool, as loam_shared_pool_trim does. Returns the number of bytes
 * given back. */
LOAM_API size_t loam_class_pools_trim(void) LOAM_NOEXCEPT;

LOAM_END

#include "loam/names_end.h"

#endif
