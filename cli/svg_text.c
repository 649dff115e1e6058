#include "cli/svg_text.h"

#include <stdbool.h>

/* Bytes of the UTF-8 character at `text`, 0 if there is none that XML allows. */
static int character_bytes(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    int bytes = *c < 0x80                 ? 1
                : *c >= 0xc2 && *c < 0xe0 ? 2
                : *c >= 0xe0 && *c < 0xf0 ? 3
                : *c >= 0xf0 && *c < 0xf5 ? 4
                                          : 0;
    if (bytes == 1)
        return *c >= 0x20 && *c != 0x7f;
    for (int i = 1; i < bytes; i++) {
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    }
    bool overlong = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    bool outside = (c[0] == 0xed && c[1] >= 0xa0) || (c[0] == 0xf4 && c[1] >= 0x90) ||
                   (c[0] == 0xef && c[1] == 0xbf && c[2] >= 0xbe);
    return overlong || outside ? 0 : bytes;
}

void svg_put_text(FILE *file, const char *text, int most) {
    int count = 0;
    for (const char *c = text; *c; count++)
        c += character_bytes(c) ? character_bytes(c) : 1;
    int index = 0;
    for (const char *c = text; *c; index++) {
        int bytes = character_bytes(c);
        bool shown = count <= most || index < most / 2 || index >= count - (most - most / 2 - 1);
        if (!shown && index == most / 2)
            fputs("\xe2\x80\xa6", file); /* an ellipsis */
        if (shown) {
            if (bytes == 0)
                fputc('?', file);
            else if (*c == '&')
                fputs("&amp;", file);
            else if (*c == '<')
                fputs("&lt;", file);
            else if (*c == '>')
                fputs("&gt;", file);
            else
                fwrite(c, 1, (size_t)bytes, file);
        }
        c += bytes ? bytes : 1;
    }
}

const char *svg_number(int64_t value, char text[SVG_NUMBER_TEXT]) {
    char digits[SVG_NUMBER_TEXT];
    int length = snprintf(digits, sizeof digits, "%lld", (long long)value);
    char *to = text;
    for (int i = 0; i < length; i++) {
        *to++ = digits[i];
        if ((length - i) % 3 == 1 && i + 1 < length && digits[i] != '-')
            *to++ = ',';
    }
    *to = 0;
    return text;
}
