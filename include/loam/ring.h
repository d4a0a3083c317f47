/* loam/ring.h: placeholder. */
