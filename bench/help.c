/* The help page of `attnscope bench`. */
#include "bench/bench.h"

#include <stdio.h>

static const char before[] =
    "Usage: attnscope bench [OPTION]...\n"
    "\n"
    "Measures attention, row by row, through Google Benchmark. Without options: the standard sweep, one\n"
    "head of 64, dense naive, dense flash, causal, window and sparse, at every ISA level of this machine,\n"
    "in under three minutes. Any --pattern, --algorithm, --kernel, --preset or --stages takes its place.\n"
    "Without --out the table is printed and nothing is saved, except that the standard sweep without --n\n"
    "writes results.json.\n"
    "\n"
    "What to measure (lists multiply; options marked * may be repeated)\n"
    "  --n A:B | A,B,C      lengths: powers of two from A to B, or a list (128:8192; the standard sweep "
    "adds\n"
    "                       half octaves between two caches' borders with fewer than four lengths)\n"
    "  --n A:B/P            P steps an octave, to the nearest multiple of 8 from 32 on: 128:512/2 is\n"
    "                       128,184,256,360,512\n"
    "  --pattern SPEC *     pairs attended, as in 'attnscope eval' (dense)\n"
    "  --algorithm A *      auto, naive, flash (auto)\n"
    "  --tuning FILE        results that 'attnscope analyze' has been over: decides what auto rows run\n"
    "  --isa I *            auto, or a level of 'attnscope info' (auto; standard sweep: all)\n"
    "  --dtype T *          f32, f16, bf16: storage of Q, K and V (f32)\n"
    "  --threads T *        as many as the process may use (1)\n"
    "  --heads H            query heads (1)\n"
    "  --kv-heads H         key and value heads (as --heads)\n"
    "  --head-dim D         of Q and K (64)\n"
    "  --value-dim D        of V (as --head-dim)\n"
    "  --batch B            (1)\n"
    "  --queries N          queries against n keys (n), as in decoding\n"
    "  --softcap X          cap scores\n"
    "  --alibi              ALiBi slopes\n"
    "  --sink-logit         a sink logit per head\n"
    "  --preset NAME *      a model's shapes instead; NAME:prefill or NAME:decode for a part\n"
    "  --list-presets       show them ('--preset list' too)\n"
    "  --stages             the five stages of naive, each on its own; without --algorithm only these\n"
    "  --kernel NAME *      single kernels instead, of n elements or n x D:\n";

static const char between[] = "  --data KIND *        what the tensors hold (normal):\n";

static const char after[] =
    "\n"
    "How to measure\n"
    "  --out FILE           write results as JSON (standard sweep: results.json)\n"
    "  --resume             keep what --out holds of the same machine, build and settings, measure the rest\n"
    "  --dry-run            list the rows with their predicted times, measure nothing\n"
    "  --checkpoint SECONDS write what is measured so far this often, between rows (30; 0: after each)\n"
    "  --budget SECONDS     fit the whole run into this time (standard sweep: 150)\n"
    "  --max-call SECONDS   leave out rows whose calls take longer (2; none with --n and a choice of\n"
    "                       rows, as by --pattern or --kernel); 0: no limit\n"
    "  --seed N             of data and order (1)\n"
    "  --cold               no call finds its tensors in a cache: each takes the next of copies that are\n"
    "                       larger together (not with --stages or --kernel; no stages in the sweep)\n"
    "  --no-bind            do not bind threads to CPUs\n"
    "  --no-counters        do not read hardware counters (perf_event_open) around the samples\n"
    "  --no-roofline        do not measure bandwidths first\n"
    "  --benchmark_*        Google Benchmark's options. --benchmark_min_time=0.1s (or 100x calls) is the\n"
    "                       time for a row, --benchmark_filter selects ids, --benchmark_out writes the\n"
    "                       library's own file; of one given twice the last counts, as in the library\n"
    "\n"
    "A row's time is the median over samples; a sample is one call, or the mean of as many as take 10\n"
    "microseconds (more where a row would have over 256). Percent of peak compares useful FLOPs with\n"
    "the FMA peak measured beside the row.\n"
    "\n"
    "Exit code: 0 all rows measured, but those left out; 2 usage or input error, or every row refused;\n"
    "4 a row failed, or was refused beside others, or every row was left out. --dry-run has the code that\n"
    "the run would have if no row failed. 129, 130, 143 ended by SIGHUP, SIGINT (Ctrl-C) or SIGTERM: what\n"
    "was measured is written, marked incomplete, and --resume goes on. A run that measured nothing writes\n"
    "no file.\n"
    "\n"
    "Examples\n"
    "  attnscope bench --out sweep.json --resume\n"
    "  attnscope bench --out results.json\n"
    "  attnscope bench --dry-run\n"
    "  attnscope bench --pattern causal --pattern window=256 --n 1024:8192 --isa avx2\n"
    "  attnscope bench --preset llama-3-8b:decode --dtype bf16 --threads 2\n"
    "  attnscope bench --kernel softmax --kernel exp --n 4096\n"
    "  attnscope bench --stages --pattern causal --n 512,1024,2048\n";

void bench_help(void) {
    fputs(before, stdout);
    for (int i = 0; i < bench_kernel_count; i++)
        printf("                         %-10s %s\n", bench_kernels[i].name, bench_kernels[i].note);
    fputs(between, stdout);
    for (int i = 0; i < BENCH_DATA_COUNT; i++)
        printf("                         %-10s %s\n", bench_data_name((bench_data)i),
               bench_data_note((bench_data)i));
    fputs(after, stdout);
}
