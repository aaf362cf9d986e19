/* Sinter: fuses chains of GPU operators on NVIDIA Hopper, at run time, behind a C ABI.
 *
 * One path: describe a chain (sinter_chain_*), prepare a plan for it (sinter_prepare: cache
 * look-up, or search, generate and compile), bind buffers (sinter_plan_bind), launch
 * (sinter_binding_launch).
 *
 * Conventions
 *  - Objects are opaque and reference-counted. A function that makes one gives the caller one
 * reference; `retain` adds one, `release` drops one and accepts NULL. Objects keep what they need
 * alive: release order never matters. Release is thread-safe. A released handle must not be used
 * again.
 *  - Every call that can fail returns a sinter_status (0 is success) and takes a last
 * `sinter_error** error`: NULL, or a place for an owned error that the caller releases; it is left
 * alone on success. No thread-local state.
 *  - On failure out-parameters are left alone, unless said otherwise.
 *  - Option structs begin with `struct_size`, 8 to 4096. A smaller size than the library's leaves
 * the missing tail at its defaults; a larger one is accepted if the extra bytes are zero. Zero
 * always means the default, so a zeroed struct with its size set (SINTER_INIT) is valid, and so is
 * a NULL pointer to options. Unknown flag bits are SINTER_INVALID_ARGUMENT.
 *  - Everything given to a call is copied; nothing is kept after it returns, unless said otherwise.
 *  - Text comes out by the two-call pattern: `capacity` bytes at `buffer` (NULL when 0) receive as
 * much as fits, always NUL-terminated when capacity > 0; `*required` receives the full size with
 * the NUL.
 *  - Sizes are bytes, strides elements, times microseconds.
 *  - Thread words: "thread-safe": any threads at once. "thread-compatible": different objects at
 * once, one object from one thread at a time. Callbacks may come from any thread and, unless said
 * otherwise, must not call back into the library.
 */
#ifndef SINTER_SINTER_H_
#define SINTER_SINTER_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SINTER_API __attribute__((visibility("default")))
#define SINTER_DEPRECATED __attribute__((deprecated))
#else
#define SINTER_API
#define SINTER_DEPRECATED
#endif

#define SINTER_VERSION_MAJOR 0
#define SINTER_VERSION_MINOR 1
#define SINTER_VERSION_PATCH 0

/* The start of an option struct: `sinter_norm_options norm = SINTER_INIT(sinter_norm_options);` */
#ifdef __cplusplus
template <typename T>
inline T sinter_init() {
  T value = T();
  value.struct_size = (uint32_t)sizeof(T);
  return value;
}
#define SINTER_INIT(type) sinter_init<type>()
#else
#define SINTER_INIT(type) \
  { .struct_size = (uint32_t)sizeof(type) }
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- Types */

typedef struct sinter_context
    sinter_context; /* one device or target: caches, configuration, counters */
typedef struct sinter_chain
    sinter_chain; /* an operator DAG: a builder until finished, then immutable */
typedef struct sinter_plan
    sinter_plan; /* a chain prepared for a bucket of M, kernels loaded; immutable */
typedef struct sinter_binding sinter_binding; /* a plan bound to buffers; immutable */
typedef struct sinter_cancel sinter_cancel;   /* a switch that ends a long call */
typedef struct sinter_pending sinter_pending; /* a prepare under way */
typedef struct sinter_slot sinter_slot;       /* a place for the best plan so far */
typedef struct sinter_error sinter_error;     /* what went wrong; immutable */

/* The caller's CUstream or cudaStream_t; NULL is the legacy default stream. */
typedef struct CUstream_st* sinter_stream;
/* A device address: CUdeviceptr or a cudaMalloc pointer. Buffers are aligned to 16 bytes. */
typedef uint64_t sinter_device_ptr;

/* Result of a call: 1 to 16 are the codes of gRPC and Abseil. Numbers are never reused. */
typedef int32_t sinter_status;
enum {
  SINTER_OK = 0,
  SINTER_CANCELLED = 1,
  SINTER_UNKNOWN = 2,
  SINTER_INVALID_ARGUMENT = 3,
  SINTER_DEADLINE_EXCEEDED = 4,
  SINTER_NOT_FOUND = 5,
  SINTER_ALREADY_EXISTS = 6,
  SINTER_PERMISSION_DENIED = 7,
  SINTER_RESOURCE_EXHAUSTED = 8,
  SINTER_FAILED_PRECONDITION = 9,
  SINTER_ABORTED = 10,
  SINTER_OUT_OF_RANGE = 11,
  SINTER_UNIMPLEMENTED = 12,
  SINTER_INTERNAL = 13,
  SINTER_UNAVAILABLE = 14,
  SINTER_DATA_LOSS = 15,
  SINTER_UNAUTHENTICATED = 16,
  SINTER_ERROR_COMPILE_FAILED = 100, /* the run-time compiler refused generated source */
  SINTER_ERROR_NO_LEGAL_PLAN = 101,  /* no kernel family takes this chain */
  SINTER_ERROR_DRIVER = 102,         /* a CUDA driver call failed: sinter_error_get_driver_result */
  SINTER_ERROR_CACHE_CORRUPT = 103, /* from explicit verification only; a damaged entry is a miss */
  SINTER_ERROR_STREAM_CAPTURING =
      104,                      /* not legal while the stream captures; the capture stays valid */
  SINTER_ERROR_CACHE_MISS = 105 /* must-hit was asked for and no tier had a usable entry */
};

/* Element types. f32 accumulation everywhere; only a cast rounds. */
typedef int32_t sinter_dtype;
enum {
  SINTER_DTYPE_F32 = 1,
  SINTER_DTYPE_F16 = 2,
  SINTER_DTYPE_BF16 = 3,
  SINTER_DTYPE_S32 = 4,
  SINTER_DTYPE_PRED = 5, /* one byte, 0 or 1 */
  /* 8-bit float of the OCP: 4 exponent bits, 3 of mantissa, no infinity, at most 448, NaN is 0x7f
   * and 0xff. Can only be cast, moved and multiplied; a cast to it saturates. */
  SINTER_DTYPE_E4M3 = 6,
  SINTER_DTYPE_S8 = 7 /* as e4m3: can only be cast, moved and multiplied */
};

typedef int32_t sinter_unary;
enum {
  SINTER_UNARY_NEG = 1,
  SINTER_UNARY_ABS = 2,
  SINTER_UNARY_EXP = 3,
  SINTER_UNARY_LOG = 4,
  SINTER_UNARY_SQRT = 5,
  SINTER_UNARY_RSQRT = 6,
  SINTER_UNARY_TANH = 7,
  SINTER_UNARY_ERF = 8,
  SINTER_UNARY_SIGMOID = 9,
  SINTER_UNARY_RELU = 10, /* NaN stays NaN */
  SINTER_UNARY_RECIPROCAL = 11,
  SINTER_UNARY_SQUARE = 12,
  SINTER_UNARY_SIN = 13,
  SINTER_UNARY_COS = 14,
  SINTER_UNARY_FLOOR = 15,
  SINTER_UNARY_NOT = 16,      /* pred only */
  SINTER_UNARY_CEIL_POW2 = 17 /* the smallest power of two that is not less, and 2^-126 or more */
};

typedef int32_t sinter_binary;
enum {
  SINTER_BINARY_ADD = 1,
  SINTER_BINARY_SUB = 2,
  SINTER_BINARY_MUL = 3,
  SINTER_BINARY_DIV = 4, /* floating only */
  SINTER_BINARY_MAX = 5, /* a NaN operand gives NaN */
  SINTER_BINARY_MIN = 6,
  SINTER_BINARY_POW = 7, /* floating only */
  SINTER_BINARY_AND = 8, /* pred only */
  SINTER_BINARY_OR = 9   /* pred only */
};

typedef int32_t sinter_compare;
enum {
  SINTER_COMPARE_EQ = 1,
  SINTER_COMPARE_NE = 2,
  SINTER_COMPARE_LT = 3,
  SINTER_COMPARE_LE = 4,
  SINTER_COMPARE_GT = 5,
  SINTER_COMPARE_GE = 6
};

typedef int32_t sinter_reduce;
enum {
  SINTER_REDUCE_SUM = 1,
  SINTER_REDUCE_MAX = 2,
  SINTER_REDUCE_MIN = 3,
  SINTER_REDUCE_MEAN = 4
};

typedef int32_t sinter_activation;
enum {
  SINTER_ACTIVATION_IDENTITY = 0,
  SINTER_ACTIVATION_RELU = 1,
  SINTER_ACTIVATION_GELU_TANH = 2,
  SINTER_ACTIVATION_GELU_ERF = 3,
  SINTER_ACTIVATION_SILU = 4
};

/* How a weight lies in memory. 0 means SINTER_LAYOUT_OI. */
typedef int32_t sinter_layout;
enum {
  SINTER_LAYOUT_OI = 1, /* [out, in], as nn.Linear stores it */
  SINTER_LAYOUT_IO = 2  /* [in, out] */
};

/* How the filter of a convolution lies in memory. 0 means SINTER_FILTER_OHWI. */
typedef int32_t sinter_filter;
enum {
  SINTER_FILTER_OHWI = 1, /* [out, height, width, in], as PyTorch's channels_last stores it */
  SINTER_FILTER_HWIO = 2  /* [height, width, in, out] */
};

/* A choice that may be left to the environment. */
typedef int32_t sinter_switch;
enum { SINTER_SWITCH_DEFAULT = 0, SINTER_SWITCH_ON = 1, SINTER_SWITCH_OFF = 2 };

typedef int32_t sinter_log_level;
enum {
  SINTER_LOG_DEFAULT = 0, /* SINTER_LOG, else warn */
  SINTER_LOG_ERROR = 1,
  SINTER_LOG_WARN = 2,
  SINTER_LOG_INFO = 3,
  SINTER_LOG_DEBUG = 4,
  SINTER_LOG_OFF = 5
};

/* A value of a chain: the result of one add. 1 or more, growing from add to add; valid in its own
 * chain only. */
typedef int32_t sinter_value;
#define SINTER_NO_VALUE 0 /* an operand that is absent */

#define SINTER_MAX_RANK 6
/* As an extent: the symbol M (tokens, rows), known at launch. As a slice's limit: all of it. */
#define SINTER_DIM_M (-1)

/* `message` is borrowed for the call and NUL-terminated, one line. */
typedef void (*sinter_log_callback)(uintptr_t user_data, sinter_log_level level,
                                    const char* message);
/* `stage` is borrowed, one short line; `fraction` is of the whole call, 0 to 1. */
typedef void (*sinter_progress_callback)(uintptr_t user_data, const char* stage, double fraction);

/* ---------------------------------------------------------------- Library */

/* major * 10000 + minor * 100 + patch of the library itself. Thread-safe. Since 0.1. */
SINTER_API uint32_t sinter_version(void);
/* One line: version, compiler, build type. Static storage. Thread-safe. Since 0.1. */
SINTER_API const char* sinter_build_info(void);
/* "INVALID_ARGUMENT"; "UNKNOWN_STATUS" for a number that is none. Static storage. Thread-safe.
 * Since 0.1. */
SINTER_API const char* sinter_status_name(sinter_status status);

/* ---------------------------------------------------------------- Errors */

/* All of them thread-safe; results are borrowed from the error. Since 0.1. */
SINTER_API void sinter_error_retain(const sinter_error* error);
SINTER_API void sinter_error_release(const sinter_error* error);
/* The status that the call returned; SINTER_INVALID_ARGUMENT when `error` is NULL or no error. */
SINTER_API sinter_status sinter_error_get_code(const sinter_error* error);
/* One lower-case line that names the op, the field, the value and the bound; "" for NULL. */
SINTER_API const char* sinter_error_get_message(const sinter_error* error);
/* The CUresult behind SINTER_ERROR_DRIVER, else 0. */
SINTER_API int32_t sinter_error_get_driver_result(const sinter_error* error);
/* The compiler's log behind SINTER_ERROR_COMPILE_FAILED, else "". */
SINTER_API const char* sinter_error_get_compile_log(const sinter_error* error);

/* ---------------------------------------------------------------- Context */

/* Each field left at its default follows its environment variable, read once, at creation; a field
 * that is set wins. */
typedef struct sinter_context_options {
  uint32_t struct_size;
  uint32_t flags;             /* none yet */
  int32_t device;             /* GPU ordinal of the driver; ignored with a target */
  sinter_log_level log_level; /* SINTER_LOG=off|error|warn|info|debug */
  const char* target;    /* NULL: use `device`. "h200", "h100" or a model's text: prepare for it, no
                            GPU used */
  const char* cache_dir; /* SINTER_CACHE_DIR, else $XDG_CACHE_HOME/sinter, else $HOME/.cache/sinter;
                            "": memory only */
  const char* dump_dir;  /* SINTER_DUMP: chain JSON, plan, source and compile log of every prepare;
                            "": none */
  const char* nvrtc_path;  /* SINTER_NVRTC: libnvrtc to open */
  const char* driver_path; /* SINTER_LIBCUDA: libcuda to open */
  sinter_switch cache;     /* SINTER_CACHE=off */
  /* SINTER_MUST_HIT=1: a cache miss is SINTER_ERROR_CACHE_MISS. What another context or process
   * made is found once it is written, some milliseconds later, or when it has called
   * sinter_x_cache_flush; until then the error says that the record is being built or queued. */
  sinter_switch must_hit;
  /* SINTER_BATCH_INVARIANT=1: a row's result does not depend on how many rows there are. Promised:
   * two launches of one chain with equal values in row i of its inputs, and equal inputs that have
   * no M, have equal bits in row i of every output, whatever their numbers of rows are, in other
   * buckets and above 8192 too, and whether a tuning set chose or not. It holds for plans of one
   * GPU model, one version of the library and one of NVRTC. Refused with SINTER_ERROR_NO_LEGAL_PLAN
   * that names the op: a chain in which an op takes rows together, such as a reduction over M or a
   * product that contracts it; and one that needs a kernel whose blocks wait for one another to
   * join columns. A chain without M is planned as ever. It costs time: docs/numerics.md. */
  sinter_switch batch_invariant;
  sinter_switch verify; /* SINTER_VERIFY=1: check a new kernel against the unfused plan at its first
                           prepare */
  sinter_log_callback log; /* NULL: standard error */
  uintptr_t log_user_data;
  const char* tuning_set; /* SINTER_TUNING_SET: file of a tuning set; "": none. Read once, here;
                             without one no plan is chosen by measurement. Its owner is we or
                             root, and neither group nor others may write it */
  /* SINTER_PACKS, separated by ':': pack files, looked up in this order after cache_dir. Not NULL:
   * these `pack_count`, which may be 0. A pack that cannot be used is one warning, and the rest
   * serve. */
  const char* const* packs;
  uint32_t pack_count;
  sinter_switch unsigned_packs;  /* SINTER_PACKS_UNSIGNED=1: take packs that none of pack_keys
                                    signed */
  const char* pack_keys;         /* SINTER_PACK_KEYS: PEM file of the Ed25519 public keys that may
                                    sign packs; "": none */
  sinter_switch cache_read_only; /* SINTER_CACHE=read-only: look cache_dir up, never write it */
  const char* cache_store;       /* SINTER_CACHE_STORE: "tables", for any number of processes, or
                                    "leveldb-db", for one that owns it */
  uint64_t cache_max_bytes; /* SINTER_CACHE_MAX_BYTES=2GiB: cap of cache_dir; 0: 2 GiB. What was
                               longest unused goes first */
  const char* remote;       /* SINTER_REMOTE: redis://[user@]host[:port][/db] or
                               redis+unix:///path, asked for what all else lacks; "": none */
  const char* remote_name_space;    /* SINTER_REMOTE_NAMESPACE, else "sinter": the trust domain */
  const char* remote_key_file;      /* SINTER_REMOTE_KEY_FILE, else the secret itself in
                                       SINTER_REMOTE_KEY: the fleet's key, 16 bytes or more */
  const char* remote_password_file; /* SINTER_REMOTE_PASSWORD_FILE, else SINTER_REMOTE_PASSWORD */
  sinter_switch remote_publish; /* SINTER_REMOTE_ROLE=publisher: write there too, not only read */
  sinter_switch must_hit_verified; /* SINTER_MUST_HIT=verified: as must_hit, and every kernel must
                                      have been checked on a GPU */
  const char* deny_toolchains; /* SINTER_DENY_TOOLCHAINS: compilers whose kernels are refused, as
                                  sinter_context_deny_toolchains takes them; "": none */
  uint64_t module_cache_bytes; /* SINTER_MODULE_CACHE_BYTES: cap on the code loaded on the GPU; 0:
                                  1 GiB. What no plan, binding or captured graph uses any more stays
                                  loaded until this is passed, the longest unused goes first; what
                                  is in use stays, whatever it takes. 1: nothing unused stays */
  const char* device_model;    /* SINTER_DEVICE_MODEL: model file of the GPU, as `sinter device
                                  --measure` prints one; "": the built-in model that is nearest. Not
                                  looked at with a target. Owner and access as of tuning_set */
} sinter_context_options;

/* Opens `device`, or a target without one. The GPU's primary context is retained and never made
 * current for the caller: every call restores the caller's current context, and works without one.
 * SINTER_UNAVAILABLE: no driver or no such GPU. SINTER_FAILED_PRECONDITION: not an sm_90 GPU.
 * SINTER_INVALID_ARGUMENT: an option or an environment variable; a tuning set that is missing,
 * damaged or of another format, with path and reason; a key file; a model file, which is
 * SINTER_FAILED_PRECONDITION where it describes another GPU. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_context_create(const sinter_context_options* options,
                                               sinter_context** out_context, sinter_error** error);
SINTER_API void sinter_context_retain(const sinter_context* context);  /* Thread-safe. Since 0.1. */
SINTER_API void sinter_context_release(const sinter_context* context); /* Thread-safe. Since 0.1. */
/* 1 when the context drives a GPU, 0 for a target without one or NULL. Thread-safe. Since 0.1. */
SINTER_API int32_t sinter_context_has_device(const sinter_context* context);
/* The digest of the context's tuning set, all zero without one. Ranks that compare it know that
 * they chose by the same measurements. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_context_get_tuning_digest(const sinter_context* context,
                                                          uint8_t out_digest[32],
                                                          sinter_error** error);

/* Refuses kernels by the compiler that made them, for a release that is found to miscompile.
 * `entries`, separated by commas: an NVRTC version ("13.0"), or 8 or more leading hex digits of the
 * library file's ELF build id ("sha256:" and digits for a file without one). They add to those of
 * the options. From then on, in this context: such a kernel in any tier is a miss, counted in
 * cache_other_toolchain, under must-hit SINTER_ERROR_CACHE_MISS; such a compiler compiles nothing,
 * which is SINTER_FAILED_PRECONDITION naming the toolchain and the entry; kernels of other
 * toolchains in the cache serve although this machine's compiler is denied. Nothing is removed from
 * the cache, and plans that are held live on. SINTER_INVALID_ARGUMENT for an entry that is neither;
 * nothing changes then. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_context_deny_toolchains(sinter_context* context,
                                                        const char* entries, sinter_error** error);

/* Counters since the context was made. Filled up to struct_size bytes; what the library does not
 * know is zero. */
typedef struct sinter_stats {
  uint32_t struct_size;
  uint32_t nvrtc_loaded; /* 1 once the run-time compiler was opened */
  uint64_t prepares;
  uint64_t plan_hits; /* plans found in memory or in a cache tier */
  uint64_t searched;  /* plans searched for */
  uint64_t kernels_compiled;
  uint64_t kernel_hits; /* kernels found in a cache tier */
  uint64_t kernels_loaded, launches;
  uint64_t waits;                  /* for another thread's build of the same key */
  uint64_t wrong_kernels;          /* refused by a self-check */
  uint64_t non_resident_fallbacks; /* plans replaced: the driver could hold too few clusters */
  uint64_t cache_memory_hits, cache_local_hits, cache_puts, cache_put_failures, cache_quarantined;
  uint64_t cache_misses; /* of all reasons below */
  uint64_t cache_absent, cache_damaged, cache_foreign_arch, cache_other_format,
      cache_other_toolchain;
  uint64_t cache_refused_owner, cache_in_quarantine, cache_disabled, cache_io_errors;
  double search_us, compile_us; /* summed over threads */
  uint64_t tuned_plans;         /* plans made as the tuning set says */
  uint64_t tuned_refused; /* entries of the tuning set that this library could not use: a kernel or
                             a format changed; the plan was then chosen by prediction */
  uint64_t cache_pack_hits, cache_packs_open, cache_packs_refused;
  uint64_t cache_puts_dropped, cache_evicted;
  uint64_t cache_remote_hits, cache_remote_puts, cache_remote_errors, cache_remote_down;
  uint64_t cache_remote_opened; /* times that the remote tier was given up for a while */
  double compile_seconds_saved; /* that compiling the kernels which came from the cache took once */
  double gpu_time_saved_us;     /* over all launches: the unfused plan's time less that of the plan
                                   that ran, measured where both were, else predicted. Replays of
                                   captured graphs are not seen */
  uint64_t modules_loaded;      /* on the GPU now, in use or not */
  uint64_t module_bytes;        /* their code */
  uint64_t modules_unloaded;    /* so far */
  uint64_t slots_building;      /* slots whose plan is being built, or queued for it */
  uint64_t slot_upgrades, slot_failures; /* plans that became current; builds that failed */
} sinter_stats;

/* Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_context_get_stats(const sinter_context* context,
                                                  sinter_stats* stats, sinter_error** error);
/* The counters as Prometheus text, format 0.0.4, which docs/serving.md lists. They move between two
 * calls: call again while *required > capacity. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_context_write_metrics(const sinter_context* context,
                                                      size_t capacity, char* buffer,
                                                      size_t* required, sinter_error** error);

/* ---------------------------------------------------------------- Chain
 * Every add checks its operands at once and returns the new value in *out_value; a failed add
 * leaves the chain as it was. Errors name the op's index from 0 (op i made value i + 1), its kind,
 * the field, the value and the bound. A chain has at most 65536 ops and 1024 outputs. Shapes are
 * written outermost first. `dims`: `rank` extents, 0 to 6 of them, each 1 to 2^31 - 1 or
 * SINTER_DIM_M; at most 2^40 elements, M not counted. Adds are thread-compatible. All since 0.1. */

/* An empty chain. It belongs to no context: one chain may be prepared in many. Thread-safe. */
SINTER_API sinter_status sinter_chain_create(sinter_chain** out_chain, sinter_error** error);
SINTER_API void sinter_chain_retain(const sinter_chain* chain);  /* Thread-safe. */
SINTER_API void sinter_chain_release(const sinter_chain* chain); /* Thread-safe. */

/* sinter_input_options.flags. A constant never changes while a plan uses it on a stream: weights.
 * Only constants may be read before the kernels ahead on the stream have finished. */
enum { SINTER_INPUT_CONSTANT = 1 };
typedef struct sinter_input_options {
  uint32_t struct_size;
  uint32_t flags;
  const char* name;       /* for messages only, at most 128 bytes of printable ASCII; NULL: none */
  const int64_t* strides; /* `rank` strides in elements, each 0 to 2^40; NULL: contiguous; 0 repeats
                             an element */
  const int32_t* stride_m_powers; /* `rank` powers, each 0 to 5: the stride is strides[i] * M^power;
                                     NULL: all 0 */
} sinter_input_options;
/* A tensor that the caller supplies. Buffers are later given in the order of these calls. */
SINTER_API sinter_status sinter_chain_add_input(sinter_chain* chain, sinter_dtype dtype,
                                                uint32_t rank, const int64_t* dims,
                                                const sinter_input_options* options,
                                                sinter_value* out_value, sinter_error** error);
/* A constant of rank 0, rounded to `dtype`; NaN is refused. */
SINTER_API sinter_status sinter_chain_add_scalar(sinter_chain* chain, double value,
                                                 sinter_dtype dtype, sinter_value* out_value,
                                                 sinter_error** error);
/* result[.., i, ..] = i along `axis`; s32 or f32. */
SINTER_API sinter_status sinter_chain_add_iota(sinter_chain* chain, sinter_dtype dtype,
                                               uint32_t rank, const int64_t* dims, int32_t axis,
                                               sinter_value* out_value, sinter_error** error);

enum { SINTER_MATMUL_TRANSPOSE_A = 1, SINTER_MATMUL_TRANSPOSE_B = 2 };
typedef struct sinter_matmul_options {
  uint32_t struct_size;
  uint32_t flags; /* TRANSPOSE_A: a is [.., k, m]; TRANSPOSE_B: b is [.., n, k] */
} sinter_matmul_options;
/* [batch.., m, k] x [batch.., k, n] -> f32 [batch.., m, n]; batch extents equal, or absent in one
 * operand. Both floating; or both e4m3 or both s8 (-> s32), with TRANSPOSE_B alone. */
SINTER_API sinter_status sinter_chain_add_matmul(sinter_chain* chain, sinter_value a,
                                                 sinter_value b,
                                                 const sinter_matmul_options* options,
                                                 sinter_value* out_value, sinter_error** error);

typedef struct sinter_conv2d_options {
  uint32_t struct_size;
  uint32_t flags; /* none yet */
  sinter_filter filter;
  int32_t groups;                                   /* 0 means 1; only 1 */
  int32_t stride_height, stride_width;              /* 0 means 1; at most 1024 */
  int32_t dilation_height, dilation_width;          /* 0 means 1; at most 1024 */
  int32_t pad_top, pad_bottom, pad_left, pad_right; /* pixels of zeros, each 0 to 1024 */
} sinter_conv2d_options;
/* x [batch, height, width, in] (NHWC) with the filter w -> f32 [batch, p, q, out], p = (height +
 * pads - dilation (filter height - 1) - 1) / stride + 1, rounded down. Cross-correlation: the
 * filter is not flipped. Only the batch may be SINTER_DIM_M. A filter of one pixel, without stride
 * and padding, is the product of x with [in, out]. */
SINTER_API sinter_status sinter_chain_add_conv2d(sinter_chain* chain, sinter_value x,
                                                 sinter_value w,
                                                 const sinter_conv2d_options* options,
                                                 sinter_value* out_value, sinter_error** error);
SINTER_API sinter_status sinter_chain_add_unary(sinter_chain* chain, sinter_unary kind,
                                                sinter_value a, sinter_value* out_value,
                                                sinter_error** error);
/* Equal extents, or one operand of rank 0. The wider floating dtype; f16 with bf16 gives f32. */
SINTER_API sinter_status sinter_chain_add_binary(sinter_chain* chain, sinter_binary kind,
                                                 sinter_value a, sinter_value b,
                                                 sinter_value* out_value, sinter_error** error);
/* -> pred. */
SINTER_API sinter_status sinter_chain_add_compare(sinter_chain* chain, sinter_compare kind,
                                                  sinter_value a, sinter_value b,
                                                  sinter_value* out_value, sinter_error** error);
/* condition ? a : b, element by element; `condition` is pred. */
SINTER_API sinter_status sinter_chain_add_select(sinter_chain* chain, sinter_value condition,
                                                 sinter_value a, sinter_value b,
                                                 sinter_value* out_value, sinter_error** error);
/* The only op that rounds: to nearest even. To s32: toward zero, saturating, NaN gives 0. To pred:
 * != 0. To e4m3: saturating to +-448, NaN kept. To s8: saturating, NaN gives 0. */
SINTER_API sinter_status sinter_chain_add_cast(sinter_chain* chain, sinter_value a,
                                               sinter_dtype dtype, sinter_value* out_value,
                                               sinter_error** error);
/* Extents aligned at the right; an extent of 1, or a missing axis, repeats. */
SINTER_API sinter_status sinter_chain_add_broadcast(sinter_chain* chain, sinter_value a,
                                                    uint32_t rank, const int64_t* dims,
                                                    sinter_value* out_value, sinter_error** error);
/* Result axis i is operand axis permutation[i]. */
SINTER_API sinter_status sinter_chain_add_transpose(sinter_chain* chain, sinter_value a,
                                                    uint32_t rank, const int32_t* permutation,
                                                    sinter_value* out_value, sinter_error** error);
/* The same elements in row-major order; M occurs as often before as after. */
SINTER_API sinter_status sinter_chain_add_reshape(sinter_chain* chain, sinter_value a,
                                                  uint32_t rank, const int64_t* dims,
                                                  sinter_value* out_value, sinter_error** error);
/* Per axis a[start : limit : step]; an axis of extent M is taken whole (0, SINTER_DIM_M, 1).
 * `steps` NULL: all 1. */
SINTER_API sinter_status sinter_chain_add_slice(sinter_chain* chain, sinter_value a, uint32_t rank,
                                                const int64_t* starts, const int64_t* limits,
                                                const int64_t* steps, sinter_value* out_value,
                                                sinter_error** error);
/* 1 to 64 operands of one dtype along an axis of constant extent. */
SINTER_API sinter_status sinter_chain_add_concat(sinter_chain* chain, uint32_t count,
                                                 const sinter_value* operands, int32_t axis,
                                                 sinter_value* out_value, sinter_error** error);

enum { SINTER_REDUCE_KEEPDIMS = 1 };
typedef struct sinter_reduce_options {
  uint32_t struct_size;
  uint32_t flags; /* KEEPDIMS: reduced axes stay with extent 1 */
} sinter_reduce_options;
/* At least one axis, all distinct. Sum and mean give f32 for floating operands. */
SINTER_API sinter_status sinter_chain_add_reduce(sinter_chain* chain, sinter_reduce kind,
                                                 sinter_value a, uint32_t axis_count,
                                                 const int32_t* axes,
                                                 const sinter_reduce_options* options,
                                                 sinter_value* out_value, sinter_error** error);

/* Composites: groups of primitives, expanded as they are added: all of them or none. Results are
 * f32 and unrounded unless said: add the cast that rounds. */

/* gelu_tanh: 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). gelu_erf: 0.5 x (1 + erf(x / sqrt
 * 2)). silu: x s(x). */
SINTER_API sinter_status sinter_chain_add_activation(sinter_chain* chain,
                                                     sinter_activation activation, sinter_value x,
                                                     sinter_value* out_value, sinter_error** error);
/* silu(gate) * up. */
SINTER_API sinter_status sinter_chain_add_swiglu(sinter_chain* chain, sinter_value gate,
                                                 sinter_value up, sinter_value* out_value,
                                                 sinter_error** error);

typedef struct sinter_softmax_options {
  uint32_t struct_size;
  uint32_t flags;    /* none yet */
  double scale;      /* 0 means 1 */
  sinter_value mask; /* broadcast to x; SINTER_NO_VALUE: none */
  int32_t reserved;  /* 0 */
} sinter_softmax_options;
/* softmax(scale * x + mask) along `axis`; a negative axis counts from the end. The row's maximum is
 * taken off first. */
SINTER_API sinter_status sinter_chain_add_softmax(sinter_chain* chain, sinter_value x, int32_t axis,
                                                  const sinter_softmax_options* options,
                                                  sinter_value* out_value, sinter_error** error);

typedef struct sinter_norm_options {
  uint32_t struct_size;
  uint32_t flags;     /* none yet */
  double eps;         /* 0 means 1e-5 in a layernorm, 1e-6 in an rmsnorm; at most 1 */
  sinter_value gamma; /* [last axis]; SINTER_NO_VALUE: none */
  sinter_value beta;  /* [last axis], layernorm only; SINTER_NO_VALUE: none */
} sinter_norm_options;
/* (x - mean) * rsqrt(variance + eps) * gamma + beta over the last axis, biased variance. */
SINTER_API sinter_status sinter_chain_add_layernorm(sinter_chain* chain, sinter_value x,
                                                    const sinter_norm_options* options,
                                                    sinter_value* out_value, sinter_error** error);
/* x * rsqrt(mean(x^2) + eps) * gamma over the last axis. */
SINTER_API sinter_status sinter_chain_add_rmsnorm(sinter_chain* chain, sinter_value x,
                                                  const sinter_norm_options* options,
                                                  sinter_value* out_value, sinter_error** error);
/* Rotary embedding, halves form: (t1, t2) = halves of x's last axis, concat(t1 cos - t2 sin, t2 cos
 * + t1 sin). `cos` and `sin` broadcast to the shape of a half. */
SINTER_API sinter_status sinter_chain_add_rope(sinter_chain* chain, sinter_value x,
                                               sinter_value cos, sinter_value sin,
                                               sinter_value* out_value, sinter_error** error);
/* gates [.., 4h] = slices i, f, j, o; c [.., h]: c' = s(f) c + s(i) tanh(j), h' = s(o) tanh(c'). */
SINTER_API sinter_status sinter_chain_add_lstm_cell(sinter_chain* chain, sinter_value gates,
                                                    sinter_value c, sinter_value* out_h,
                                                    sinter_value* out_c, sinter_error** error);
/* xg, hg [.., 3h], h [.., h]: r = s(xg0 + hg0), z = s(xg1 + hg1), n = tanh(xg2 + r hg2); (1 - z) n
 * + z h. */
SINTER_API sinter_status sinter_chain_add_gru_cell(sinter_chain* chain, sinter_value xg,
                                                   sinter_value hg, sinter_value h,
                                                   sinter_value* out_value, sinter_error** error);

typedef struct sinter_linear_options {
  uint32_t struct_size;
  uint32_t flags; /* SINTER_ACCUMULATE_FAST, of scaled_matmul alone */
  sinter_layout layout;
  sinter_activation activation;
  sinter_value bias; /* [out]; SINTER_NO_VALUE: none */
  int32_t reserved;  /* 0 */
} sinter_linear_options;
/* activation(x W + bias): x [.., in], W by `layout`. */
SINTER_API sinter_status sinter_chain_add_linear(sinter_chain* chain, sinter_value x,
                                                 sinter_value w,
                                                 const sinter_linear_options* options,
                                                 sinter_value* out_value, sinter_error** error);

typedef struct sinter_gemm_chain_options {
  uint32_t struct_size;
  uint32_t flags; /* SINTER_ACCUMULATE_FAST, of scaled_gemm_chain alone */
  sinter_layout layout;
  sinter_activation activation;
  sinter_value bias1; /* [n]; SINTER_NO_VALUE: none */
  sinter_value bias2; /* [l]; SINTER_NO_VALUE: none */
} sinter_gemm_chain_options;
/* c = activation(a w1 + bias1), unrounded; the result is c w2 + bias2, cast to a's dtype. a [m, k];
 * w1 [n, k] and w2 [l, n] (oi) or [k, n] and [n, l] (io); result [m, l]. FlashFuser's chain of two
 * products. Plans call c and the result "c" and "out". */
SINTER_API sinter_status sinter_chain_add_gemm_chain(sinter_chain* chain, sinter_value a,
                                                     sinter_value w1, sinter_value w2,
                                                     const sinter_gemm_chain_options* options,
                                                     sinter_value* out_value, sinter_error** error);

typedef struct sinter_gated_ffn_options {
  uint32_t struct_size;
  uint32_t flags; /* SINTER_ACCUMULATE_FAST, of scaled_gated_ffn alone */
  sinter_layout layout;
  sinter_activation activation;
  sinter_value bias_gate; /* [n]; both or neither of bias_gate and bias_up */
  sinter_value bias_up;   /* [n] */
  sinter_value bias2;     /* [l]; SINTER_NO_VALUE: none */
  int32_t reserved;       /* 0 */
} sinter_gated_ffn_options;
/* c = activation(a w_gate + bias_gate) * (a w_up + bias_up), unrounded; the result is
 * c w_down + bias2, cast to a's dtype. Shapes as sinter_chain_add_gemm_chain. A merged gate-up
 * weight is two pointers into it. Plans call w_gate and bias_gate "w1" and "bias1", and w_down
 * "w2". FlashFuser's gated FFN. */
SINTER_API sinter_status sinter_chain_add_gated_ffn(sinter_chain* chain, sinter_value a,
                                                    sinter_value w_gate, sinter_value w_up,
                                                    sinter_value w_down,
                                                    const sinter_gated_ffn_options* options,
                                                    sinter_value* out_value, sinter_error** error);

/* Codes of 8 bits and the f32 scale that turns them back: code * scale. The scale's extents say
 * what shares a value: [] (all); [rows, 1]; [rows, k / 128] and [1, k / 128] (128 of a row); of
 * weights also [ceil(n / 128), k / 128]. Its strides are its own: row-major, MN-major. */
typedef struct sinter_scaled {
  sinter_value codes, scale;
} sinter_scaled;
enum { SINTER_SCALE_TENSOR = 1, SINTER_SCALE_ROW, SINTER_SCALE_GROUP, SINTER_SCALE_STATIC };
enum { SINTER_QUANTIZE_UE8M0 = 1 };
typedef struct sinter_quantize_options {
  uint32_t struct_size;
  uint32_t flags;            /* UE8M0: the scale is the next power of two */
  int32_t granularity;       /* SINTER_SCALE_*; 0 means ROW */
  sinter_dtype codes;        /* E4M3 or S8; 0 means E4M3 */
  double eps, upper_bound;   /* 0 means 1e-10; 0 means none */
  sinter_value static_scale; /* f32 of rank 0, of STATIC alone; SINTER_NO_VALUE: none */
  int32_t reserved;          /* 0 */
} sinter_quantize_options;
/* scale = max(min(amax, upper_bound), eps) / F: amax is the largest |x| of x, a row (last axis) or
 * a GROUP of 128, F is 448, of s8 127. The codes are x / scale, cast. NaN makes its scale NaN. */
SINTER_API sinter_status sinter_chain_add_quantize(sinter_chain* chain, sinter_value x,
                                                   const sinter_quantize_options* options,
                                                   sinter_scaled* out_scaled, sinter_error** error);
/* A flag of the options of the three below: sums of e4m3 codes may stay in the tensor cores, which
 * keep 13 fraction bits: faster, less exact as k grows (docs/numerics.md). Without it, sums of 128
 * of k are added in f32. SINTER_INVALID_ARGUMENT for s8, whose sums are exact, and where a scale
 * has a value for each 128 of k. */
enum { SINTER_ACCUMULATE_FAST = 1 };
/* As linear, gemm_chain and gated_ffn, unrounded, layout OI, codes alike; C is quantised. */
SINTER_API sinter_status sinter_chain_add_scaled_matmul(sinter_chain* chain, sinter_scaled a,
                                                        sinter_scaled w,
                                                        const sinter_linear_options* options,
                                                        sinter_value* out_value,
                                                        sinter_error** error);
SINTER_API sinter_status sinter_chain_add_scaled_gemm_chain(
    sinter_chain* chain, sinter_scaled a, sinter_scaled w1, sinter_scaled w2,
    const sinter_quantize_options* quantize, const sinter_gemm_chain_options* options,
    sinter_value* out_value, sinter_error** error);
SINTER_API sinter_status sinter_chain_add_scaled_gated_ffn(
    sinter_chain* chain, sinter_scaled a, sinter_scaled w_gate, sinter_scaled w_up,
    sinter_scaled w_down, const sinter_quantize_options* quantize,
    const sinter_gated_ffn_options* options, sinter_value* out_value, sinter_error** error);

typedef struct sinter_output_options {
  uint32_t struct_size;
  uint32_t flags;         /* none yet */
  const int64_t* strides; /* in elements, one per axis; NULL: contiguous; must not overlap */
  const int32_t* stride_m_powers; /* as in sinter_input_options */
  sinter_value alias; /* an input whose buffer this output may share; SINTER_NO_VALUE: none */
  int32_t reserved;   /* 0 */
} sinter_output_options;
/* Declares the next output. A value may be given out more than once. */
SINTER_API sinter_status sinter_chain_add_output(sinter_chain* chain, sinter_value value,
                                                 const sinter_output_options* options,
                                                 sinter_error** error);
/* Checks the whole (an output exists, no value is dead) and freezes the chain: from here on it is
 * immutable and thread-safe, and adds are SINTER_FAILED_PRECONDITION. Thread-compatible. */
SINTER_API sinter_status sinter_chain_finish(sinter_chain* chain, sinter_error** error);

/* One buffer of a finished chain. */
typedef struct sinter_tensor_info {
  uint32_t struct_size;
  uint32_t flags; /* SINTER_INPUT_CONSTANT */
  sinter_dtype dtype;
  uint32_t rank;
  uint64_t bytes;                   /* from the first element to the end of the last */
  int64_t dims[SINTER_MAX_RANK];    /* M filled in */
  int64_t strides[SINTER_MAX_RANK]; /* elements, M filled in */
  const char* name;                 /* borrowed from the chain; "" without one */
} sinter_tensor_info;
/* 0 for NULL and for a chain that is not finished. Thread-safe. */
SINTER_API uint32_t sinter_chain_get_input_count(const sinter_chain* chain);
SINTER_API uint32_t sinter_chain_get_output_count(const sinter_chain* chain);
/* Whether M occurs: launches then take one symbol value. Thread-safe. */
SINTER_API int32_t sinter_chain_uses_m(const sinter_chain* chain);
/* Buffer `index`, inputs in the order of their adds, then outputs as declared, at M = `m`.
 * Thread-safe. */
SINTER_API sinter_status sinter_chain_get_buffer(const sinter_chain* chain, uint32_t index,
                                                 int64_t m, sinter_tensor_info* info,
                                                 sinter_error** error);

/* ---------------------------------------------------------------- Prepare
 * The slow part: plan key, cache tiers, and on a miss search, code generation, compile and publish;
 * then the kernels are loaded. A plan serves every m up to its bucket: the smallest of 1 8 16 32 48
 * 64 96 128 160 192 224 256 320 384 448 512 576 640 704 768 832 896 960 1024 1152 1280 1408 1536
 * 1664 1792 1920 2048 2304 2560 2816 3072 3328 3584 3840 4096 4608 5120 5632 6144 6656 7168 7680
 * 8192 that is >= m; above 8192 the largest bucket loops. All since 0.1. */

/* Ends calls that were given it. Thread-safe. */
SINTER_API sinter_status sinter_cancel_create(sinter_cancel** out_cancel, sinter_error** error);
SINTER_API void sinter_cancel_retain(const sinter_cancel* cancel);
SINTER_API void sinter_cancel_release(const sinter_cancel* cancel);
SINTER_API void sinter_cancel_request(sinter_cancel* cancel);

typedef int32_t sinter_choice;
enum {
  SINTER_CHOICE_BEST = 0,   /* the better of fused and unfused */
  SINTER_CHOICE_FUSED = 1,  /* for measuring: SINTER_ERROR_NO_LEGAL_PLAN when nothing fuses */
  SINTER_CHOICE_UNFUSED = 2 /* for measuring: one kernel per product */
};

enum {
  SINTER_PREPARE_BATCH_INVARIANT = 1, /* as sinter_context_options.batch_invariant, for this plan */
  SINTER_PREPARE_MUST_HIT = 2,        /* as sinter_context_options.must_hit */
  SINTER_PREPARE_VERIFY = 4,          /* as sinter_context_options.verify */
  /* Only what is there: a plan that lives in this context, or one of which every kernel lies in a
   * tier. Else, with SINTER_STAND_INS=1 on a GPU, a plan named "stand-in" of the library's own
   * kernels; else SINTER_NOT_FOUND, which says why. Nothing is compiled: sinter_prepare_async.
   * Wins over must-hit, whose error also looks for the nearest entry. */
  SINTER_PREPARE_NO_BUILD = 8
};
typedef struct sinter_prepare_options {
  uint32_t struct_size;
  uint32_t flags;
  int64_t deadline_us; /* from the call; 0: none. SINTER_DEADLINE_EXCEEDED; what was finished stays
                          cached */
  sinter_cancel* cancel;             /* NULL: none. Kept for the call. SINTER_CANCELLED */
  sinter_progress_callback progress; /* NULL: none */
  uintptr_t progress_user_data;
  /* NULL, or the stream that the plan is meant for: if it captures, the call does nothing and
   * returns SINTER_ERROR_STREAM_CAPTURING. Preparing itself breaks no capture on any thread */
  sinter_stream stream;
  sinter_choice choice;
  uint32_t threads; /* sinter_prepare_many: so many at once; 0: one a processor, at most 16 */
} sinter_prepare_options;

/* A plan for `chain` (finished) serving m rows, 0 to 2^31 - 1; m is ignored when the chain has no
 * M. Equal chains share one plan. Blocks. Errors beside those of the options:
 * SINTER_ERROR_NO_LEGAL_PLAN, SINTER_ERROR_COMPILE_FAILED, SINTER_UNAVAILABLE (a miss without a
 * run-time compiler), SINTER_ERROR_DRIVER. A damaged, locked or unwritable cache is never an error.
 * Thread-safe: one thread builds a key, others wait for it. exit() ends it: SINTER_CANCELLED. */
SINTER_API sinter_status sinter_prepare(sinter_context* context, const sinter_chain* chain,
                                        int64_t m, const sinter_prepare_options* options,
                                        sinter_plan** out_plan, sinter_error** error);
/* `count` of them in parallel. out_plans[i] is the plan or NULL, out_statuses[i] (the array may be
 * NULL) its status. Returns the first status by index that is not OK, after all have ended; the
 * error names the index. The deadline is of the whole call. Thread-safe. */
SINTER_API sinter_status sinter_prepare_many(sinter_context* context, uint32_t count,
                                             const sinter_chain* const* chains, const int64_t* ms,
                                             const sinter_prepare_options* options,
                                             sinter_plan** out_plans, sinter_status* out_statuses,
                                             sinter_error** error);
/* Starts a prepare on a thread of its own. Argument errors come at once, all others from
 * sinter_pending_get. */
SINTER_API sinter_status sinter_prepare_async(sinter_context* context, const sinter_chain* chain,
                                              int64_t m, const sinter_prepare_options* options,
                                              sinter_pending** out_pending, sinter_error** error);
SINTER_API void sinter_pending_retain(const sinter_pending* pending); /* Thread-safe. */
/* The last release cancels the prepare and waits for its thread. Thread-safe. */
SINTER_API void sinter_pending_release(const sinter_pending* pending);
/* 1 when finished (or NULL), 0 when under way. Never blocks. Thread-safe. */
SINTER_API int32_t sinter_pending_poll(const sinter_pending* pending);
/* Waits at most `timeout_us` (< 0: without limit) and gives a new reference to the plan, or the
 * prepare's error; SINTER_DEADLINE_EXCEEDED when it is still under way. May be called again.
 * Thread-safe. */
SINTER_API sinter_status sinter_pending_get(const sinter_pending* pending, int64_t timeout_us,
                                            sinter_plan** out_plan, sinter_error** error);
/* Tells that a prepare has ended, with the status that sinter_pending_get gives without waiting.
 * `pending` is borrowed for the call, and NULL when its last reference was released meanwhile. */
typedef void (*sinter_ready_callback)(uintptr_t user_data, const sinter_pending* pending,
                                      sinter_status status);
/* Calls `callback` exactly once: on the thread of the prepare when that ends, also when a release
 * ends it, then before that release returns; or here and now if it has ended. It may call the
 * library and release `pending`: a last release inside it does not wait. Several may be asked for;
 * they are called in order. SINTER_FAILED_PRECONDITION in the child of a fork. Thread-safe.
 * Since 0.1. */
SINTER_API sinter_status sinter_pending_on_ready(const sinter_pending* pending,
                                                 sinter_ready_callback callback,
                                                 uintptr_t user_data, sinter_error** error);
/* A descriptor for poll, epoll or an event loop: readable for good once the prepare has ended, read
 * or not. It belongs to `pending` and is closed with it: take it out of the loop before the last
 * release. -1: NULL, the child of a fork, or none to be had. Thread-safe. Since 0.1. */
SINTER_API int32_t sinter_pending_get_fd(const sinter_pending* pending);

/* A slot always holds the best plan so far, for callers that must not wait. Nothing that a plan,
 * binding or graph holds ever changes: to take a better plan in, acquire it, bind, capture anew.
 * Generations: 0 is no plan; 1 stands in, with a digest of its own, current from the start; 2 is
 * the final plan, and each that is offered has one more. All are thread-safe. All since 0.1. */
/* A plan then becomes current by sinter_slot_switch alone. Ranks all-reduce (min) generations
 * between two steps; at each new one from 2 on all switch, before the next plan is offered. */
enum { SINTER_SLOT_MANUAL = 1 };
/* Looks up as SINTER_PREPARE_NO_BUILD does, which must not be among `options`. A hit is current at
 * once. A miss starts one build in the background, on a thread of low priority; a context runs
 * SINTER_COMPILE_THREADS (2) of them at a time. Its end makes the plan current. A failure is kept,
 * and not tried again: create another slot. Options are the build's. Errors of sinter_prepare. */
SINTER_API sinter_status sinter_slot_create(sinter_context* context, const sinter_chain* chain,
                                            int64_t m, const sinter_prepare_options* options,
                                            uint32_t flags, sinter_slot** out_slot,
                                            sinter_error** error);
SINTER_API void sinter_slot_retain(const sinter_slot* slot);
SINTER_API void sinter_slot_release(const sinter_slot* slot); /* As sinter_pending_release. */
/* A new reference to the current plan. Wait-free. SINTER_NOT_FOUND: none yet; else the build's
 * error, or SINTER_FAILED_PRECONDITION in the child of a fork that left the build behind. */
SINTER_API sinter_status sinter_slot_acquire(const sinter_slot* slot, sinter_plan** out_plan,
                                             sinter_error** error);
/* The highest that is there, current or not. Wait-free; 0 for NULL. */
SINTER_API uint64_t sinter_slot_get_generation(const sinter_slot* slot);
/* Another context's plan, say by a newer tuning set, in the place of the slot's: for its chain,
 * bucket and device, and no stand-in. SINTER_INVALID_ARGUMENT names what differs;
 * SINTER_FAILED_PRECONDITION: the slot's build is under way, or a fork left it behind. */
SINTER_API sinter_status sinter_slot_offer(const sinter_slot* slot, sinter_plan* plan,
                                           sinter_error** error);
/* Makes the newest plan current; errors as of acquire. Only with SINTER_SLOT_MANUAL. */
SINTER_API sinter_status sinter_slot_switch(const sinter_slot* slot, sinter_error** error);
/* A new reference to the build, ended after a hit: to be called, wait, read its error. */
SINTER_API sinter_status sinter_slot_get_build(const sinter_slot* slot, sinter_pending** out_build,
                                               sinter_error** error);

/* Choices that were measured: what sinter_tune adds to, what a context reads. An entry belongs to a
 * chain, a bucket, a chip and flags, and holds the plan's schedules, what it was predicted and
 * measured to take, and the device, seed and error of its check. A set's text form is canonical: no
 * times, no paths, sorted, ended by the SHA-256 of the rest, which is the set's digest.
 * An entry is used as long as its kernels are the ones that were measured: their source, the device
 * code it includes, their options and launch are compared. A new library, search or cost model
 * leaves it standing; a changed kernel does not, and is chosen by prediction until it is tuned
 * again. */
typedef struct sinter_tuning_set sinter_tuning_set;
/* An empty set. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_tuning_set_create(sinter_tuning_set** out_set,
                                                  sinter_error** error);
SINTER_API void sinter_tuning_set_retain(const sinter_tuning_set* set);  /* Thread-safe. */
SINTER_API void sinter_tuning_set_release(const sinter_tuning_set* set); /* Thread-safe. */
/* Adds the entries of a file; they replace equal ones. SINTER_INVALID_ARGUMENT with path and reason
 * when it cannot be read, is damaged or of another format. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_tuning_set_add_file(sinter_tuning_set* set, const char* path,
                                                    sinter_error** error);
/* Writes a new file and renames it to `path`: a reader sees the old file or the new one.
 * SINTER_INVALID_ARGUMENT with path and reason. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_tuning_set_write(const sinter_tuning_set* set, const char* path,
                                                 sinter_error** error);
/* Entries; 0 for NULL. Thread-safe. Since 0.1. */
SINTER_API uint64_t sinter_tuning_set_get_count(const sinter_tuning_set* set);
/* Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_tuning_set_get_digest(const sinter_tuning_set* set,
                                                      uint8_t out_digest[32], sinter_error** error);

enum {
  SINTER_TUNE_BATCH_INVARIANT = 1, /* for plans prepared so */
  SINTER_TUNE_KEEP = 2             /* an entry of `into` that can still be used stays, unmeasured */
};
typedef struct sinter_tune_options {
  uint32_t struct_size;
  uint32_t flags;
  int64_t deadline_us;  /* 0: none. What was measured by then decides; SINTER_DEADLINE_EXCEEDED when
                           nothing was */
  int32_t top_k;        /* candidates built and measured; 0 means 11 */
  int32_t reserved;     /* 0 */
  double switch_margin; /* a tuned choice must be faster by this fraction; 0 means 0.02 */
  sinter_stream stream; /* as in sinter_prepare_options */
  sinter_tuning_set* into; /* NULL, or the set that receives the choice, fused or not, switched or
                              not. Kept for the call */
} sinter_tune_options;
/* Builds the best-ranked candidates and the unfused plan in parallel, checks each against the
 * unfused plan and measures it on the context's GPU: constants rotate over more than 240 MB. What
 * won is checked against the reference and added to `into`. Changes no plan, here or elsewhere: a
 * context takes a choice only from the tuning set that it was created with. SINTER_UNAVAILABLE
 * without a GPU; SINTER_FAILED_PRECONDITION when no candidate could be measured. Blocks.
 * Thread-safe, but two at once disturb each other's times. */
SINTER_API sinter_status sinter_tune(sinter_context* context, const sinter_chain* chain, int64_t m,
                                     const sinter_tune_options* options, sinter_error** error);

/* ---------------------------------------------------------------- Plan
 * Immutable; all thread-safe. All since 0.1. */

SINTER_API void sinter_plan_retain(const sinter_plan* plan);
SINTER_API void sinter_plan_release(const sinter_plan* plan);
/* SHA-256 of the plan chosen and of the tuning set that it was chosen with: equal wherever chain,
 * bucket, device model, library version, tuning set and options are, so ranks that compare it know
 * that they agree. A fallback on one GPU does not change it; it is counted in sinter_stats. */
SINTER_API sinter_status sinter_plan_get_digest(const sinter_plan* plan, uint8_t out_digest[32],
                                                sinter_error** error);
/* The largest m that one pass serves; 0 for NULL. */
SINTER_API int64_t sinter_plan_get_bucket(const sinter_plan* plan);
/* Buffers that a bind takes: the chain's inputs and outputs; 0 for NULL. */
SINTER_API uint32_t sinter_plan_get_buffer_count(const sinter_plan* plan);
/* Bytes of workspace; may be 0. */
SINTER_API uint64_t sinter_plan_get_workspace_size(const sinter_plan* plan);
/* Enqueues the zeroing of a workspace, once before its first use. A workspace serves one plan on
 * one stream at a time; an aborted launch does not spoil it. Legal in capture. SINTER_UNAVAILABLE
 * without a GPU. */
SINTER_API sinter_status sinter_plan_init_workspace(const sinter_plan* plan,
                                                    sinter_device_ptr workspace, uint64_t bytes,
                                                    sinter_stream stream, sinter_error** error);
/* Text: the plan on one screen (drawing, bytes and time per level, cache), then what lost and why,
 * then the device model's constants with their sources. Two-call pattern. */
SINTER_API sinter_status sinter_plan_explain(const sinter_plan* plan, size_t capacity, char* buffer,
                                             size_t* required, sinter_error** error);

/* ---------------------------------------------------------------- Bind and launch
 * Nothing here compiles, reads a file, synchronises or changes the current context; all are
 * thread-safe. All since 0.1. */

/* Checks alignment and encodes tensor maps once. `buffers`: the chain's inputs in the order of
 * their adds, then its outputs. The memory stays the caller's and must outlive every launch.
 * `workspace` may be 0 when its size is. */
SINTER_API sinter_status sinter_plan_bind(const sinter_plan* plan, uint32_t buffer_count,
                                          const sinter_device_ptr* buffers,
                                          sinter_device_ptr workspace, sinter_binding** out_binding,
                                          sinter_error** error);
SINTER_API void sinter_binding_retain(const sinter_binding* binding);
SINTER_API void sinter_binding_release(const sinter_binding* binding);

/* SINTER_LAUNCH_PDL: the first kernel may start before the kernel ahead on the stream has ended
 * (programmatic dependent launch); until that one's results are there it reads only constants. */
enum { SINTER_LAUNCH_PDL = 1 };
/* Enqueues the plan's kernels; allocates nothing. `symbols`: one value, M, when the chain uses it;
 * else count 0. M = 0 enqueues nothing. Legal in capture: the plan then lives as long as the graph.
 * SINTER_OUT_OF_RANGE: M is above the bucket (unless the bucket is the largest). SINTER_UNAVAILABLE
 * without a GPU. */
SINTER_API sinter_status sinter_binding_launch(const sinter_binding* binding, sinter_stream stream,
                                               uint32_t symbol_count, const int64_t* symbols,
                                               uint32_t flags, sinter_error** error);
/* Bind and launch in one call, for buffers that change every time. */
SINTER_API sinter_status sinter_plan_launch(const sinter_plan* plan, sinter_stream stream,
                                            uint32_t symbol_count, const int64_t* symbols,
                                            uint32_t buffer_count, const sinter_device_ptr* buffers,
                                            sinter_device_ptr workspace, uint32_t flags,
                                            sinter_error** error);

/* ---------------------------------------------------------------- Graphs
 * Launches as flat kernel nodes of a caller's graph, without a capture. All since 0.1. */

/* The caller's CUgraph, CUgraphNode and CUgraphExec, or those of the runtime API. */
typedef struct CUgraph_st* sinter_graph;
typedef struct CUgraphNode_st* sinter_graph_node;
typedef struct CUgraphExec_st* sinter_graph_exec;
/* What one add made. It keeps the plan, not the graph. */
typedef struct sinter_graph_nodes sinter_graph_nodes;

/* SINTER_GRAPH_PDL: as SINTER_LAUNCH_PDL, behind those of the dependencies that are kernels. */
enum { SINTER_GRAPH_PDL = 1 };
/* Adds to `graph` what sinter_binding_launch would enqueue, behind `dependencies`, nodes of it. The
 * nodes depend on one another in order, by the edges that a capture would give. M = 0 adds one
 * empty node. Arguments are copied. The graph and what is instantiated from it keep the plan;
 * buffers and workspace must outlive them. On failure the graph has no node more.
 * SINTER_UNIMPLEMENTED: a driver older than CUDA 12.3; capture a launch instead. Thread-compatible
 * for the graph. */
SINTER_API sinter_status sinter_binding_add_to_graph(const sinter_binding* binding,
                                                     sinter_graph graph, uint32_t dependency_count,
                                                     const sinter_graph_node* dependencies,
                                                     uint32_t symbol_count, const int64_t* symbols,
                                                     uint32_t flags, sinter_graph_nodes** out_nodes,
                                                     sinter_error** error);
SINTER_API void sinter_graph_nodes_retain(const sinter_graph_nodes* nodes);
SINTER_API void sinter_graph_nodes_release(const sinter_graph_nodes* nodes);
/* How many there are: 1 or more; 0 for NULL. Thread-safe. */
SINTER_API uint32_t sinter_graph_nodes_get_count(const sinter_graph_nodes* nodes);
/* Node `index`, in the order in which they run; the last ends the plan. NULL beyond them.
 * Thread-safe. */
SINTER_API sinter_graph_node sinter_graph_nodes_get(const sinter_graph_nodes* nodes,
                                                    uint32_t index);
/* New buffers and another M, in an instance of the graph: the arguments of `binding`, of the plan
 * that the nodes run, for its next launches; about a microsecond a node. One instance so serves
 * every M of a bucket. The nodes must still be in their graph. SINTER_FAILED_PRECONDITION, with
 * nothing changed, where the graph must be built anew: another plan, whose clusters may differ
 * (cuGraphExecUpdate would keep the old ones), or an M that takes another number of passes, as 0
 * and those above 8192 do. After SINTER_ERROR_DRIVER some nodes may have the new arguments.
 * Thread-compatible for the instance, which must not be in a launch call meanwhile. */
SINTER_API sinter_status sinter_graph_nodes_update(const sinter_graph_nodes* nodes,
                                                   sinter_graph_exec exec,
                                                   const sinter_binding* binding,
                                                   uint32_t symbol_count, const int64_t* symbols,
                                                   sinter_error** error);

#ifdef __cplusplus
}
#endif

#endif /* SINTER_SINTER_H_ */
