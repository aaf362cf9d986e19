/* Sinter's experimental ABI: may change in any minor version. Bindings, tests and benches need it
 * in addition to sinter.h; conventions are sinter.h's. All since 0.1. Caches, packs, models and the
 * environment are looked after by the command: sinter help. */
#ifndef SINTER_SINTER_EXPERIMENTAL_H_
#define SINTER_SINTER_EXPERIMENTAL_H_

#include "sinter/sinter.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- Text that a call hands out */

/* Owned by the caller, immutable, thread-safe. */
typedef struct sinter_x_text sinter_x_text;
SINTER_API void sinter_x_text_release(const sinter_x_text* text);
/* Borrowed, NUL-terminated; "" for NULL. */
SINTER_API const char* sinter_x_text_get(const sinter_x_text* text);

/* ---------------------------------------------------------------- Chains as text and JSON */

/* A chain from one line: "[id] kind key=value ..", '#' comments. `*out_m` (may be NULL) receives
 * the line's m, or -1 for m=M. `*out_line` (may be NULL) receives the line in its canonical form,
 * owned. The chain is finished. Errors name the key, the value and the legal values. Thread-safe.
 */
SINTER_API sinter_status sinter_x_chain_from_text(const char* line, sinter_chain** out_chain,
                                                  int64_t* out_m, sinter_x_text** out_line,
                                                  sinter_error** error);
/* A kind's keys with their bounds and defaults, for people; `kind` NULL: every kind with what it
 * computes, one a line. SINTER_INVALID_ARGUMENT names the kinds. Thread-safe. */
SINTER_API sinter_status sinter_x_problem_help(const char* kind, sinter_x_text** out_text,
                                               sinter_error** error);
/* Any chain as JSON, both ways. `chain` finished; the result of _from_json is. Thread-safe. */
SINTER_API sinter_status sinter_x_chain_from_json(const char* json, sinter_chain** out_chain,
                                                  sinter_error** error);
SINTER_API sinter_status sinter_x_chain_to_json(const sinter_chain* chain, sinter_x_text** out_json,
                                                sinter_error** error);
/* One line per op in canonical order. Thread-safe. */
SINTER_API sinter_status sinter_x_chain_to_text(const sinter_chain* chain, sinter_x_text** out_text,
                                                sinter_error** error);
/* SHA-256 of the canonical form. Thread-safe. */
SINTER_API sinter_status sinter_x_chain_get_digest(const sinter_chain* chain,
                                                   uint8_t out_digest[32], sinter_error** error);
/* 2 m n k summed over the products at M = m; 0 for NULL or an unfinished chain. Thread-safe. */
SINTER_API double sinter_x_chain_get_flops(const sinter_chain* chain, int64_t m);
/* What an add made, of a chain that is not finished: dtype, rank and dims, SINTER_DIM_M among them;
 * the rest of `info` is zero. Thread-compatible. */
SINTER_API sinter_status sinter_x_chain_get_value(const sinter_chain* chain, sinter_value value,
                                                  sinter_tensor_info* info, sinter_error** error);

/* ---------------------------------------------------------------- Reference: the CPU executor,
 * float64 inside */

/* Host buffers in the caller's order, each sinter_tensor_info.bytes long; of a chain that is split
 * over ranks those of rank 0, then those of rank 1, and so on. `threads` 0: one per
 * processor. SINTER_RESOURCE_EXHAUSTED with the op, before anything is allocated, if values would
 * take more than half of the machine's memory (32 GiB at most) or 2^43 operations: a multiply-add,
 * or a 16th of an element of another op. Blocks. Thread-safe. */
SINTER_API sinter_status sinter_x_reference_run(const sinter_chain* chain, int64_t m,
                                                uint32_t input_count, const void* const* inputs,
                                                uint32_t output_count, void* const* outputs,
                                                uint32_t threads, sinter_error** error);

typedef struct sinter_x_check {
  uint32_t struct_size;
  uint32_t within; /* 1 when both errors are within their bounds, where the maximum of bf16 and f16
                      counts beyond one rounding step of a value, and no element is not a number */
  double relative; /* |out - ref| / |ref|, Frobenius */
  double max_over_rms;              /* max|out - ref| / rms(ref) */
  double relative_bound, max_bound; /* infinite for e4m3 and s8: 2 % may be one step off,
                                       none more */
  int64_t count;                    /* elements compared */
  int64_t nans;                     /* not-a-number or infinity on one side only */
} sinter_x_check;
/* Runs the reference and compares `outputs` (host) with it; the worst output is reported.
 * `max_rows` > 0: when M is larger and no op mixes rows, only so many rows are computed, spread
 * evenly, first and last among them. Bounded as sinter_x_reference_run. Blocks. Thread-safe. */
SINTER_API sinter_status sinter_x_reference_check(const sinter_chain* chain, int64_t m,
                                                  uint32_t input_count, const void* const* inputs,
                                                  uint32_t output_count, const void* const* outputs,
                                                  int64_t max_rows, uint32_t threads,
                                                  sinter_x_check* out_check, sinter_error** error);

/* ---------------------------------------------------------------- Device memory and time
 * (SINTER_UNAVAILABLE without a GPU) Slow path, synchronous, thread-safe. */

SINTER_API sinter_status sinter_x_device_alloc(sinter_context* context, uint64_t bytes,
                                               sinter_device_ptr* out_ptr, sinter_error** error);
/* 0 is a no-op. `bytes` as allocated. */
SINTER_API void sinter_x_device_free(sinter_context* context, sinter_device_ptr ptr,
                                     uint64_t bytes);
SINTER_API sinter_status sinter_x_device_fill(sinter_context* context, sinter_device_ptr ptr,
                                              uint64_t bytes, uint8_t byte, sinter_error** error);

typedef struct sinter_x_time_options {
  uint32_t struct_size;
  uint32_t flags;   /* SINTER_LAUNCH_PDL: between launches */
  uint32_t calls;   /* launches in the graph; 0 means 20 */
  uint32_t replays; /* 0 means 15; the median counts */
} sinter_x_time_options;
/* Median microseconds per launch in a CUDA graph; launch i uses bindings[i % count]. One binding:
 * hot. Bindings whose constants are more than 240 MB together: cold. All workspaces initialised by
 * the caller. */
SINTER_API sinter_status sinter_x_time(sinter_context* context, uint32_t count,
                                       const sinter_binding* const* bindings, uint32_t symbol_count,
                                       const int64_t* symbols, const sinter_x_time_options* options,
                                       double* out_us, sinter_error** error);

/* ---------------------------------------------------------------- Description */

/* The context's device and model as JSON: {"device", "gpu", "driver": "CUDA 13.0", "reason",
 * "model": {..}, "provenance": {key: "measured", ..}, "cache_dir", "must_hit", "library"}.
 * Thread-safe. */
SINTER_API sinter_status sinter_x_context_describe(const sinter_context* context,
                                                   sinter_x_text** out_json, sinter_error** error);

/* ---------------------------------------------------------------- A remote store of one's own
 * What the built-in Redis client does, as functions. Values are opaque; the library signs them
 * (the fleet's key is needed) and checks them. All functions may come from two threads at once,
 * must return within `deadline_us` microseconds, must not call back into the library, and return a
 * sinter_status, as which an exception counts as SINTER_INTERNAL; SINTER_DEADLINE_EXCEEDED when
 * they could not. Names are NUL-terminated printable ASCII without spaces, borrowed for the call.
 */

/* Copies `size` bytes for the library. */
typedef void (*sinter_x_give)(uintptr_t to, const void* bytes, uint64_t size);
typedef struct sinter_x_remote_store {
  uint32_t struct_size;
  uint32_t flags; /* none yet */
  uintptr_t user_data;
  /* Calls give(to, ..) once; SINTER_NOT_FOUND: absent. */
  sinter_status (*get)(uintptr_t user_data, const char* name, int64_t deadline_us,
                       sinter_x_give give, uintptr_t to);
  /* `replace` 0: the first value stays, and that is SINTER_OK. */
  sinter_status (*put)(uintptr_t user_data, const char* name, const void* bytes, uint64_t size,
                       int64_t ttl_s, int32_t replace, int64_t deadline_us);
  /* SINTER_ALREADY_EXISTS: somebody else holds it. NULL: no single flight in the fleet. */
  sinter_status (*try_lease)(uintptr_t user_data, const char* name, const char* token,
                             int64_t ttl_ms, int64_t deadline_us);
  /* Only if `token` still holds it. NULL: leases end by their time. */
  sinter_status (*release)(uintptr_t user_data, const char* name, const char* token,
                           int64_t deadline_us);
  /* Sets of names, for prefetching. NULL both: none. members calls give(to, ..) once a member. */
  sinter_status (*add_member)(uintptr_t user_data, const char* set, const char* member,
                              int64_t ttl_s, int64_t deadline_us);
  sinter_status (*members)(uintptr_t user_data, const char* set, int64_t deadline_us,
                           sinter_x_give give, uintptr_t to);
  /* Called once, when the library no longer needs the store. May be NULL. */
  void (*destroy)(uintptr_t user_data);
} sinter_x_remote_store;
/* sinter_context_create with `store` instead of options.remote; its role, name space and key
 * are the options'. `get` and `put` are needed. On failure destroy is not called.
 * Thread-safe. */
SINTER_API sinter_status sinter_x_context_create(const sinter_context_options* options,
                                                 const sinter_x_remote_store* store,
                                                 sinter_context** out_context,
                                                 sinter_error** error);

/* Returns once all records made so far are on disk, or were refused by it. Records are written in
 * the background: other contexts and processes on the folder find them after this call. The
 * trace that SINTER_TRACE asks for is written as far as it goes, too. */
SINTER_API sinter_status sinter_x_cache_flush(sinter_context* context, sinter_error** error);

/* ---------------------------------------------------------------- Events
 * What a context does off the launch path. */

typedef int32_t sinter_x_event_kind;
enum {
  SINTER_X_EVENT_LOOK_UP = 1, /* of a plan or a kernel, in the tiers of the cache */
  SINTER_X_EVENT_SEARCH = 2,
  SINTER_X_EVENT_COMPILE = 3,
  SINTER_X_EVENT_LOAD = 4, /* on the GPU */
  SINTER_X_EVENT_UNLOAD = 5,
  SINTER_X_EVENT_TUNE = 6,
  SINTER_X_EVENT_FALLBACK = 7, /* another plan than the chosen one runs */
  SINTER_X_EVENT_UPGRADE = 8   /* the plan of a slot came after the slot was made */
};
/* A field that is unknown or does not apply is 0 or "". Texts are borrowed for the call. */
typedef struct sinter_x_event {
  uint32_t struct_size; /* as the library knows it; fields are only added */
  sinter_x_event_kind kind;
  int64_t bucket;
  double us;      /* how long it took */
  uint64_t bytes; /* of code, or of the record that was found */
  uint8_t chain_digest[32], plan_digest[32];
  const char* subject; /* "plan", or the name of the kernel */
  const char* tier;    /* that had it: "memory", "local", "pack", "remote" */
  const char* reason;  /* of a miss, a failure, a fallback */
} sinter_x_event;
typedef void (*sinter_x_event_callback)(uintptr_t user_data, const sinter_x_event* event);
/* Every event from now on, on the threads of what happens. Once a context: SINTER_ALREADY_EXISTS.
 * As the log's, the callback lives as long as the context and what was made of it, and must not
 * call the library. Thread-safe. */
SINTER_API sinter_status sinter_x_context_on_event(sinter_context* context,
                                                   sinter_x_event_callback callback,
                                                   uintptr_t user_data, sinter_error** error);

/* A log, progress, ready or event callback as a plain function. */
typedef void (*sinter_x_function)(void);
/* The library does not call `function` any more in this process, whatever was asked for: before an
 * interpreter ends its threads, or what the function lies in is unloaded. Waits for calls of other
 * threads; SINTER_DEADLINE_EXCEEDED: one has not ended after 10 s. A child of a fork calls it
 * again. Thread-safe. */
SINTER_API sinter_status sinter_x_end_calls(sinter_x_function function, sinter_error** error);

SINTER_API sinter_status sinter_x_plan_to_json(const sinter_plan* plan, sinter_x_text** out_json,
                                               sinter_error** error);
/* What sinter_plan_explain says in a few lines: schedules, times, where the kernels came from.
 * Thread-safe. */
SINTER_API sinter_status sinter_x_plan_summary(const sinter_plan* plan, sinter_x_text** out_text,
                                               sinter_error** error);
/* The plan drawn as a self-contained SVG document: products, tiles, hand-overs, the time of each
 * level. Thread-safe. */
SINTER_API sinter_status sinter_x_plan_svg(const sinter_plan* plan, sinter_x_text** out_svg,
                                           sinter_error** error);
/* Generated CUDA C++ of one kernel. Thread-safe. */
SINTER_API sinter_status sinter_x_plan_get_source(const sinter_plan* plan, uint32_t kernel,
                                                  sinter_x_text** out_source, sinter_error** error);
/* sinter_tune with its report, which also comes with SINTER_FAILED_PRECONDITION. Thread-safe. */
SINTER_API sinter_status sinter_x_tune(sinter_context* context, const sinter_chain* chain,
                                       int64_t m, const sinter_tune_options* options,
                                       sinter_x_text** out_report, sinter_error** error);

#ifdef __cplusplus
}
#endif

#endif /* SINTER_SINTER_EXPERIMENTAL_H_ */
