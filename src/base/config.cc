#include "src/base/config.h"

#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "src/base/compile_request.h"
#include "src/base/format.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr char kOurPrefix[] = "SINTER_";
constexpr size_t kMostWarnings = 16;
constexpr absl::string_view kTestPrefix = "SINTER_TEST_";  // read only by tests
// Read by others: the build of bindings/rust, the servers' plugins.
constexpr absl::string_view kOthers[] = {
    "SINTER_LIB_DIR",   "SINTER_PLUGINS",     "SINTER_PREFILL_ROWS", "SINTER_TORCH_COMPILE",
    "SINTER_VLLM_FOLD", "SINTER_VLLM_GRAPHS", "SINTER_VLLM_SAMPLER"};
constexpr size_t kShownName = 64;

// The process environment. It remembers which names were read: any other variable with our prefix
// is reported as a mistake. In a set-uid process every variable reads as unset.
class Environment {
 public:
  // An unset variable and an empty one mean the same.
  std::string Get(const char* name) {
    asked_.push_back(name);
    const char* value = secure_getenv(name);
    variables_.push_back({name, value == nullptr ? "" : value, ""});
    return variables_.back().value;
  }

  // Records `error` for the variable that Get returned last.
  void Refuse(std::string error) { variables_.back().error = std::move(error); }

  std::vector<EnvironmentVariable> TakeVariables() { return std::move(variables_); }

  std::vector<std::string> Warnings() const {
    std::vector<std::string> warnings;
    for (char** entry = getauxval(AT_SECURE) != 0 ? nullptr : environ;
         entry != nullptr && *entry != nullptr && warnings.size() < kMostWarnings; ++entry) {
      const absl::string_view whole = *entry;
      const absl::string_view name = whole.substr(0, whole.find('='));
      if (!absl::StartsWith(name, kOurPrefix) || name.size() + 1 >= whole.size()) continue;
      if (absl::StartsWith(name, kTestPrefix)) continue;
      if (std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers)) continue;
      if (std::find(asked_.begin(), asked_.end(), name) != asked_.end()) continue;
      const std::string nearest = Nearest(name, asked_);
      warnings.push_back(
          absl::StrCat("environment: no variable is called ", name.substr(0, kShownName),
                       nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?")));
    }
    return warnings;
  }

 private:
  std::vector<std::string> asked_;
  std::vector<EnvironmentVariable> variables_;  // in order of asked_
};

struct Choice {
  const char* text;
  int value;
};

// The readers do not change `*out` when the variable is unset or refused.
template <size_t N>
void ReadChoice(Environment& env, const char* name, const Choice (&choices)[N], int* out) {
  const std::string value = env.Get(name);
  if (value.empty()) return;
  for (const Choice& choice : choices) {
    if (value == choice.text) {
      *out = choice.value;
      return;
    }
  }
  const std::string allowed =
      absl::StrJoin(choices, " ", [](std::string* s, const Choice& c) { s->append(c.text); });
  env.Refuse(absl::StrCat(name, "=\"", value.substr(0, 64), "\" is not one of: ", allowed));
}

void ReadFlag(Environment& env, const char* name, bool* out) {
  int value = *out ? 1 : 0;
  ReadChoice(env, name, {{"0", 0}, {"1", 1}}, &value);
  *out = value != 0;
}

void ReadBytes(Environment& env, const char* name, uint64_t* out) {
  const std::string value = env.Get(name);
  if (value.empty()) return;
  const absl::StatusOr<uint64_t> bytes = ParseByteSize(value);
  if (!bytes.ok()) return env.Refuse(absl::StrCat(name, "=", bytes.status().message()));
  *out = *bytes;
}

void ReadNumber(Environment& env, const char* name, int least, int most, int* out) {
  const std::string value = env.Get(name);
  if (value.empty()) return;
  int number = 0;
  if (absl::SimpleAtoi(value, &number) && number >= least && number <= most) {
    *out = number;
  } else {
    env.Refuse(absl::StrCat(name, "=\"", value.substr(0, 64), "\" is not in ", least, "..", most));
  }
}

void ReadDenied(Environment& env, std::string* out) {
  *out = env.Get("SINTER_DENY_TOOLCHAINS");
  const absl::Status status = ToolchainDenyList().Add(*out);
  if (!status.ok()) env.Refuse(absl::StrCat("SINTER_DENY_TOOLCHAINS: ", status.message()));
}

void ReadRemote(Environment& env, Config* config) {
  config->remote = env.Get("SINTER_REMOTE");
  config->remote_name_space = env.Get("SINTER_REMOTE_NAMESPACE");
  int role = 0;
  ReadChoice(env, "SINTER_REMOTE_ROLE", {{"reader", 0}, {"publisher", 1}}, &role);
  config->remote_publish = role == 1;
  int days = 0;
  ReadNumber(env, "SINTER_REMOTE_TTL_DAYS", 1, 365, &days);
  config->remote_ttl_s = int64_t{days} * 24 * 3600;
  config->remote_key_file = env.Get("SINTER_REMOTE_KEY_FILE");
  config->remote_password_file = env.Get("SINTER_REMOTE_PASSWORD_FILE");
  config->remote_key = env.Get("SINTER_REMOTE_KEY");
  config->remote_password = env.Get("SINTER_REMOTE_PASSWORD");
}

void ReadLog(Environment& env, Config* config) {
  constexpr int kOff = 0;
  int level = static_cast<int>(config->log_level);
  ReadChoice(env, "SINTER_LOG",
             {{"off", kOff},
              {"error", static_cast<int>(LogLevel::kError)},
              {"warn", static_cast<int>(LogLevel::kWarn)},
              {"info", static_cast<int>(LogLevel::kInfo)},
              {"debug", static_cast<int>(LogLevel::kDebug)}},
             &level);
  config->log_off = level == kOff;
  if (level != kOff) config->log_level = static_cast<LogLevel>(level);
  int format = 0;
  ReadChoice(env, "SINTER_LOG_FORMAT", {{"text", 0}, {"json", 1}}, &format);
  config->log_json = format == 1;
}

bool IsAbsolute(absl::string_view path) { return !path.empty() && path[0] == '/'; }

std::string CacheDir(Environment& env) {
  const std::string own = env.Get("SINTER_CACHE_DIR");
  if (!own.empty()) return own;
  const std::string xdg = env.Get("XDG_CACHE_HOME");
  if (IsAbsolute(xdg)) return absl::StrCat(xdg, "/sinter");
  const std::string home = env.Get("HOME");
  if (IsAbsolute(home)) return absl::StrCat(home, "/.cache/sinter");
  return std::string();
}

}  // namespace

EnvironmentReading ReadEnvironment() {
  Environment env;
  EnvironmentReading reading;
  Config& config = reading.config;
  config.cache_dir = CacheDir(env);
  int cache = 1;

  ReadChoice(env, "SINTER_CACHE", {{"on", 1}, {"off", 0}, {"read-only", 2}}, &cache);
  config.cache_enabled = cache != 0;
  config.cache_read_only = cache == 2;
  config.cache_store = env.Get("SINTER_CACHE_STORE");  // checked by WireCache, like the option
  ReadBytes(env, "SINTER_CACHE_MAX_BYTES", &config.cache_max_bytes);
  ReadBytes(env, "SINTER_MODULE_CACHE_BYTES", &config.module_cache_bytes);
  ReadDenied(env, &config.deny_toolchains);
  ReadNumber(env, "SINTER_COMPILE_THREADS", 1, 64, &config.compile_threads);
  int must_hit = 0;

  ReadChoice(env, "SINTER_MUST_HIT", {{"0", 0}, {"1", 1}, {"verified", 2}}, &must_hit);
  config.must_hit = must_hit != 0;
  config.must_hit_verified = must_hit == 2;
  config.packs = absl::StrSplit(env.Get("SINTER_PACKS"), ':', absl::SkipEmpty());
  config.pack_keys = env.Get("SINTER_PACK_KEYS");
  ReadRemote(env, &config);
  ReadFlag(env, "SINTER_PACKS_UNSIGNED", &config.allow_unsigned_packs);
  ReadFlag(env, "SINTER_SLOT_MEASURE", &config.slot_measure);
  ReadNumber(env, "SINTER_MEASURE", 0, 64, &config.measure);
  ReadFlag(env, "SINTER_STAND_INS", &config.stand_ins);
  ReadFlag(env, "SINTER_BATCH_INVARIANT", &config.batch_invariant);
  ReadFlag(env, "SINTER_VERIFY", &config.verify_first_use);
  config.dump_dir = env.Get("SINTER_DUMP");
  config.trace = env.Get("SINTER_TRACE");
  config.metrics_file = env.Get("SINTER_METRICS_FILE");
  config.tuning_set = env.Get("SINTER_TUNING_SET");
  config.device_model = env.Get("SINTER_DEVICE_MODEL");
  config.nvrtc_path = env.Get("SINTER_NVRTC");
  config.driver_path = env.Get("SINTER_LIBCUDA");
  ReadLog(env, &config);
  config.warnings = env.Warnings();
  reading.variables = env.TakeVariables();
  return reading;
}

absl::StatusOr<Config> ConfigFromEnvironment() {
  EnvironmentReading reading = ReadEnvironment();
  for (const EnvironmentVariable& variable : reading.variables) {
    if (!variable.error.empty()) return Invalid(variable.error);
  }
  return std::move(reading.config);
}

}  // namespace sinter
