/* The roofline of `attnscope info`: its tables, and a drawing in text. */
#include "cli/info.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Ends a line, with the names of its figures that other work disturbed. */
static void end_line(const char *first, double first_share, const char *second, double second_share) {
    const bool one = first_share < BENCH_UNDISTURBED, two = second_share < BENCH_UNDISTURBED;
    if (one || two)
        printf("   disturbed: %s%s%s", one ? first : "", one && two ? ", " : "", two ? second : "");
    putchar('\n');
}

static void print_roofline(const roofline *r) {
    printf("\nroofline, %d thread%s (%d bound)\n", r->threads, r->threads == 1 ? "" : "s", r->bound);
    printf("  %-8s %12s %8s %14s %10s\n", "level", "FMA GFLOP/s", "GHz", "FLOP/cycle", "Gexp/s");
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; ++i) {
        const roofline_peak *peak = &r->peak[i];
        if (peak->gflops <= 0)
            continue;
        printf("  %-8s %12.1f %8.2f %14.1f %10.3f", attn_isa_name(i), peak->gflops, peak->ghz,
               peak->ghz > 0 ? peak->gflops / peak->ghz / r->threads : 0, r->exp_g[i]);
        end_line("FMA", peak->cpu_share, "exp", r->exp_cpu_share[i]);
    }
    printf("  %-8s %12s %8s %14s\n", "cache", "read GB/s", "", "copy GB/s");
    for (int i = 0; i < ROOFLINE_LEVELS; ++i) {
        const roofline_bandwidth *level = &r->level[i];
        char size[32], holds[48] = "";
        info_format_bytes(level->bytes, size, sizeof size);
        if (level->holds_bytes > 0) {
            strcpy(holds, ", up to ");
            info_format_bytes(level->holds_bytes, holds + strlen(holds), sizeof holds - strlen(holds));
        }
        if (level->bytes) {
            printf("  %-8s %12.1f %8s %14.1f   (%s a thread%s)", machine_level_name(i), level->read_gbs, "",
                   level->copy_gbs, size, holds);
            end_line("read", level->read_cpu_share, "copy", level->copy_cpu_share);
        } else {
            printf("  %-8s not measured: %s\n", machine_level_name(i),
                   i == ROOFLINE_MEMORY ? "too little memory beside the caches"
                                        : "none, or its size is not known");
        }
    }
}

/* ---- The drawing ----
 *
 * Both axes are logarithmic: a column is a quarter octave of arithmetic intensity, a row half an octave of
 * FLOP per second. A level of memory bounds work of intensity x to x times its read bandwidth (a rising
 * line), an ISA level to its FMA peak (a flat one). Williams, Waterman, Patterson: Roofline, CACM 52(4),
 * 2009. */
enum {
    LOW = -4, /* log2 of the FLOP per byte at the left edge */
    OCTAVES = 14,
    PER_OCTAVE = 4,
    COLUMNS = OCTAVES * PER_OCTAVE + 1,
    ROWS_PER_OCTAVE = 2,
    ROWS_MOST = 40,
};

typedef struct drawing {
    double top; /* log2 of the GFLOP/s of the upper row */
    int rows;
    char cell[ROWS_MOST][COLUMNS + 1];
    char label[ROWS_MOST][64]; /* right of a row */
} drawing;

static int row_of(const drawing *d, double gflops) {
    return (int)lround((d->top - log2(gflops)) * ROWS_PER_OCTAVE);
}

static void draw_memory(drawing *d, const roofline *r, int level, double roof) {
    static const char marks[ROOFLINE_LEVELS] = {'1', '2', '3', 'm'};
    for (int c = 0; c < COLUMNS; ++c) {
        const double gflops = exp2(LOW + (double)c / PER_OCTAVE) * r->level[level].read_gbs;
        const int row = row_of(d, gflops);
        if (gflops <= roof && row >= 0 && row < d->rows)
            d->cell[row][c] = marks[level];
    }
}

static void draw_peak(drawing *d, const char *isa, double gflops, double fastest_gbs) {
    const int row = row_of(d, gflops);
    if (row < 0 || row >= d->rows)
        return;
    for (int c = 0; c < COLUMNS; ++c) {
        /* Left of where the fastest memory feeds it, the peak is out of reach. */
        if (exp2(LOW + (double)c / PER_OCTAVE) * fastest_gbs >= gflops && d->cell[row][c] == ' ')
            d->cell[row][c] = '-';
    }
    const size_t used = strlen(d->label[row]);
    snprintf(d->label[row] + used, sizeof d->label[row] - used, "%s%s", used ? ", " : " ", isa);
}

static void draw_roofline(const roofline *r) {
    static drawing d;
    memset(&d, 0, sizeof d);
    double roof = 0, fastest = 0, slowest = INFINITY;
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; ++i)
        roof = fmax(roof, r->peak[i].gflops);
    for (int i = 0; i < ROOFLINE_LEVELS; ++i) {
        fastest = fmax(fastest, r->level[i].read_gbs);
        if (r->level[i].read_gbs > 0)
            slowest = fmin(slowest, r->level[i].read_gbs);
    }
    if (!(roof > 0) || !(fastest > 0))
        return;
    d.top = log2(roof);
    d.rows = row_of(&d, fmin(slowest * exp2(LOW), roof)) + 1;
    d.rows = d.rows < ROWS_MOST ? d.rows : ROWS_MOST;
    for (int row = 0; row < d.rows; ++row)
        memset(d.cell[row], ' ', COLUMNS);
    for (int level = 0; level < ROOFLINE_LEVELS; ++level) {
        if (r->level[level].read_gbs > 0)
            draw_memory(&d, r, level, roof);
    }
    for (int i = 0; i < attn_isa_count() && i < ROOFLINE_MAX_ISA; ++i) {
        if (r->peak[i].gflops > 0)
            draw_peak(&d, attn_isa_name(i), r->peak[i].gflops, fastest);
    }

    printf("\n  GFLOP/s, %d thread%s: each level of memory bounds from the left, the FMA peaks from above\n",
           r->threads, r->threads == 1 ? "" : "s");
    if (roofline_disturbed(r))
        puts("  drawn with the figures that are marked as disturbed above: what they bound may be too low");
    for (int row = 0; row < d.rows; ++row)
        printf("  %9.4g |%s%s\n", exp2(d.top - (double)row / ROWS_PER_OCTAVE), d.cell[row], d.label[row]);
    printf("  %9s +", "");
    for (int c = 0; c < COLUMNS; ++c)
        putchar(c % (2 * PER_OCTAVE) == 0 ? '+' : '-');
    printf("\n  %9s  ", "");
    for (int octave = 0; octave <= OCTAVES; octave += 2) {
        char tick[16];
        snprintf(tick, sizeof tick, octave + LOW < 0 ? "1/%.0f" : "%.0f", exp2(abs(octave + LOW)));
        printf("%-*s", 2 * PER_OCTAVE, tick);
    }
    printf("\n  %9s  FLOP/byte; 1 L1d, 2 L2, 3 L3, m memory (reading)\n", "");
}

void info_print_rooflines(const info_report *report) {
    for (int i = 0; i < report->roofline_count; ++i)
        print_roofline(&report->rooflines[i]);
    if (report->roofline_count == 0)
        return;
    for (int i = 0; i < report->roofline_count; ++i)
        draw_roofline(&report->rooflines[i]);
    puts("\nFLOP/cycle is per thread; a multiply-add is 2 FLOP. A copy's bytes are those read and those\n"
         "written. Every figure is the best of several short trials.");
    if (report->disturbed)
        printf("disturbed: other work took more than %.0f %% of a CPU even in the best trial, so the figure "
               "is too\n"
               "low; nothing was kept, and the next --roofline measures again\n",
               100 * (1 - BENCH_UNDISTURBED));
    if (report->cached)
        printf("measured %s, kept in %s; --measure measures again\n", report->measured_at,
               report->cache_file);
    else
        printf("measured now%s%s\n", report->kept ? ", kept in " : ", not kept",
               report->kept ? report->cache_file : "");
}
