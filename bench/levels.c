/* Which working sets stand for which level of memory, and what reading them says. */
#include "bench/roofline.h"

#include <math.h>

/* ---- Sizes ---------------------------------------------------------------------- */

/* How many of the PUs in use share a cache of `level` with PU `pu`. Caches are told apart by their
 * place in the list: an instance covers neighbours. */
static int sharers_in_use(const machine *m, const machine_pu *pu, int level, const int *os_index,
                          int threads) {
    int shared_by = pu->cache[level].shared_by, own = (int)(pu - m->pus) / shared_by, users = 0;
    for (int i = 0; i < threads; ++i) {
        const machine_pu *other = machine_find_pu(m, os_index[i]);
        users += other && (int)(other - m->pus) / shared_by == own;
    }
    return users > 0 ? users : 1;
}

static int64_t round_down(int64_t bytes) {
    return bytes / 256 * 256;
}

/* Of a cache above which a thread has `below` bytes: the least that does not fit there any more, as long as
 * it is hardly more than half of the thread's share here. Half of the share itself would be too much of a
 * last cache that other machines on the host use as well: some of it, from run to run more or less, would
 * come from memory. Where the share is hardly more than the level below holds (a large second level under a
 * third one that only takes what falls out of it): that level's size and half of the share. */
static int64_t stand_in(int64_t share, int64_t below) {
    if (below == 0)
        return share / 2;
    return share / 2 >= 2 * below || below + share / 2 >= 2 * below ? 2 * below : below + share / 2;
}

static void add_reading(roofline *r, int64_t bytes) {
    if (bytes < 256 || r->readings == ROOFLINE_MAX_READINGS)
        return;
    int at = r->readings;
    while (at > 0 && r->reading[at - 1].bytes >= bytes)
        --at;
    if (at < r->readings && r->reading[at].bytes == bytes)
        return;
    for (int i = r->readings++; i > at; --i)
        r->reading[i] = r->reading[i - 1];
    r->reading[at] = (roofline_reading){.bytes = bytes};
}

/* Half octaves from the first level's size to the last one's. */
static void choose_readings(roofline *r) {
    int64_t first = 0, last = 0;
    for (int level = 0; level < ROOFLINE_LEVELS; ++level) {
        const int64_t bytes = r->level[level].bytes, most = r->level[level].holds_bytes;
        add_reading(r, bytes);
        add_reading(r, most);
        first = first ? first : bytes;
        last = most > last ? most : last;
        last = bytes > last ? bytes : last;
    }
    for (int step = 1; first > 0; ++step) {
        const double bytes = (double)first * exp2(step / 2.0);
        if (bytes >= (double)last)
            return;
        add_reading(r, round_down((int64_t)bytes));
    }
}

/* Memory: four times all that the threads' last caches hold, as far as an eighth of the memory allows. */
static int64_t choose_memory(const machine *m, int threads, int64_t last_share) {
    const int64_t least = INT64_C(64) << 20, unknown = INT64_C(256) << 20;
    int64_t bytes = last_share ? 4 * last_share : unknown;
    bytes = bytes * threads < least ? least / threads : bytes;
    const int64_t most = m->memory_bytes ? m->memory_bytes / 8 / threads : INT64_MAX;
    bytes = bytes < most ? bytes : most;
    return bytes >= 2 * last_share ? round_down(bytes) : 0;
}

void roofline_choose_sizes(const machine *m, const int *os_index, int threads, roofline *r) {
    const machine_pu *pu = machine_find_pu(m, os_index[0]);
    int64_t below = 0;
    for (int level = 0; level < MACHINE_CACHE_LEVELS; ++level) {
        roofline_bandwidth *figure = &r->level[level];
        figure->sharers = 1;
        if (!pu->cache[level].bytes)
            continue;
        figure->sharers = sharers_in_use(m, pu, level, os_index, threads);
        const int64_t share = pu->cache[level].bytes / figure->sharers;
        figure->bytes = round_down(stand_in(share, below));
        figure->holds_bytes = round_down(share);
        if (figure->holds_bytes < figure->bytes)
            figure->holds_bytes = figure->bytes;
        below = share;
    }
    r->level[ROOFLINE_MEMORY].sharers = threads;
    r->level[ROOFLINE_MEMORY].bytes = choose_memory(m, threads, below);
    choose_readings(r);
}

/* ---- Figures -------------------------------------------------------------------- */

const roofline_reading *roofline_read_best(const roofline *r, double bytes) {
    static const roofline_reading nothing;
    int at = r->readings - 1;
    while (at > 0 && (double)r->reading[at].bytes > bytes)
        --at;
    const roofline_reading *best = at < 0 ? &nothing : &r->reading[at];
    for (int i = at + 1; i < r->readings; ++i)
        best = r->reading[i].gbs > best->gbs ? &r->reading[i] : best;
    return best;
}

/* A working set that is read at a rate nearer to memory's comes from there for the most part. */
static int64_t held(const roofline *r, const roofline_bandwidth *cache) {
    const double memory_gbs = r->level[ROOFLINE_MEMORY].read_gbs;
    const double border = sqrt(cache->read_gbs * memory_gbs);
    int64_t holds = cache->holds_bytes;
    for (int i = r->readings - 1; i >= 0 && memory_gbs > 0; --i) {
        if (r->reading[i].bytes > cache->holds_bytes)
            continue;
        holds = r->reading[i].bytes;
        if (holds <= cache->bytes || roofline_read_best(r, (double)holds)->gbs >= border)
            break;
    }
    return holds;
}

static void set_rates(roofline *r) {
    for (int level = 0; level < ROOFLINE_LEVELS; ++level) {
        roofline_bandwidth *figure = &r->level[level];
        if (!figure->bytes)
            continue;
        const roofline_reading *best = roofline_read_best(r, (double)figure->bytes);
        figure->read_gbs = best->gbs;
        figure->read_cpu_share = best->cpu_share;
    }
}

void roofline_judge_levels(roofline *r) {
    set_rates(r);
    for (int level = MACHINE_CACHE_LEVELS - 1; level >= 0; --level) {
        if (!(r->level[level].read_gbs > 0))
            continue;
        r->level[level].holds_bytes = held(r, &r->level[level]);
        return;
    }
}

void roofline_raise(roofline *r, double bytes, double gbs) {
    int at = r->readings - 1;
    while (at > 0 && (double)r->reading[at].bytes > bytes)
        --at;
    if (at < 0 || gbs <= r->reading[at].gbs)
        return;
    r->reading[at].gbs = gbs;
    set_rates(r);
}
