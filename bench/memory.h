/* What of a row lies in memory: resident pages, huge pages. Linux; elsewhere nothing is available. */
#ifndef ATTN_MEMORY_H
#define ATTN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sets the peak of resident memory back to what is resident now. False with the reason in `why` where the
 * system does not let us: the peak is then that of the whole run, and says nothing of a row. */
bool memory_reset_peak(char *why, size_t size);
/* Bytes of the process that are, or since the last reset were, resident; -1 unknown. */
int64_t memory_resident(void);
int64_t memory_resident_peak(void);

typedef struct memory_piece {
    const void *at; /* NULL: none */
    int64_t bytes;
} memory_piece;

/* How many bytes of the mappings that hold these pieces are backed by huge pages, but not more than the
 * pieces have; -1 unknown. The text is that of /proc/self/smaps, or `smaps` where that is not NULL, for
 * tests. */
int64_t memory_huge_bytes(const memory_piece *pieces, int count, const char *smaps);

/* "always", "madvise" or "never": what is chosen in a line as "always [madvise] never"; false when none is.
 */
bool memory_chosen(const char *line, char *text, size_t size);
/* The state of transparent huge pages, and the size of one, of /sys/kernel/mm/transparent_hugepage; "" and 0
 * unknown. */
void memory_huge_pages(char *state, size_t size, int64_t *bytes);

#endif
