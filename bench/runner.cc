/* Google Benchmark: registers the rows and runs them, in our order.
 *
 * The library times nothing that we report: a row is one batch of calls (KeepRunningBatch), inside of
 * which measure.c takes its samples, and the library is told the median (UseManualTime), so that its
 * own output and ours agree. It works alike with 1.7.1 and 1.9. */
#include "bench/session.h"
#include "common/output.h"

#include <benchmark/benchmark.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <string>

#include "bench_info.h"

namespace {

/* Shows nothing by itself: progress and table are ours. */
class QuietReporter : public benchmark::BenchmarkReporter {
  public:
    bool ReportContext(const Context &) override {
        return true;
    }
    void ReportRuns(const std::vector<Run> &) override {
    }
};

/* Passes on what the library's reporter of a file writes, and sees whether the file has taken it: the library
 * does not look, and a full disk would leave a part for the whole. */
class CheckedReporter : public benchmark::BenchmarkReporter {
  public:
    explicit CheckedReporter(std::unique_ptr<benchmark::BenchmarkReporter> reporter)
        : reporter_(std::move(reporter)) {
    }
    bool ReportContext(const Context &context) override {
        reporter_->SetOutputStream(&GetOutputStream());
        reporter_->SetErrorStream(&GetErrorStream());
        return reporter_->ReportContext(context);
    }
    void ReportRuns(const std::vector<Run> &runs) override {
        reporter_->ReportRuns(runs);
    }
    void Finalize() override {
        reporter_->Finalize();
        errno = 0;
        if (!GetOutputStream().flush())
            error_ = errno ? std::strerror(errno) : "the file has not taken all of it";
    }
    const char *error() const {
        return error_;
    }

  private:
    std::unique_ptr<benchmark::BenchmarkReporter> reporter_;
    const char *error_ = nullptr;
};

/* What the library would make for its file. */
std::unique_ptr<benchmark::BenchmarkReporter> file_reporter(const char *format) {
    if (std::strcmp(format, "console") == 0)
        return std::make_unique<benchmark::ConsoleReporter>(benchmark::ConsoleReporter::OO_None);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    if (std::strcmp(format, "csv") == 0)
        return std::make_unique<benchmark::CSVReporter>();
#pragma GCC diagnostic pop
    return std::make_unique<benchmark::JSONReporter>();
}

/* What the library itself would write as its context, whatever its version. */
json_t *library_context() {
    const benchmark::BenchmarkReporter::Context context;
    std::ostringstream text;
    benchmark::JSONReporter json;
    json.SetOutputStream(&text);
    json.SetErrorStream(&text);
    if (!json.ReportContext(context))
        return nullptr;
    /* It stops after the bracket that opens the list of benchmarks. */
    json_t *whole = json_loads((text.str() + "]}").c_str(), 0, nullptr);
    json_t *found = json_incref(json_object_get(whole, "context"));
    json_decref(whole);
    return found;
}

void measure_row(benchmark::State &state, bench_session *session, bench_row *row) {
    const int64_t calls = *row->error ? 0 : bench_measure_begin(session, row);
    if (calls > 0) {
        while (state.KeepRunningBatch(calls))
            bench_measure_samples(session, row);
        const double median_ns = bench_measure_end(session, row);
        if (median_ns > 0) {
            state.SetIterationTime(median_ns * 1e-9 * static_cast<double>(calls));
            state.counters["gflops"] = row->flops_useful / median_ns;
            state.counters["pct_peak"] = bench_pct_peak(row);
            state.counters["ghz"] = row->result.ghz;
            state.SetLabel(row->info.isa);
            return;
        }
    } else if (const int64_t before = row->result.calls_per_sample * row->result.samples_planned) {
        /* Another repetition had that many, and the library ends the program unless all have. */
        while (state.KeepRunningBatch(before)) {
        }
    }
    state.SkipWithError(*row->error ? row->error : *row->left_out ? row->left_out : "interrupted");
}

void run_row(benchmark::State &state, bench_session *session, bench_row *row) {
    measure_row(state, session, row);
    if (session->after_row)
        session->after_row(session);
}

/* The library calls this, and then exits with 0, when an option has a value that it does not know. */
void bad_value() {
    std::fprintf(stderr,
                 "attnscope bench: a --benchmark_ option has a value that Google Benchmark %s refuses\n",
                 BENCH_LIBRARY_VERSION);
    std::fflush(stderr);
    cli_output_abandon();
    std::_Exit(2);
}

} // namespace

bool bench_runner_options(bench_config *config, const char *library_out) {
    const std::string out = std::string("--benchmark_out=") + (library_out ? library_out : "");
    config->library_argv[config->library_argc++] =
        const_cast<char *>(out.c_str()); /* copied by the library */
    benchmark::Initialize(&config->library_argc, config->library_argv, bad_value);
    if (config->library_argc == 1)
        return true;
    std::fprintf(stderr,
                 "attnscope bench: '%s' is not an option of Google Benchmark %s, or its value is wrong\n",
                 config->library_argv[1], BENCH_LIBRARY_VERSION);
    return false;
}

void bench_runner_run(bench_session *session) {
    for (int i = 0; i < session->order_count; i++) {
        bench_row *row = session->order[i];
        /* The library runs them as registered; names are ids, its suffixes are not in our file. */
        const std::string name = std::string(row->id) + (row == &session->again ? "/again" : "");
        benchmark::RegisterBenchmark(name.c_str(), run_row, session, row)->UseManualTime()->Iterations(1);
    }
    session->library_context = library_context();
    if (session->order_count == 0)
        return;
    QuietReporter quiet;
    std::unique_ptr<benchmark::BenchmarkReporter> chosen;
    if (!session->config->own_table)
        chosen.reset(benchmark::CreateDefaultDisplayReporter());
    std::unique_ptr<CheckedReporter> file;
    if (session->config->library_out)
        file = std::make_unique<CheckedReporter>(file_reporter(session->config->library_format));
    /* The filter has been applied to the ids. */
    benchmark::RunSpecifiedBenchmarks(chosen ? chosen.get() : &quiet, file.get(), "all");
    session->library_error = file ? file->error() : nullptr;
}

const char *bench_runner_version(void) {
    return BENCH_LIBRARY_VERSION;
}
