#include "cache/remote/redis.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/remote/resolver.h"
#include "cache/remote/sealed_value.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using Type = RespValue::Type;

constexpr uint64_t kRespHeadBytes = 32;  // of a bulk string, and what ends it
constexpr uint64_t kMostMembersBytes = uint64_t{16} << 20;

// Releases a lease only if the token still holds it.
constexpr char kReleaseScript[] =
    "if redis.call('get',KEYS[1])==ARGV[1] then return redis.call('del',KEYS[1]) else return 0 end";

absl::Status Unexpected(const RespValue& reply, absl::string_view command) {
  if (reply.type == Type::kError) {
    return absl::UnavailableError(
        absl::StrCat("remote: ", command, ": ", absl::string_view(reply.text).substr(0, 80)));
  }
  return absl::UnavailableError(
      absl::StrCat("remote: ", command, ": an answer of another type than asked for"));
}

}  // namespace

absl::StatusOr<std::vector<RespValue>> RedisBackend::Call(const RespCall& call, Deadline deadline) {
  SocketAddress to;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    to = to_;
  }
  return connection_.Call(to, call, deadline);
}

void RedisBackend::Resolve(const std::atomic<bool>& stop) {
  const SocketAddress found = ResolveAddress(address_, stop);
  if (found.size == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  to_ = found;
}

absl::StatusOr<std::vector<absl::optional<std::string>>> RedisBackend::GetMany(
    const std::vector<std::string>& names, Deadline deadline) {
  RespCall call;
  for (const std::string& name : names) call.Add({"GET", name});
  call.each = RespLimits{kMaxRemoteValueBytes + kRespHeadBytes, 1};
  call.all = RespLimits{2 * kMaxRemoteValueBytes, names.size()};
  std::vector<RespValue> replies;
  SINTER_ASSIGN_OR_RETURN(replies, Call(call, deadline));
  std::vector<absl::optional<std::string>> values;
  for (RespValue& reply : replies) {
    values.emplace_back();
    if (reply.type == Type::kNil) continue;
    if (reply.type != Type::kString) return Unexpected(reply, "GET");
    values.back() = std::move(reply.text);
  }
  return values;
}

absl::Status RedisBackend::Put(const std::string& name, const std::string& value, int64_t ttl_s,
                               bool replace, Deadline deadline) {
  RespCall call;
  const std::string ttl = absl::StrCat(ttl_s);
  if (replace) {
    call.Add({"SET", name, value, "EX", ttl});
  } else {
    call.Add({"SET", name, value, "EX", ttl, "NX"});
  }
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(call, deadline));
  const bool stays = !replace && replies[0].type == Type::kNil;
  const bool stored = replies[0].type == Type::kString && replies[0].text == "OK";
  return stays || stored ? absl::OkStatus() : Unexpected(replies[0], "SET");
}

absl::StatusOr<bool> RedisBackend::TryLease(const std::string& name, const std::string& token,
                                            int64_t ttl_ms, Deadline deadline) {
  RespCall call;
  call.Add({"SET", name, token, "NX", "PX", absl::StrCat(ttl_ms)});
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(call, deadline));
  if (replies[0].type == Type::kNil) return false;
  if (replies[0].type == Type::kString && replies[0].text == "OK") return true;
  return Unexpected(replies[0], "SET");
}

absl::Status RedisBackend::Release(const std::string& name, const std::string& token,
                                   Deadline deadline) {
  RespCall call;
  call.Add({"EVAL", kReleaseScript, "1", name, token});
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(call, deadline));
  return replies[0].type == Type::kInteger ? absl::OkStatus() : Unexpected(replies[0], "EVAL");
}

absl::Status RedisBackend::AddMember(const std::string& set, const std::string& member,
                                     int64_t ttl_s, Deadline deadline) {
  RespCall call;
  call.Add({"SADD", set, member});
  call.Add({"EXPIRE", set, absl::StrCat(ttl_s)});
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(call, deadline));
  for (const RespValue& reply : replies) {
    if (reply.type != Type::kInteger) return Unexpected(reply, "SADD");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RedisBackend::Members(const std::string& set,
                                                               Deadline deadline) {
  RespCall call;
  call.Add({"SMEMBERS", set});
  call.each = call.all = RespLimits{kMostMembersBytes, kMaxRespItems};
  std::vector<RespValue> replies;
  SINTER_ASSIGN_OR_RETURN(replies, Call(call, deadline));
  if (replies[0].type != Type::kArray) return Unexpected(replies[0], "SMEMBERS");
  std::vector<std::string> members;
  for (RespValue& item : replies[0].items) {
    if (item.type != Type::kString) return Unexpected(item, "SMEMBERS");
    members.push_back(std::move(item.text));
  }
  return members;
}

}  // namespace sinter
