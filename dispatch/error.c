#include "dispatch/error.h"

#include <stdarg.h>
#include <stdio.h>

attn_status attn_fail(attn_error *error, attn_status status, const char *format, ...) {
    if (error) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
        /* What a user typed may stand in it: an error stays one line. */
        for (char *c = error->text; *c; ++c)
            if ((unsigned char)*c < 0x20 || *c == 0x7F)
                *c = '?';
    }
    return status;
}
