/* `attnscope info`: what this machine is, what can run on it and why the rest cannot. */
#include "cli/info.h"
#include "cli/commands.h"
#include "common/cli.h"

#include <stdio.h>
#include <unistd.h>

static void help(void) {
    puts(
        "Usage: attnscope info [--roofline] [--measure] [--json]\n"
        "\n"
        "Shows the processor, the ISA levels of this build (available, or why not), caches, cores, and how\n"
        "many threads this process may use: its CPU affinity and its cgroup's quota. Also whether there are\n"
        "hardware counters, which 'bench' reads (perf_event_open), or why not.\n"
        "\n"
        "  --roofline   also this machine's limits: FMA peak and exponentials per ISA level, read and copy\n"
        "               bandwidth of each cache and of memory, for one thread and for one thread per core.\n"
        "               Measured the first time (about two seconds), then kept by fingerprint and shown\n"
        "               with the date; 'bench' never uses what is kept. Figures that other work disturbed\n"
        "               are named so, and not kept\n"
        "  --measure    measure them again\n"
        "  --json       strict JSON on standard output\n"
        "  --help       this page\n"
        "\n"
        "Environment:\n"
        "  ATTNSCOPE_ISA      the ISA level that 'auto' means\n"
        "  XDG_CACHE_HOME     where limits are kept, in attnscope/ (HOME/.cache)\n"
        "  ATTNSCOPE_FSROOT   a directory that stands before /proc and /sys, for tests: cgroup limits,\n"
        "                     governor, microcode, ... (without hwloc the topology too) are read below it\n"
        "\n"
        "Examples:\n"
        "  attnscope info\n"
        "  attnscope info --roofline\n"
        "  attnscope info --roofline --measure      on a quieter machine than last time\n"
        "  attnscope info --json > machine.json\n"
        "  ATTNSCOPE_ISA=avx2 attnscope info        is avx2 available, and the default then");
}

/* One line on a terminal, from the third second on. */
typedef struct progress {
    int64_t start_ns;
    bool shown;
} progress;

static void show_progress(void *context, const char *name) {
    progress *p = context;
    if (!p->shown && machine_now_ns() - p->start_ns < INT64_C(2000000000))
        return;
    fprintf(stderr, "\r\033[Kmeasuring: %s", name);
    p->shown = true;
}

static bool measure(info_report *report) {
    enum { MILLISECONDS = 30 };
    const machine *m = report->machine;
    progress p = {machine_now_ns(), false};
    const roofline_watch watch = {isatty(STDERR_FILENO) ? show_progress : NULL, &p, NULL};
    attn_error error;
    attn_status status = ATTN_OK;
    for (int i = 0; i < 2 && status == ATTN_OK; ++i) {
        int threads = i == 0 ? 1 : m->default_threads;
        if (i == 1 && threads == 1)
            break;
        status = roofline_measure(m, threads, MILLISECONDS, &report->rooflines[i], &watch, &error);
        report->roofline_count += status == ATTN_OK;
    }
    if (p.shown)
        fputs("\r\033[K", stderr);
    if (status != ATTN_OK) {
        cli_error("cannot measure: %s", error.text);
        return false;
    }
    info_cache_store(report);
    return true;
}

int cmd_info(int argc, char **argv) {
    static const struct option options[] = {{"roofline", no_argument, NULL, 'r'},
                                            {"measure", no_argument, NULL, 'm'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    bool roofline_wanted = false, measure_again = false, json = false;
    for (int option; (option = cli_getopt(argc, argv, options)) != -1;) {
        switch (option) {
        case 'r':
            roofline_wanted = true;
            break;
        case 'm':
            roofline_wanted = measure_again = true;
            break;
        case 'j':
            json = true;
            break;
        case 'h':
            help();
            return CLI_FINE;
        default:
            return CLI_USAGE;
        }
    }

    attn_error error;
    info_report report = {.default_isa = attn_isa_auto(&error)};
    attn_error failure;
    machine *m = machine_load(NULL, &failure);
    if (!m)
        return cli_error("%s", failure.text);
    report.no_default = report.default_isa ? "" : error.text;
    report.machine = m;
    report.ghz = machine_effective_ghz(5);
    report.counted = counters_open(&report.counters, NULL, NULL);
    if (report.counted)
        counters_close(&report.counters);
    int code = CLI_FINE;
    /* The machine is described all the same: this is where one looks for what can run. */
    if (!report.default_isa)
        code = cli_error("%s", report.no_default);
    if (roofline_wanted && (measure_again || !info_cache_load(&report)) && !measure(&report))
        code = CLI_UNMEASURED;
    else if (!json)
        info_print_text(&report);
    else if (!info_print_json(&report))
        code = CLI_USAGE;
    machine_free(m);
    return code;
}
