/* What `verify` runs attention on: patterns and options on a set of shapes, and families of lengths
 * and head dimensions. */
#include "cli/verify.h"
#include "kernels/kernels.h"

#define COUNT(array) (int)(sizeof(array) / sizeof(array)[0])

/* B, H, Hkv, Nq, Nk, D, Dv: one of each kind of trouble. */
static const int64_t shapes[][7] = {
    {1, 1, 1, 1, 1, 1, 1},         /* the smallest */
    {2, 4, 2, 33, 65, 17, 9},      /* grouped heads, odd dimensions, one past a tile */
    {1, 8, 1, 1, 300, 64, 64},     /* decoding with a single key/value head */
    {1, 2, 2, 65, 64, 80, 80},     /* one query more than keys */
    {2, 6, 2, 48, 31, 5, 3},       /* more queries than keys: rows without any */
    {1, 1, 1, 130, 130, 128, 128}, /* several tiles each way */
    {1, 2, 1, 63, 127, 96, 40},    /* one short of tiles */
    {1, 1, 1, 7, 600, 32, 64},     /* several blocks of keys */
    {1, 6, 2, 3, 2300, 40, 24},    /* decoding: keys are split */
    {3, 3, 3, 16, 16, 8, 8},       /* all sizes round */
    {1, 2, 2, 200, 333, 40, 40},   /* nothing round */
};

typedef struct group {
    const char *name, *pattern;
    uint32_t inputs;
    attn_dtype dtype;
    float scale, softcap;
    verify_data data;
    int64_t block_size;
    bool interleaved;
    int threads;
} group;

static const group groups[] = {
    {"dense", .pattern = "dense"},
    {"causal", .pattern = "causal"},
    {"causal-top-left", .pattern = "causal-top-left"},
    {"prefix", .pattern = "causal,prefix=5"},
    {"chunk", .pattern = "chunk=16"},
    {"chunk", .pattern = "causal,chunk=7"},
    {"window", .pattern = "window=1"},
    {"window", .pattern = "causal,window=10"},
    {"window", .pattern = "window=63"},
    {"window", .pattern = "window=64"},
    {"window", .pattern = "window=65"},
    {"window", .pattern = "window=3:2"},
    {"window", .pattern = "window=0:inf"},
    {"sink", .pattern = "causal,window=8,sink=4"},
    {"global", .pattern = "window=4:4,global=3"},
    {"global", .pattern = "causal,global=70"},
    {"stride", .pattern = "stride=3"},
    {"stride", .pattern = "causal,window=5,stride=17"},
    {"random", .pattern = "random=2:16:7"},
    {"random", .pattern = "causal,sink=1,random=1:24:11"},
    {"blocks", .pattern = "dense", .block_size = 16},
    {"blocks", .pattern = "causal,window=3", .block_size = 33},
    {"topk", .pattern = "topk=4", .data = DATA_SPACED},
    {"topk", .pattern = "causal,topk=33", .data = DATA_SPACED},
    {"kv_lens", .pattern = "causal", .inputs = ATTN_HAS_KV_LENS},
    {"q_offsets", .pattern = "causal,window=20", .inputs = ATTN_HAS_Q_OFFSETS},
    {"segments", .pattern = "dense", .inputs = ATTN_HAS_SEGMENTS},
    {"mask", .pattern = "dense", .inputs = ATTN_HAS_MASK},
    {"bias", .pattern = "causal", .inputs = ATTN_HAS_BIAS},
    {"alibi", .pattern = "causal", .inputs = ATTN_HAS_ALIBI},
    {"softcap", .pattern = "causal", .softcap = 3},
    {"sink logit", .pattern = "causal-top-left", .inputs = ATTN_HAS_SINK_LOGIT},
    {"scale", .pattern = "dense", .scale = -0.7f},
    {"scale", .pattern = "causal", .scale = VERIFY_ZERO_SCALE},
    {"f16", .pattern = "causal", .dtype = ATTN_F16},
    {"bf16", .pattern = "causal,window=40", .dtype = ATTN_BF16},
    {"layout bnhd", .pattern = "causal", .interleaved = true},
    {"all options", .pattern = "causal,window=50,sink=2",
     .inputs = ATTN_HAS_KV_LENS | ATTN_HAS_Q_OFFSETS | ATTN_HAS_SEGMENTS | ATTN_HAS_MASK | ATTN_HAS_BIAS |
               ATTN_HAS_ALIBI | ATTN_HAS_SINK_LOGIT,
     .dtype = ATTN_F16, .scale = 0.3f, .softcap = 5, .interleaved = true, .threads = 2},
    {"peaked scores", .pattern = "dense", .data = DATA_PEAKED},
    {"rising scores", .pattern = "causal", .data = DATA_RISING},
    {"equal scores", .pattern = "causal", .data = DATA_EQUAL},
    {"tiny inputs", .pattern = "dense", .data = DATA_TINY},
    {"NaN in padding", .pattern = "dense", .inputs = ATTN_HAS_KV_LENS, .data = DATA_POISON},
    {"NaN attended", .pattern = "causal", .data = DATA_NAN},
    {"threads", .pattern = "causal", .threads = 3},
    {"threads", .pattern = "window=30:10", .threads = VERIFY_THREADS},
};

static const int64_t lengths[] = {1,  2,  3,  7,  8,  9,  11, 12, 13, 15,  16,  17,
                                  31, 32, 33, 47, 48, 49, 63, 64, 65, 127, 129, 257};
static const int64_t dims[] = {1,  2,  3,  4,  5,  7,  8,  9,  15,  16,  17,  24,
                               31, 32, 33, 40, 48, 64, 80, 96, 112, 128, 192, 256};

/* Lengths around the tiles of every level of this build; all levels get all of them. */
static void each_tile_border(bool quick, uint64_t stream, void (*each)(verify_run *, const verify_case *),
                             verify_run *run) {
#define ISA(id, ...) &attn_kernels_##id,
    static const attn_kernels *const tables[] = {
#include "dispatch/isa.def"
    };
#undef ISA
    for (int level = 0; level < COUNT(tables); level++) {
        for (int step = 0; step < 9; step++, stream++) {
            const int64_t tile = tables[level]->query_tile, block = tables[level]->key_block;
            const int64_t keys[] = {64, block, 2 * block};
            verify_case c = {.group = "tile borders",
                             .pattern = step % 2 ? "causal" : "dense",
                             .batch = 1,
                             .heads = 1,
                             .kv_heads = 1,
                             .queries = (step / 3 ? 2 * tile : tile) + step % 3 - 1,
                             .keys = keys[(step + step / 3) % 3] + step / 3 - 1,
                             .head_dim = 24,
                             .value_dim = 24,
                             .stream = stream};
            if (!quick || step % 3 == 2)
                each(run, &c);
        }
    }
}

void verify_each_case(bool quick, void (*each)(verify_run *run, const verify_case *c), verify_run *run) {
    uint64_t stream = 1;
    for (int g = 0; g < COUNT(groups); g++) {
        for (int s = 0; s < COUNT(shapes); s++, stream++) {
            if (quick && (s + g) % 3 != 0)
                continue;
            const group *from = &groups[g];
            const int64_t *shape = shapes[s];
            verify_case c = {.group = from->name,
                             .pattern = from->pattern,
                             .batch = shape[0],
                             .heads = shape[1],
                             .kv_heads = shape[2],
                             .queries = shape[3],
                             .keys = shape[4],
                             .head_dim = shape[5],
                             .value_dim = shape[6],
                             .inputs = from->inputs,
                             .dtype = from->dtype,
                             .scale = from->scale,
                             .softcap = from->softcap,
                             .data = from->data,
                             .block_size = from->block_size,
                             .interleaved = from->interleaved,
                             .threads = from->threads,
                             .stream = stream};
            each(run, &c);
        }
    }
    /* Every length meets another one for queries and keys; a step of 7 is prime to their number. */
    for (int i = 0; i < COUNT(lengths); i++, stream++) {
        verify_case c = {.group = "lengths",
                         .pattern = i % 2 ? "causal" : "dense",
                         .batch = 1,
                         .heads = 2,
                         .kv_heads = 1,
                         .queries = lengths[i],
                         .keys = lengths[(7 * i + 5) % COUNT(lengths)],
                         .head_dim = 16,
                         .value_dim = 16,
                         .stream = stream};
        if (!quick || i % 3 == 0)
            each(run, &c);
    }
    for (int i = 0; i <= COUNT(dims); i++, stream++) {
        bool last = i == COUNT(dims); /* the pair that compressed keys and values use */
        verify_case c = {.group = "head dimensions",
                         .pattern = i % 2 ? "causal" : "dense",
                         .batch = 1,
                         .heads = 2,
                         .kv_heads = 2,
                         .queries = 19,
                         .keys = 70,
                         .head_dim = last ? 576 : dims[i],
                         .value_dim = last ? 512 : dims[(5 * i + 3) % COUNT(dims)],
                         .stream = stream};
        if (!quick || i % 3 == 0)
            each(run, &c);
    }
    each_tile_border(quick, stream, each, run);
}
