# Sanitizers, for everything that is built: library, googletest and tests alike.

set(LOAM_SANITIZED OFF)
set(names)
if(LOAM_ASAN)
  list(APPEND names address)
endif()
if(LOAM_TSAN)
  list(APPEND names thread)
endif()
if(LOAM_UBSAN)
  list(APPEND names undefined)
endif()

if(names)
  set(LOAM_SANITIZED ON)
  list(JOIN names "," names)
  add_compile_options(-fsanitize=${names} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${names})
  # How tests run: stop at the first finding, and with the stack of both sides of a race.
  set(LOAM_TEST_ENVIRONMENT
    "ASAN_OPTIONS=abort_on_error=1:detect_leaks=1:allocator_may_return_null=1"
    "TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:history_size=4"
    "UBSAN_OPTIONS=print_stacktrace=1")
else()
  set(LOAM_TEST_ENVIRONMENT)
endif()
