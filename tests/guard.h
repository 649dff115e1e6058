/* Buffers between unmapped pages, and canaries around what a kernel may write.
 *
 * A buffer has inaccessible pages before and behind it. It starts flush against the page before it or
 * ends flush against the page behind it, so that one byte too far on that side is a SIGSEGV (which
 * cmocka reports as a failed test); the slack that page granularity leaves on the other side is filled
 * with canaries. New buffers hold 0xFF bytes, which are NaN in every storage type: what should have
 * been written and was not, shows. */
#ifndef ATTN_TESTS_GUARD_H
#define ATTN_TESTS_GUARD_H

#include <stdbool.h>
#include <stddef.h>

typedef enum guard_place {
    GUARD_BACK,    /* ends where an unmapped page begins; aligned to its size only */
    GUARD_FRONT,   /* begins where an unmapped page ends */
    GUARD_SHIFTED, /* one element past GUARD_FRONT: no vector alignment at all */
    GUARD_PLACES
} guard_place;

extern const char *const guard_place_name[GUARD_PLACES];

typedef struct guard {
    void *data;
    size_t bytes;
    unsigned char *pages; /* the accessible ones */
    size_t pages_bytes;
} guard;

/* `bytes` at `place`; `element_bytes` is the shift of GUARD_SHIFTED. Aborts when memory runs out. */
guard guard_new(size_t bytes, guard_place place, size_t element_bytes);
/* Reading only from here on: a kernel that writes to its input gets a SIGSEGV. */
void guard_seal(const guard *buffer);
/* True while the canaries before and behind the buffer are whole. */
bool guard_intact(const guard *buffer);
/* Fills the buffer with 0xFF and restores the canaries. */
void guard_reset(const guard *buffer);
void guard_free(guard *buffer);

#endif
