/* Sinter: fuses chains of GPU operators on NVIDIA Hopper, at run time, behind a C ABI.
 *
 * One path: describe a chain (sinter_chain_*, sinter_chain.h), prepare a plan for it
 * (sinter_prepare: cache look-up, or search, generate and compile), bind buffers
 * (sinter_plan_bind), launch (sinter_binding_launch).
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
 * otherwise, must not call back into the library. An exception that leaves one is an error: one of
 * a progress callback ends the call with SINTER_INTERNAL, one of a ready callback does so where
 * sinter_pending_on_ready calls at once, else it is an error in the log; one of a log callback goes
 * to standard error.
 */
#ifndef SINTER_SINTER_H_
#define SINTER_SINTER_H_

#include "sinter/sinter_chain.h"
#include "sinter/sinter_group.h"
#include "sinter/sinter_types.h"

#define SINTER_VERSION_MAJOR 0
#define SINTER_VERSION_MINOR 1
#define SINTER_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- Library */

/* major * 10000 + minor * 100 + patch of the library itself. Thread-safe. Since 0.1. */
SINTER_API uint32_t sinter_version(void);
/* One line: version, compiler, build type. Static storage. Thread-safe. Since 0.1. */
SINTER_API const char* sinter_build_info(void);
/* "INVALID_ARGUMENT"; "UNKNOWN_STATUS" for a number that does not name a status. Static storage.
 * Thread-safe. Since 0.1. */
SINTER_API const char* sinter_status_name(sinter_status status);

/* ---------------------------------------------------------------- Errors */

/* All of them thread-safe; results are borrowed from the error. Since 0.1. */
SINTER_API void sinter_error_retain(const sinter_error* error);
SINTER_API void sinter_error_release(const sinter_error* error);
/* The status that the call returned; SINTER_INVALID_ARGUMENT when `error` is NULL or no error. */
SINTER_API sinter_status sinter_error_get_code(const sinter_error* error);
/* One lower-case line that names the op, the field, the value and the bound; "" for NULL. */
SINTER_API const char* sinter_error_get_message(const sinter_error* error);
/* What the message names, for programs, which never need to read it. Each is there as the message
 * has it. The number of the op: of an add that failed, the values that the chain had; of a finished
 * chain, by its canonical order, which sinter_x_chain_to_text shows. -1: the error is NULL, or does
 * not name an op. */
SINTER_API int32_t sinter_error_get_op(const sinter_error* error);
/* The argument, option or operand, such as "prepare.measure" or "axis". NULL: none. */
SINTER_API const char* sinter_error_get_field(const sinter_error* error);
/* What the field is, such as "65". NULL: none. */
SINTER_API const char* sinter_error_get_value(const sinter_error* error);
/* What it must be, such as "in [-1, 64]". NULL: none. */
SINTER_API const char* sinter_error_get_bound(const sinter_error* error);
/* The CUresult that caused SINTER_ERROR_DRIVER, else 0. */
SINTER_API int32_t sinter_error_get_driver_result(const sinter_error* error);
/* The compiler's log of SINTER_ERROR_COMPILE_FAILED, else "". */
SINTER_API const char* sinter_error_get_compile_log(const sinter_error* error);

/* ---------------------------------------------------------------- Context */

/* Each field left at its default follows its environment variable, read once, at creation; a field
 * that is set wins. */
typedef struct sinter_context_options {
  uint32_t struct_size;
  uint32_t flags;             /* none yet */
  int32_t device;             /* GPU ordinal of the driver; ignored with a target */
  sinter_log_level log_level; /* SINTER_LOG=off|error|warn|info|debug */
  const char* target;         /* NULL: use `device`. "h200", "h100", in letters of either case, or a
                                 model's text: prepare for it, no GPU used */
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
   * join columns. A chain without M is planned as ever. It costs time: docs/batch-invariant.md. */
  sinter_switch batch_invariant;
  sinter_switch verify; /* SINTER_VERIFY=1: check a new kernel against the plain plan at its first
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
  const char* cache_store;       /* SINTER_CACHE_STORE: "tables"; versions before knew
                                    "leveldb-db", now SINTER_INVALID_ARGUMENT */
  uint64_t cache_max_bytes; /* SINTER_CACHE_MAX_BYTES=2GiB: cap of cache_dir; 0: 2 GiB. The least
                               recently used records are evicted first */
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
  /* SINTER_SLOT_MEASURE=1: slots measure the best 11 plans by prediction and the plain one, on the
   * GPU, in the background: see sinter_slot_create. The fastest is kept in the cache, and prepares
   * of contexts with this option take it from there. It has no effect with a tuning set, which then
   * decides. */
  sinter_switch slot_measure;
  /* SINTER_MEASURE=11: what prepares take for sinter_prepare_options.measure, in [-1, 64]; 0: the
   * environment's, else none; -1: none. Where nothing can be measured (no GPU, must-hit, ranks, no
   * memory), such prepares take the measured choice that the cache has, else the predicted plan.
   * Slots measure too, as with slot_measure. No effect with a tuning set. */
  int32_t measure;
} sinter_context_options;

/* Opens `device`, or a target without one. The GPU's primary context is retained and never made
 * current for the caller: every call restores the caller's current context, and works without one.
 * SINTER_UNAVAILABLE: no driver or no such GPU. SINTER_FAILED_PRECONDITION: a GPU before sm_80.
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
  double gpu_time_saved_us;     /* over all launches: the unfused plan's time minus the time of the
                                   plan that ran, measured if both were, else predicted. Replays of
                                   captured graphs are not seen */
  uint64_t modules_loaded;      /* on the GPU now, in use or not */
  uint64_t module_bytes;        /* their code */
  uint64_t modules_unloaded;    /* so far */
  uint64_t slots_building;      /* slots whose plan is being built, or queued for it */
  uint64_t slot_upgrades, slot_failures; /* plans that became current; builds that failed */
  uint64_t slots_measuring;              /* plans that are being measured for slots */
  uint64_t slot_measurements;            /* that were measured here */
  uint64_t slot_measured_wins;           /* of them, where another than the predicted one won */
  uint64_t slot_measurements_given_up;   /* no memory, no clear times, or the slot was released; the
                                            predicted plan stays */
  uint64_t prepare_failures;      /* failed prepares, except misses of SINTER_PREPARE_NO_BUILD */
  uint64_t must_hit_misses;       /* of them, those that failed with SINTER_ERROR_CACHE_MISS */
  uint64_t measurements;          /* plans that prepares measured */
  uint64_t measured_wins;         /* of them, where another than the predicted one won */
  uint64_t measurements_given_up; /* no memory, no clear times, cancelled, or out of time */
} sinter_stats;

/* Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_context_get_stats(const sinter_context* context,
                                                  sinter_stats* stats, sinter_error** error);
/* The counters as Prometheus text, format 0.0.4, which docs/serving.md lists. They move between two
 * calls: call again while *required > capacity. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_context_write_metrics(const sinter_context* context,
                                                      size_t capacity, char* buffer,
                                                      size_t* required, sinter_error** error);

/* ---------------------------------------------------------------- Prepare
 * The slow part: plan key, cache tiers, and on a miss search, code generation, compile and publish;
 * then the kernels are loaded. A plan serves every m up to its bucket: the smallest of 1 8 16 32 48
 * 64 80 96 112 128 that is >= m; above 128 the next multiple of a sixteenth of the octave, 136 144
 * .. 256 272 .. 512 544 .. 8192; above 8192 the largest bucket takes them, at once where its one
 * kernel can, else in passes. All since 0.1. */

/* Ends calls that were given it. Thread-safe. */
SINTER_API sinter_status sinter_cancel_create(sinter_cancel** out_cancel, sinter_error** error);
SINTER_API void sinter_cancel_retain(const sinter_cancel* cancel);
SINTER_API void sinter_cancel_release(const sinter_cancel* cancel);
SINTER_API void sinter_cancel_request(sinter_cancel* cancel);

/* Which plan a prepare chooses. The plain plan has a kernel for each product, with the ops that it
 * absorbs (a bias, an activation, a gate, ..), and one for each other op: ops may share kernels in
 * it, products do not. */
typedef int32_t sinter_choice;
enum {
  SINTER_CHOICE_BEST = 0,   /* the fastest by prediction or measurement */
  SINTER_CHOICE_FUSED = 1,  /* for measuring: any but the plain plan; refused where there is none */
  SINTER_CHOICE_UNFUSED = 2 /* for measuring: the plain plan */
};

enum {
  SINTER_PREPARE_BATCH_INVARIANT = 1, /* as sinter_context_options.batch_invariant, for this plan */
  SINTER_PREPARE_MUST_HIT = 2,        /* as sinter_context_options.must_hit */
  SINTER_PREPARE_VERIFY = 4,          /* as sinter_context_options.verify */
  /* Only a plan that is there: one that lives in this context, or one of which every kernel lies in
   * a tier. Else, on a GPU and not must-hit, a plan named "stand-in" of the library's own kernels;
   * else SINTER_NOT_FOUND, which says why. Nothing is compiled: sinter_prepare_async. Wins over
   * must-hit, whose error also looks for the nearest entry. */
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
  /* How many candidates are built and measured where the cache has no measured choice for the plan
   * yet, in [-1, 64]; 0: as the context says; -1: none, prediction chooses. FlashFuser measures 11.
   * The best by prediction, fused and unfused, and the plain plan run on random data in memory of
   * their own, a third of a GB or twice the constants. Constants are read from memory, as the
   * layers of a model are. Plans that may win are checked against the plain plan, and the winner
   * against the reference. Times at the bucket's rows and at two numbers inside it decide. It takes
   * seconds, in which the GPU should do nothing else; plans of a process are measured one by one.
   * The choice is kept in the cache, goes into packs and to the fleet, and serves all prepares that
   * ask for a measured one. The plan's explanation says what it gained. Refused, if measure is
   * above 0 here: with a tuning set, another choice than SINTER_CHOICE_BEST or
   * SINTER_PREPARE_NO_BUILD, SINTER_INVALID_ARGUMENT; for a chain that is split over ranks, or when
   * the times decide nothing, SINTER_FAILED_PRECONDITION; when no choice is kept and the prepare
   * must hit, SINTER_ERROR_CACHE_MISS, or there is no GPU, SINTER_UNAVAILABLE; without memory for
   * it, SINTER_RESOURCE_EXHAUSTED. A slot measures in the background instead. Since 0.1. */
  int32_t measure;
  int32_t reserved;          /* 0 */
  int64_t measure_budget_us; /* at its end the best measured wins; 0: 20 s. Since 0.1 */
} sinter_prepare_options;

/* A plan for `chain` (finished) serving m rows, 0 to 2^31 - 1; m is ignored when the chain has no
 * M. Equal chains share one plan. Blocks. In addition to the errors of the options it returns
 * SINTER_ERROR_NO_LEGAL_PLAN, SINTER_ERROR_COMPILE_FAILED, SINTER_UNAVAILABLE (a miss without a
 * run-time compiler), SINTER_ERROR_DRIVER. A damaged, locked or unwritable cache is never an error.
 * Thread-safe: one thread builds a key, others wait for it. exit() ends it: SINTER_CANCELLED. */
SINTER_API sinter_status sinter_prepare(sinter_context* context, const sinter_chain* chain,
                                        int64_t m, const sinter_prepare_options* options,
                                        sinter_plan** out_plan, sinter_error** error);
/* What sinter_prepare would choose for `chain` (finished) and m rows, and nothing more: no source
 * is made, no compiler opened, no GPU asked. What the cache knows costs a look-up, else the chain
 * is searched for; a prepare in this context then does not search again (of the last 128 that were
 * not prepared yet). It takes sinter_prepare's options and returns its errors of planning and
 * cache. `measure` takes a measured choice that the cache has and measures nothing;
 * SINTER_PREPARE_VERIFY has no effect. A prepare may run another plan than this one: if the
 * compiler refuses a kernel, or the GPU cannot hold it. Blocks. Thread-safe. Since 0.1. */
SINTER_API sinter_status sinter_context_search(sinter_context* context, const sinter_chain* chain,
                                               int64_t m, const sinter_prepare_options* options,
                                               sinter_search** out_search, sinter_error** error);
SINTER_API void sinter_search_retain(const sinter_search* search);
SINTER_API void sinter_search_release(const sinter_search* search);
/* The bucket of m. All numbers of a search are 0 for NULL, and all its functions thread-safe. */
SINTER_API int64_t sinter_search_get_bucket(const sinter_search* search);
/* Kernels that a launch enqueues. */
SINTER_API uint32_t sinter_search_get_kernel_count(const sinter_search* search);
/* Microseconds of the kernels at the bucket's rows, as the cost model predicts them. */
SINTER_API double sinter_search_get_predicted_us(const sinter_search* search);
/* The same of the plain plan (sinter_choice). */
SINTER_API double sinter_search_get_unfused_us(const sinter_search* search);
/* Bytes of workspace; may be 0. */
SINTER_API uint64_t sinter_search_get_workspace_size(const sinter_search* search);
/* SINTER_CHOICE_UNFUSED for the plain plan, else SINTER_CHOICE_FUSED. */
SINTER_API sinter_choice sinter_search_get_choice(const sinter_search* search);
/* 1 if a measurement chose the plan: a tuning set has it, or the cache. */
SINTER_API int32_t sinter_search_is_measured(const sinter_search* search);
/* "fused", one kernel; "unfused", a kernel for each op; "partly fused". "" for NULL. Borrowed. */
SINTER_API const char* sinter_search_get_name(const sinter_search* search);
/* One line for people: which ops share kernels, and why others do not. "" for none. Borrowed. */
SINTER_API const char* sinter_search_get_note(const sinter_search* search);
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
/* The last release cancels the prepare and waits for its thread and the callbacks that run; inside
 * one of them it does not wait. Thread-safe. */
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
 * library and release `pending`. Several may be asked for;
 * they are called in order. SINTER_FAILED_PRECONDITION in the child of a fork. Thread-safe.
 * Since 0.1. */
SINTER_API sinter_status sinter_pending_on_ready(const sinter_pending* pending,
                                                 sinter_ready_callback callback,
                                                 uintptr_t user_data, sinter_error** error);
/* A descriptor for poll, epoll or an event loop: readable permanently once the prepare has ended,
 * read or not. It belongs to `pending` and is closed with it: take it out of the loop before the
 * last release. -1: NULL, the child of a fork, or none to be had. Thread-safe. Since 0.1. */
SINTER_API int32_t sinter_pending_get_fd(const sinter_pending* pending);

/* A slot always holds the best plan so far, for callers that must not wait. The contents of a plan,
 * a binding and a graph never change: to use a better plan, acquire it, bind and capture again.
 * Generation 0 means that there is no plan. Generation 1 is the stand-in, a plan of prebuilt
 * kernels with its own digest; it is current from the start. Generation 2 is the final plan, and
 * each plan that is offered or measured has one more. All are thread-safe. All since 0.1. */
/* Only sinter_slot_switch then makes a plan current. Ranks all-reduce (min) generations
 * between two steps; at each new one from 2 on all switch, before the next plan is offered. */
enum { SINTER_SLOT_MANUAL = 1 };
/* Looks up as SINTER_PREPARE_NO_BUILD does, which must not be among `options`. A hit is current at
 * once. A miss starts one build in the background, on a thread of low priority; a context runs
 * SINTER_COMPILE_THREADS (2) of them at a time. Its end makes the plan current. A failure is kept,
 * and not tried again: create another slot. Options are the build's. Errors of sinter_prepare.
 * With sinter_context_options.slot_measure or `measure` of `options`, and neither must-hit nor a
 * tuning set, the plan, the best 11, or `measure`, and the plain one are then measured, one chain
 * of a context at a time: on random data and memory of its own (a third of a GB, or twice the
 * constants), which is taken only while a GiB more is free, in slices of some 50 us, or of one run
 * of a longer plan, and for at most 2 % of the time, so that a chain of 50 us takes half a
 * minute. A choice that the cache has is not measured again, here and in other processes. A plan
 * that wins by 2 % in all rounds but one has the slot's next generation; in a manual slot it waits
 * for sinter_slot_switch. Nothing comes of it where a plan was offered meanwhile. Ranks that must
 * be equal compare sinter_plan_get_digest of what sinter_prepare then gives. */
SINTER_API sinter_status sinter_slot_create(sinter_context* context, const sinter_chain* chain,
                                            int64_t m, const sinter_prepare_options* options,
                                            uint32_t flags, sinter_slot** out_slot,
                                            sinter_error** error);
SINTER_API void sinter_slot_retain(const sinter_slot* slot);
SINTER_API void sinter_slot_release(const sinter_slot* slot); /* As sinter_pending_release. */
/* A new reference to the current plan. Wait-free. SINTER_NOT_FOUND: none yet; else the build's
 * error, or SINTER_FAILED_PRECONDITION in the child of a fork that did not carry the build over. */
SINTER_API sinter_status sinter_slot_acquire(const sinter_slot* slot, sinter_plan** out_plan,
                                             sinter_error** error);
/* The highest that is there, current or not. Wait-free; 0 for NULL. */
SINTER_API uint64_t sinter_slot_get_generation(const sinter_slot* slot);
/* Replaces the slot's plan by another context's, for example of a newer tuning set. It must be for
 * the slot's chain, bucket and device, and not a stand-in. SINTER_INVALID_ARGUMENT names what
 * differs; SINTER_FAILED_PRECONDITION: the slot's build is under way, or a fork did not carry it
 * over. */
SINTER_API sinter_status sinter_slot_offer(const sinter_slot* slot, sinter_plan* plan,
                                           sinter_error** error);
/* Makes the newest plan current; errors are acquire's. Only with SINTER_SLOT_MANUAL. */
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
  int64_t deadline_us;     /* 0: none. At the deadline the best measured candidate wins;
                              SINTER_DEADLINE_EXCEEDED when none was measured */
  int32_t top_k;           /* candidates built and measured; 0 means 11 */
  int32_t reserved;        /* 0 */
  double switch_margin;    /* a tuned choice must be faster by this fraction; 0 means 0.02 */
  sinter_stream stream;    /* as in sinter_prepare_options */
  sinter_tuning_set* into; /* NULL, or the set that receives the choice, fused or not, switched or
                              not. Kept for the call */
} sinter_tune_options;
/* Builds the best-ranked candidates and the plain plan in parallel, checks each against the
 * plain plan and measures it on the context's GPU: constants rotate over more than 240 MB. What
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
/* The largest m that a launch takes: the bucket, or 2^31 - 1 of a plan for the chain's largest
 * bucket, which runs in passes, unless kernels take all rows at once. 0 for NULL and for a chain
 * without M. */
SINTER_API int64_t sinter_plan_get_max_m(const sinter_plan* plan);
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
/* Text: the plan on one screen (drawing, bytes and time per level, cache), and the best of what
 * lost and why. Two-call pattern. */
SINTER_API sinter_status sinter_plan_explain(const sinter_plan* plan, size_t capacity, char* buffer,
                                             size_t* required, sinter_error** error);

/* ---------------------------------------------------------------- Bind and launch
 * Nothing here compiles, reads a file, synchronises or changes the current context; all are
 * thread-safe. All since 0.1. */

/* Checks alignment and encodes tensor maps once. `buffers`: the chain's inputs in the order of
 * their adds, then its outputs. The memory stays the caller's and must outlive every launch. An
 * output's buffer must be its own, or the buffer of the input declared as its alias
 * (sinter_output_options). Any other overlap is refused: here, or, if it depends on M, by a
 * launch. A workspace that overlaps a buffer is refused too. If a buffer has strides other than a
 * pitch of rows of M, only its beginning is compared. `workspace` may be 0 when its size is. */
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
 * else count 0. M = 0 enqueues nothing for outputs of rows; an output that has elements without M
 * is written: a sum over no rows is 0, a max -inf, a min +inf (of s32 the least and the largest),
 * a mean NaN. Legal in capture: the plan then lives as long as the graph.
 * SINTER_OUT_OF_RANGE: M is above sinter_plan_get_max_m. SINTER_UNAVAILABLE without a GPU. */
SINTER_API sinter_status sinter_binding_launch(const sinter_binding* binding, sinter_stream stream,
                                               uint32_t symbol_count, const int64_t* symbols,
                                               uint32_t flags, sinter_error** error);
/* Bind and launch in one call, for buffers that change every time. With M = 0 the buffers of rows
 * may be null. */
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

/* SINTER_GRAPH_PDL: as SINTER_LAUNCH_PDL, after the dependencies that are kernels. */
enum { SINTER_GRAPH_PDL = 1 };
/* Adds to `graph` what sinter_binding_launch would enqueue, after `dependencies`, nodes of it. The
 * nodes depend on one another in order, by the edges that a capture would give. M = 0 adds the
 * nodes of the outputs without M, one empty node where there is none. Arguments are copied. The
 * graph, what is instantiated from it, and `*out_nodes` keep the plan and the binding's group;
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
 * nothing changed, if the graph must be rebuilt: another plan, whose clusters may differ
 * (cuGraphExecUpdate would keep the old ones), another group, which the graph does not keep, or an
 * M that takes another number of passes, as 0 and those above 8192 do. After SINTER_ERROR_DRIVER
 * some nodes may have the new arguments. Thread-compatible for the instance, which must not be in a
 * launch call meanwhile. */
SINTER_API sinter_status sinter_graph_nodes_update(const sinter_graph_nodes* nodes,
                                                   sinter_graph_exec exec,
                                                   const sinter_binding* binding,
                                                   uint32_t symbol_count, const int64_t* symbols,
                                                   sinter_error** error);

#ifdef __cplusplus
}
#endif

#endif /* SINTER_SINTER_H_ */
