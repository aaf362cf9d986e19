/* Sinter's experimental ABI: may change in any minor version. What the `sinter` command, tests and
 * benches need beside sinter.h; conventions are sinter.h's. All since 0.1. */
#ifndef SINTER_SINTER_EXPERIMENTAL_H_
#define SINTER_SINTER_EXPERIMENTAL_H_

#include "sinter/sinter.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- Text that a call hands out */

/* Owned by the caller, immutable, thread-safe. */
typedef struct sinter_x_text sinter_x_text;
SINTER_API void sinter_x_text_retain(const sinter_x_text* text);
SINTER_API void sinter_x_text_release(const sinter_x_text* text);
/* Borrowed, NUL-terminated; "" for NULL. */
SINTER_API const char* sinter_x_text_get(const sinter_x_text* text);
/* Bytes without the NUL. */
SINTER_API uint64_t sinter_x_text_size(const sinter_x_text* text);

/* `text` as a terminal or a log may show it: control characters, marks that turn the direction of
 * text and bytes that are no UTF-8 escaped, line ends and tabs blanks, or left alone with the flag.
 * Errors and log messages are so already. Thread-safe. */
#define SINTER_X_PRINTABLE_LINES 1u
SINTER_API sinter_status sinter_x_printable(const char* text, uint32_t flags,
                                            sinter_x_text** out_text, sinter_error** error);
/* "500000000", "500MB", "2GiB", "64k": a size as the environment variables take it. Alone or before
 * iB, k M G T are powers of 1024, before B powers of 1000. Thread-safe. */
SINTER_API sinter_status sinter_x_parse_bytes(const char* text, uint64_t* out_bytes,
                                              sinter_error** error);
/* Of `known`, one a line, the word that `word` was probably meant to be; "" for none. Thread-safe.
 */
SINTER_API sinter_status sinter_x_nearest(const char* word, const char* known,
                                          sinter_x_text** out_word, sinter_error** error);

/* ---------------------------------------------------------------- Chains as text and JSON */

/* A chain from one line: "[id] kind key=value ..", '#' comments. `*out_m` (may be NULL) receives
 * the line's m, or -1 for m=M. `*out_line` (may be NULL) receives the line in its canonical form,
 * owned. The chain is finished. Errors name the key, the value and what is allowed. Thread-safe. */
SINTER_API sinter_status sinter_x_chain_from_text(const char* line, sinter_chain** out_chain,
                                                  int64_t* out_m, sinter_x_text** out_line,
                                                  sinter_error** error);
/* The same for the line called `id` among many. SINTER_NOT_FOUND names the ids there are.
 * Thread-safe. */
SINTER_API sinter_status sinter_x_chain_from_problems(const char* text, const char* id,
                                                      sinter_chain** out_chain, int64_t* out_m,
                                                      sinter_x_text** out_line,
                                                      sinter_error** error);
/* One canonical line per problem of `text`. Thread-safe. */
SINTER_API sinter_status sinter_x_problems_list(const char* text, sinter_x_text** out_lines,
                                                sinter_error** error);
/* The kinds that the text form knows, one per line. Thread-safe. */
SINTER_API sinter_status sinter_x_problem_kinds(sinter_x_text** out_kinds, sinter_error** error);
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

/* Host buffers in the caller's order, each sinter_tensor_info.bytes long. `threads` 0: one per
 * processor. Blocks. Thread-safe. */
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
  double relative_bound, max_bound; /* infinite for e4m3: 0.1 % may be one step off, none more */
  int64_t count;                    /* elements compared */
  int64_t nans;                     /* not-a-number or infinity on one side only */
} sinter_x_check;
/* Runs the reference and compares `outputs` (host) with it; the worst output is reported.
 * `max_rows` > 0: when M is larger and no op mixes rows, only so many rows are computed, spread
 * evenly, first and last among them. Blocks. Thread-safe. */
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
SINTER_API sinter_status sinter_x_device_upload(sinter_context* context, sinter_device_ptr to,
                                                const void* from, uint64_t bytes,
                                                sinter_error** error);
SINTER_API sinter_status sinter_x_device_download(sinter_context* context, void* to,
                                                  sinter_device_ptr from, uint64_t bytes,
                                                  sinter_error** error);
SINTER_API sinter_status sinter_x_device_fill(sinter_context* context, sinter_device_ptr ptr,
                                              uint64_t bytes, uint8_t byte, sinter_error** error);
/* Launches on an own stream and waits; a launch that faults is an error here. The workspace is
 * initialised first. */
SINTER_API sinter_status sinter_x_run(sinter_context* context, const sinter_plan* plan,
                                      uint32_t symbol_count, const int64_t* symbols,
                                      uint32_t buffer_count, const sinter_device_ptr* buffers,
                                      sinter_device_ptr workspace, sinter_error** error);

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
 * "model": {..}, "provenance": {key: "measured", ..}, "cache_dir", "library"}. Thread-safe. */
SINTER_API sinter_status sinter_x_context_describe(const sinter_context* context,
                                                   sinter_x_text** out_json, sinter_error** error);
/* The context's device model in its text form: what a model file holds. Thread-safe. */
SINTER_API sinter_status sinter_x_context_get_model(const sinter_context* context,
                                                    sinter_x_text** out_text, sinter_error** error);
/* What compiles kernels, "nvrtc-13.0-<ELF build id>"; opens it. SINTER_UNAVAILABLE without one.
 * Thread-safe. */
SINTER_API sinter_status sinter_x_context_get_toolchain(const sinter_context* context,
                                                        sinter_x_text** out_text,
                                                        sinter_error** error);
/* What a context would read of the process environment: {"variables": [{"name", "value", "error"}],
 * "warnings": [..]}. Every variable that the library reads; "value" "" is unset, secrets read
 * "(set)". "error": why sinter_context_create fails, "" when it is taken. "warnings": SINTER_*
 * names that nothing reads. Thread-safe. */
SINTER_API sinter_status sinter_x_environment(sinter_x_text** out_json, sinter_error** error);
/* Measures the context's GPU and gives the text of a model file: what probes can tell marked
 * [measured], the rest taken over from the nearest built-in model and marked so, "[fitted from
 * h200]". Takes some seconds and 24 MiB of device memory an SM; nothing else should run on the GPU.
 * SINTER_UNAVAILABLE without one, SINTER_ERROR_COMPILE_FAILED or SINTER_ERROR_DRIVER of a probe.
 * Thread-safe. */
SINTER_API sinter_status sinter_x_measure_model(sinter_context* context, sinter_x_text** out_text,
                                                sinter_error** error);
/* Names of the built-in models, one per line. Thread-safe. */
SINTER_API sinter_status sinter_x_model_names(sinter_x_text** out_names, sinter_error** error);
/* The folder of the local tier; "" when there is none. Borrowed. Thread-safe. */
SINTER_API const char* sinter_x_context_get_cache_dir(const sinter_context* context);

/* The functions that look after the local tier: SINTER_PERMISSION_DENIED for a folder that was
 * refused, SINTER_UNAVAILABLE without a local tier. What waits to be written is written first.
 * "store" in what they report is "tables". Thread-safe. */

/* Reads and checks every record of the local tier, changes nothing: {"dir", "store", "plans",
 * "kernels", "verified_kernels", "other_format", "bytes", "unsound", "quarantined", "temporary",
 * "findings": [..]}. */
SINTER_API sinter_status sinter_x_cache_inspect(const sinter_context* context,
                                                sinter_x_text** out_json, sinter_error** error);
/* Every record: {"dir", "store", "records": [{"kind", "key", "bytes", "last_use", "sound",
 * "verified", "created", "arch", "producer", "what", "device", "m" where the chain uses it}]},
 * times in seconds of 1970. "sound" false: a lookup would not take it, and what follows is not
 * known. "what" is a plan's chain, or what a kernel computes and how; "device" a plan's model, a
 * kernel's arch. Reads every record. */
SINTER_API sinter_status sinter_x_cache_list(const sinter_context* context,
                                             sinter_x_text** out_json, sinter_error** error);
/* Removes every record of the local tier; what was quarantined stays so: {"dir", "store",
 * "removed", "records", "bytes", "failed"}. With SINTER_X_CLEAR_DRY_RUN it says what it would
 * remove. SINTER_FAILED_PRECONDITION, with nothing removed, for a folder that holds what is not the
 * library's; SINTER_PERMISSION_DENIED for one with links, or that others may write. Follows no
 * link. */
enum { SINTER_X_CLEAR_DRY_RUN = 1 };
SINTER_API sinter_status sinter_x_cache_clear(sinter_context* context, uint32_t flags,
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
/* sinter_context_create with `store` in the place of options.remote; its role, name space and key
 * are the options'. `get` and `put` are needed. On failure destroy is not called.
 * Thread-safe. */
SINTER_API sinter_status sinter_x_context_create(const sinter_context_options* options,
                                                 const sinter_x_remote_store* store,
                                                 sinter_context** out_context,
                                                 sinter_error** error);

/* ---------------------------------------------------------------- Packs: sealed, signed files of
 * many records. All block for as long as the disk takes, and are thread-safe. */

enum {
  SINTER_X_EXPORT_USED = 1,   /* only what this context looked up and found, or made */
  SINTER_X_EXPORT_DRY_RUN = 2 /* read the key and look at the path; write nothing, count nothing */
};
typedef struct sinter_x_export_options {
  uint32_t struct_size;
  uint32_t flags;          /* SINTER_X_EXPORT_* */
  const char* signing_key; /* PEM file of an Ed25519 private key; NULL: the pack is not signed */
} sinter_x_export_options;
/* What the local tier and the context's packs hold, as one pack at `path`, which is replaced
 * atomically: {"path", "plans", "kernels", "bytes", "skipped"}. Equal records make an equal file.
 * Skipped is what is damaged, and what this library cannot vouch for: a plan that does not fit its
 * chain, a kernel of another key, plans of other library versions.
 * SINTER_NOT_FOUND, SINTER_PERMISSION_DENIED, SINTER_INVALID_ARGUMENT: the key file.
 * SINTER_UNAVAILABLE: the disk. */
SINTER_API sinter_status sinter_x_cache_export(sinter_context* context, const char* path,
                                               const sinter_x_export_options* options,
                                               sinter_x_text** out_json, sinter_error** error);
/* A pack's sound records into the local tier: {"path", "stored", "refused"}. The pack must be
 * signed as the context's own must. */
SINTER_API sinter_status sinter_x_cache_import(sinter_context* context, const char* path,
                                               sinter_x_text** out_json, sinter_error** error);
enum { SINTER_X_PACK_READ_ALL = 1 /* read and check every byte */ };
/* {"path", "producer", "created", "bytes", "signed_by": [..], "plans", "kernels",
 * "verified_kernels", "records": [{"kind", "key", "bytes", "verified", "arch"}], "unsound",
 * "findings": [..]}. SINTER_PERMISSION_DENIED: signed by nobody trusted. SINTER_DATA_LOSS: damaged
 * so that nothing of it can be used. */
SINTER_API sinter_status sinter_x_pack_inspect(sinter_context* context, const char* path,
                                               uint32_t flags, sinter_x_text** out_json,
                                               sinter_error** error);
/* Removes what was longest unused from the local tier until `max_bytes` (1 or more) are kept, and
 * what killed writers left: {"busy", "records", "bytes", "evicted", "evicted_bytes", "orphans"}.
 * "busy": another process was at it, nothing was done. */
SINTER_API sinter_status sinter_x_cache_trim(sinter_context* context, uint64_t max_bytes,
                                             sinter_x_text** out_json, sinter_error** error);
/* Returns once all records made so far are on disk, or were refused by it. Records are written
 * behind their makers: other contexts and processes on the folder find them from then on. The
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
/* What is not known, or does not apply, is 0 or "". Texts are borrowed for the call. */
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

/* By which choice the plan is got: "unfused" is the plain plan (sinter_choice), "fused" any other,
 * "stand-in" one of the library's own kernels; borrowed; "" for NULL. Thread-safe. */
SINTER_API const char* sinter_x_plan_get_name(const sinter_plan* plan);
SINTER_API uint32_t sinter_x_plan_get_kernel_count(const sinter_plan* plan);
/* Modelled microseconds of the whole plan. Thread-safe. */
SINTER_API double sinter_x_plan_get_predicted_us(const sinter_plan* plan);
SINTER_API sinter_status sinter_x_plan_to_json(const sinter_plan* plan, sinter_x_text** out_json,
                                               sinter_error** error);
/* What sinter_plan_explain says in a few lines: schedules, times, where the kernels came from.
 * Thread-safe. */
SINTER_API sinter_status sinter_x_plan_summary(const sinter_plan* plan, sinter_x_text** out_text,
                                               sinter_error** error);
/* What sinter_plan_explain says beyond _to_json: {"schema": 3, "kernels": [{"products",
 * "hand_overs", "shared", "levels": [{"level", "us", "amount", "rate", "constants", "bound"}],
 * ..}], "runners_up", "model": {"note", "constants": [{"key", "value", "provenance", "source"}]}}.
 * docs/plan-formats.md says what the words mean. Thread-safe. */
SINTER_API sinter_status sinter_x_plan_explain_json(const sinter_plan* plan,
                                                    sinter_x_text** out_json, sinter_error** error);
/* The plan drawn as a self-contained SVG document: products, tiles, hand-overs, the time of each
 * level. Thread-safe. */
SINTER_API sinter_status sinter_x_plan_svg(const sinter_plan* plan, sinter_x_text** out_svg,
                                           sinter_error** error);
/* Generated CUDA C++ of one kernel. Thread-safe. */
SINTER_API sinter_status sinter_x_plan_get_source(const sinter_plan* plan, uint32_t kernel,
                                                  sinter_x_text** out_source, sinter_error** error);
/* FlashFuser's own search (arXiv 2512.12949) of a chain of two products at `m` rows: how many
 * points its space has after each rule, beside the paper's for GPT-6.7B with M = 256; the best
 * `top_k` (0: 11) by the slowest level of its Algorithm 1, and where that places what lies between
 * the products. As text, or as JSON when `json` is not 0. SINTER_INVALID_ARGUMENT when the chain is
 * no two products or an extent is no multiple of 16; SINTER_RESOURCE_EXHAUSTED when the space is
 * too large. Thread-safe. */
SINTER_API sinter_status sinter_x_paper_search(const sinter_context* context,
                                               const sinter_chain* chain, int64_t m, uint32_t top_k,
                                               int32_t json, sinter_x_text** out_text,
                                               sinter_error** error);
/* sinter_tune with its report, which also comes with SINTER_FAILED_PRECONDITION. Thread-safe. */
SINTER_API sinter_status sinter_x_tune(sinter_context* context, const sinter_chain* chain,
                                       int64_t m, const sinter_tune_options* options,
                                       sinter_x_text** out_report, sinter_error** error);

#ifdef __cplusplus
}
#endif

#endif /* SINTER_SINTER_EXPERIMENTAL_H_ */
