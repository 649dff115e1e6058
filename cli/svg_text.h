/* Text for SVG files. */
#ifndef ATTN_CLI_SVG_TEXT_H
#define ATTN_CLI_SVG_TEXT_H

#include <stdint.h>
#include <stdio.h>

/* Writes `text` as character data, whatever bytes it holds: what is not UTF-8, or not allowed in XML, becomes
 * '?'. Of more than `most` characters the middle is left out. */
void svg_put_text(FILE *file, const char *text, int most);

/* 1234567 as 1,234,567, into `text`; returns it. */
enum { SVG_NUMBER_TEXT = 32 };
const char *svg_number(int64_t value, char text[SVG_NUMBER_TEXT]);

#endif
