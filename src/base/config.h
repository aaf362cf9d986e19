// Config: the only reader of the environment. Read once, when a context is made; each variable has
// an option that wins.
#ifndef SINTER_SRC_BASE_CONFIG_H_
#define SINTER_SRC_BASE_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/log.h"

namespace sinter {

struct Config {
  std::string cache_dir;         // SINTER_CACHE_DIR, else $XDG_CACHE_HOME/sinter, else
                                 // $HOME/.cache/sinter; "" = no local tier
  bool cache_enabled = true;     // SINTER_CACHE=off
  bool cache_read_only = false;  // SINTER_CACHE=read-only: the local tier is not written
  bool must_hit = false;         // SINTER_MUST_HIT=1
  bool must_hit_verified =
      false;  // SINTER_MUST_HIT=verified: and every kernel was checked on a GPU
  std::vector<std::string> packs;     // SINTER_PACKS, separated by ':'; looked up in this order
  std::string pack_keys;              // SINTER_PACK_KEYS: PEM file of the public keys that may sign
  bool allow_unsigned_packs = false;  // SINTER_PACKS_UNSIGNED=1
  bool deterministic = false;         // SINTER_DETERMINISTIC=1
  bool verify_first_use = false;  // SINTER_VERIFY=1: check a kernel against the unfused plan at its
                                  // first prepare on a GPU
  std::string dump_dir;           // SINTER_DUMP
  std::string nvrtc_path;         // SINTER_NVRTC: the only libnvrtc to try; "": the default names
  std::string driver_path;        // SINTER_LIBCUDA: likewise, libcuda
  std::string tuning_set;         // SINTER_TUNING_SET: a tuning set's file; "": none
  LogLevel log_level = LogLevel::kWarn;  // SINTER_LOG=error|warn|info|debug
};

// From the process environment. A malformed value is INVALID_ARGUMENT naming the variable, the
// value and what is allowed. Ignores everything but defaults when the process is set-uid. Relative
// XDG_CACHE_HOME or HOME are ignored, as XDG asks.
absl::StatusOr<Config> ConfigFromEnvironment();

}  // namespace sinter

#endif  // SINTER_SRC_BASE_CONFIG_H_
