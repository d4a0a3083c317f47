/* cxx.h: the C++ library with which operator new throws for its caller, and what operator new needs
 * of it. */
#ifndef LM_OVERRIDE_CXX_H
#define LM_OVERRIDE_CXX_H

#include "api/api.h"

/* Functions of one C++ library. Each is NULL iff the library does not export it. */
typedef struct lm_cxx {
    void (*throw_bad_alloc)(void);              /* std::__throw_bad_alloc; does not return */
    void (*(*get_new_handler)(void))(void);     /* std::get_new_handler */
    void *(*new_nothrow)(size_t, const void *); /* operator new(size_t, const std::nothrow_t &) */
    void *(*new_nothrow_aligned)(size_t, size_t, const void *);
    /* The parts of `throw std::bad_alloc()`, for a library without throw_bad_alloc. Either all or
     * none of them are set. */
    void *(*allocate_exception)(size_t);
    void (*throw_exception)(void *, void *, void (*)(void *)); /* does not return */
    void (*destroy)(void *);                                   /* std::bad_alloc::~bad_alloc */
    void *type;                                                /* its std::type_info */
    char *vtable;                                              /* its virtual table */
} lm_cxx_t;

/* Finds the C++ library for code at the address `caller`, the return address of an operator new.
 * Returns false iff the process has no C++ library. Takes no lock of the dynamic linker unless the
 * caller's own module refers to no C++ library. Allocates nothing. */
bool lm_cxx_find(lm_cxx_t *cxx, const void *caller);

#endif
