/* SHA-256 (FIPS 180-4), by which a block map is known in ids. */
#ifndef ATTN_SHA256_H
#define ATTN_SHA256_H

#include <stddef.h>

/* The digest of `bytes` bytes as 64 hexadecimal digits and a final 0. */
void sha256_hex(const void *data, size_t bytes, char hex[65]);

#endif
