# The tables of the seeds 001 and 002; see CMakeLists.txt for the functions.

# ---- 001: blocks --------------------------------------------------------------------------------
family_table(blocks FILES blocks_xallocator.cpp xallocator_rules.cpp blocks.cpp blocks_preload.cpp)
family_row_of_loam(blocks blocks_loam.cpp)
family_row(blocks FILES blocks_boost.cpp ROWS boost-pool boost-pool-locked PACKAGE libboost-dev
  HEADER boost/pool/pool.hpp)
family_row(blocks FILES blocks_glib.cpp ROWS glib-slice PACKAGE libglib2.0-dev MODULE glib-2.0)
family_finish(blocks)

# ---- 002: FIFO ----------------------------------------------------------------------------------
family_table(fifo FILES fifo_intersec.cpp intersec_fifo.c fifo.cpp)
family_row_of_loam(fifo fifo_loam.cpp)
family_row(fifo FILES fifo_glib.cpp ROWS glib-slice PACKAGE libglib2.0-dev MODULE glib-2.0)
family_finish(fifo)

# ---- 002: stack ---------------------------------------------------------------------------------
family_table(stack FILES stack_intersec.cpp intersec_stack.c stack.cpp stack_limit.cpp)
family_row_of_loam(stack stack_loam.cpp)
family_row(stack FILES stack_apr.cpp ROWS apr-pool PACKAGE libapr1-dev MODULE apr-1)
family_row(stack FILES stack_talloc.cpp ROWS talloc talloc-pool PACKAGE libtalloc-dev
  MODULE talloc)
family_finish(stack)

# ---- 002: running means, and pages --------------------------------------------------------------
family_table(average FILES average.cpp intersec_stack.c)
target_link_libraries(family_average PRIVATE m)
family_finish(average)
family_table(pages FILES pages.cpp intersec_fifo.c)
family_finish(pages)

# ---- 002: alignment -----------------------------------------------------------------------------
family_table(align FILES align.cpp)
target_link_libraries(family_align PRIVATE loam_static)
family_finish(align)
