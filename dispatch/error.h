/* How the library fails: with a status and one line of text. At its lowest level, so that all may use it. */
#ifndef ATTN_ERROR_H
#define ATTN_ERROR_H

#include "attnscope.h"

/* Writes a printf-style message into `error` (if not NULL) and returns `status`. */
attn_status attn_fail(attn_error *error, attn_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
