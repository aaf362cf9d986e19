#include "src/base/config.h"

#include <stdlib.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "src/base/status.h"
#include "src/base/toolchain.h"

namespace sinter {
namespace {

// An unset variable and an empty one mean the same. In a set-uid process every variable reads as
// unset.
std::string Variable(const char* name) {
  const char* value = secure_getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

struct Choice {
  const char* text;
  int value;
};

// Leaves `*out` alone when the variable is unset.
template <size_t N>
absl::Status ReadChoice(const char* name, const Choice (&choices)[N], int* out) {
  const std::string value = Variable(name);
  if (value.empty()) return absl::OkStatus();
  for (const Choice& choice : choices) {
    if (value == choice.text) {
      *out = choice.value;
      return absl::OkStatus();
    }
  }
  const std::string allowed =
      absl::StrJoin(choices, " ", [](std::string* s, const Choice& c) { s->append(c.text); });
  return absl::InvalidArgumentError(
      absl::StrCat(name, "=\"", value.substr(0, 64), "\" is not one of: ", allowed));
}

absl::Status ReadFlag(const char* name, bool* out) {
  int value = *out ? 1 : 0;
  SINTER_RETURN_IF_ERROR(ReadChoice(name, {{"0", 0}, {"1", 1}}, &value));
  *out = value != 0;
  return absl::OkStatus();
}

// Leaves `*out` alone when the variable is unset.
absl::Status ReadNumber(const char* name, uint64_t* out) {
  const std::string value = Variable(name);
  if (value.empty() || absl::SimpleAtoi(value, out)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, "=\"", value.substr(0, 64), "\" is not a number"));
}

absl::Status ReadDenied(std::string* out) {
  *out = Variable("SINTER_DENY_TOOLCHAINS");
  const absl::Status status = ToolchainDenyList().Add(*out);
  return status.ok() ? status : Annotate(status, "SINTER_DENY_TOOLCHAINS");
}

absl::Status ReadRemote(Config* config) {
  config->remote = Variable("SINTER_REMOTE");
  config->remote_name_space = Variable("SINTER_REMOTE_NAMESPACE");
  int role = 0;
  SINTER_RETURN_IF_ERROR(
      ReadChoice("SINTER_REMOTE_ROLE", {{"reader", 0}, {"publisher", 1}}, &role));
  config->remote_publish = role == 1;
  const std::string days = Variable("SINTER_REMOTE_TTL_DAYS");
  int number = 0;
  if (!days.empty() && (!absl::SimpleAtoi(days, &number) || number < 1 || number > 365)) {
    return absl::InvalidArgumentError(
        absl::StrCat("SINTER_REMOTE_TTL_DAYS=\"", days.substr(0, 64), "\" is not in 1..365"));
  }
  config->remote_ttl_s = int64_t{number} * 24 * 3600;
  config->remote_key_file = Variable("SINTER_REMOTE_KEY_FILE");
  config->remote_password_file = Variable("SINTER_REMOTE_PASSWORD_FILE");
  config->remote_key = Variable("SINTER_REMOTE_KEY");
  config->remote_password = Variable("SINTER_REMOTE_PASSWORD");
  return absl::OkStatus();
}

bool IsAbsolute(absl::string_view path) { return !path.empty() && path[0] == '/'; }

std::string CacheDir() {
  const std::string own = Variable("SINTER_CACHE_DIR");
  if (!own.empty()) return own;
  const std::string xdg = Variable("XDG_CACHE_HOME");
  if (IsAbsolute(xdg)) return absl::StrCat(xdg, "/sinter");
  const std::string home = Variable("HOME");
  if (IsAbsolute(home)) return absl::StrCat(home, "/.cache/sinter");
  return std::string();
}

}  // namespace

absl::StatusOr<Config> ConfigFromEnvironment() {
  Config config;
  config.cache_dir = CacheDir();
  int cache = 1;
  SINTER_RETURN_IF_ERROR(
      ReadChoice("SINTER_CACHE", {{"on", 1}, {"off", 0}, {"read-only", 2}}, &cache));
  config.cache_enabled = cache != 0;
  config.cache_read_only = cache == 2;
  int store = 0;
  SINTER_RETURN_IF_ERROR(
      ReadChoice("SINTER_CACHE_STORE", {{"tables", 0}, {"leveldb-db", 1}}, &store));
  config.cache_store = store == 1 ? "leveldb-db" : "";
  SINTER_RETURN_IF_ERROR(ReadNumber("SINTER_CACHE_MAX_BYTES", &config.cache_max_bytes));
  SINTER_RETURN_IF_ERROR(ReadNumber("SINTER_MODULE_CACHE_BYTES", &config.module_cache_bytes));
  SINTER_RETURN_IF_ERROR(ReadDenied(&config.deny_toolchains));
  int must_hit = 0;
  SINTER_RETURN_IF_ERROR(
      ReadChoice("SINTER_MUST_HIT", {{"0", 0}, {"1", 1}, {"verified", 2}}, &must_hit));
  config.must_hit = must_hit != 0;
  config.must_hit_verified = must_hit == 2;
  config.packs = absl::StrSplit(Variable("SINTER_PACKS"), ':', absl::SkipEmpty());
  config.pack_keys = Variable("SINTER_PACK_KEYS");
  SINTER_RETURN_IF_ERROR(ReadRemote(&config));
  SINTER_RETURN_IF_ERROR(ReadFlag("SINTER_PACKS_UNSIGNED", &config.allow_unsigned_packs));
  SINTER_RETURN_IF_ERROR(ReadFlag("SINTER_DETERMINISTIC", &config.deterministic));
  SINTER_RETURN_IF_ERROR(ReadFlag("SINTER_VERIFY", &config.verify_first_use));
  config.dump_dir = Variable("SINTER_DUMP");
  config.tuning_set = Variable("SINTER_TUNING_SET");
  config.nvrtc_path = Variable("SINTER_NVRTC");
  config.driver_path = Variable("SINTER_LIBCUDA");
  int level = static_cast<int>(config.log_level);
  SINTER_RETURN_IF_ERROR(ReadChoice("SINTER_LOG",
                                    {{"error", static_cast<int>(LogLevel::kError)},
                                     {"warn", static_cast<int>(LogLevel::kWarn)},
                                     {"info", static_cast<int>(LogLevel::kInfo)},
                                     {"debug", static_cast<int>(LogLevel::kDebug)}},
                                    &level));
  config.log_level = static_cast<LogLevel>(level);
  return config;
}

}  // namespace sinter
