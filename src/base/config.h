// Config: a context's settings, as far as they come from the environment. Nothing else reads the
// environment. It is read once, when a context is made; an option, where given, takes precedence.
#ifndef SINTER_SRC_BASE_CONFIG_H_
#define SINTER_SRC_BASE_CONFIG_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/log.h"

namespace sinter {

class RemoteBackend;

struct Config {
  std::string cache_dir;         // SINTER_CACHE_DIR, else $XDG_CACHE_HOME/sinter, else
                                 // $HOME/.cache/sinter; "" = no local tier
  bool cache_enabled = true;     // SINTER_CACHE=off
  std::string cache_store;       // SINTER_CACHE_STORE=tables; "": the same
  uint64_t cache_max_bytes = 0;  // SINTER_CACHE_MAX_BYTES, a size (format.h); 0: 2 GiB
  bool cache_read_only = false;  // SINTER_CACHE=read-only: the local tier is not written
  bool must_hit = false;         // SINTER_MUST_HIT=1
  bool must_hit_verified =
      false;  // SINTER_MUST_HIT=verified: and every kernel was checked on a GPU
  std::vector<std::string> packs;  // SINTER_PACKS, separated by ':'; looked up in this order
  // SINTER_REMOTE: redis://[user@]host[:port][/db] or redis+unix:///path; "": no remote tier.
  std::string remote;
  std::shared_ptr<RemoteBackend> remote_backend;  // a site's own, instead of `remote`
  std::string remote_name_space;  // SINTER_REMOTE_NAMESPACE: the trust domain; "": "sinter"
  bool remote_publish = false;    // SINTER_REMOTE_ROLE=reader|publisher
  int64_t remote_ttl_s = 0;       // SINTER_REMOTE_TTL_DAYS; 0: 14 days
  // Secrets: SINTER_REMOTE_KEY_FILE and SINTER_REMOTE_PASSWORD_FILE, or the values themselves in
  // SINTER_REMOTE_KEY and SINTER_REMOTE_PASSWORD. Never logged, never part of an error.
  std::string remote_key_file, remote_password_file, remote_key, remote_password;
  std::string pack_keys;              // SINTER_PACK_KEYS: PEM file of the public keys that may sign
  bool allow_unsigned_packs = false;  // SINTER_PACKS_UNSIGNED=1
  // SINTER_DENY_TOOLCHAINS: compilers whose kernels are refused; see ToolchainDenyList::Add.
  std::string deny_toolchains;
  // SINTER_MODULE_CACHE_BYTES, a size: of cubins kept loaded, in use or not; 0: 1 GiB.
  uint64_t module_cache_bytes = 0;
  int compile_threads = 2;        // SINTER_COMPILE_THREADS: for builds in the background
  bool slot_measure = false;      // SINTER_SLOT_MEASURE=1: slots choose their plans by measuring
  int measure = 0;                // SINTER_MEASURE: candidates that prepares measure; 0: none
  bool stand_ins = true;          // SINTER_STAND_INS=0: stand-ins are not handed out
  bool batch_invariant = false;   // SINTER_BATCH_INVARIANT=1: as FusionOptions.batch_invariant
  bool verify_first_use = false;  // SINTER_VERIFY=1: check a kernel against the plain plan at its
                                  // first prepare on a GPU
  std::string dump_dir;           // SINTER_DUMP
  std::string nvrtc_path;         // SINTER_NVRTC: the only libnvrtc to try; "": the default names
  std::string driver_path;        // SINTER_LIBCUDA: the only libcuda to try; "": the default names
  std::string tuning_set;         // SINTER_TUNING_SET: a tuning set's file; "": none
  std::string device_model;  // SINTER_DEVICE_MODEL: a model file of the GPU; "": a built-in one
  LogLevel log_level = LogLevel::kWarn;  // SINTER_LOG=off|error|warn|info|debug
  bool log_off = false;                  // nothing is logged, whatever the level
  bool log_json = false;     // SINTER_LOG_FORMAT=text|json, for messages to standard error
  std::string trace;         // SINTER_TRACE: file for the spans of prepares, see base/trace.h
  std::string metrics_file;  // SINTER_METRICS_FILE: where the counters are written to
  // One sentence for each SINTER_* variable that is set but that nothing reads; at most 16.
  std::vector<std::string> warnings;
};

struct EnvironmentVariable {
  std::string name, value;  // "": unset
  std::string error;        // names the variable, the value and the legal values; "": accepted
};

// The configuration from the process environment, and every variable that was read for it. A
// variable whose value is refused counts as unset.
struct EnvironmentReading {
  Config config;
  std::vector<EnvironmentVariable> variables;
};
EnvironmentReading ReadEnvironment();

// From the process environment. A malformed value is INVALID_ARGUMENT naming the variable, the
// value and the legal values. In a set-uid process the environment is ignored and all settings are
// defaults. A relative XDG_CACHE_HOME or HOME is ignored, as XDG asks.
absl::StatusOr<Config> ConfigFromEnvironment();

}  // namespace sinter

#endif  // SINTER_SRC_BASE_CONFIG_H_
