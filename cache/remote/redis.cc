#include "cache/remote/redis.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using Type = RespValue::Type;

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

absl::StatusOr<std::vector<RespValue>> RedisBackend::Call(const std::string& commands, size_t count,
                                                          Deadline deadline) {
  SocketAddress to;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    to = to_;
  }
  return connection_.Call(to, commands, count, deadline);
}

void RedisBackend::Resolve() {
  const SocketAddress found = ResolveAddress(address_);
  if (found.size == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  to_ = found;
}

absl::StatusOr<std::vector<absl::optional<std::string>>> RedisBackend::GetMany(
    const std::vector<std::string>& names, Deadline deadline) {
  std::string commands;
  for (const std::string& name : names) AppendCommand({"GET", name}, &commands);
  std::vector<RespValue> replies;
  SINTER_ASSIGN_OR_RETURN(replies, Call(commands, names.size(), deadline));
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
  std::string commands;
  const std::string ttl = absl::StrCat(ttl_s);
  if (replace) {
    AppendCommand({"SET", name, value, "EX", ttl}, &commands);
  } else {
    AppendCommand({"SET", name, value, "EX", ttl, "NX"}, &commands);
  }
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(commands, 1, deadline));
  const bool stays = !replace && replies[0].type == Type::kNil;
  const bool stored = replies[0].type == Type::kString && replies[0].text == "OK";
  return stays || stored ? absl::OkStatus() : Unexpected(replies[0], "SET");
}

absl::StatusOr<bool> RedisBackend::TryLease(const std::string& name, const std::string& token,
                                            int64_t ttl_ms, Deadline deadline) {
  std::string commands;
  AppendCommand({"SET", name, token, "NX", "PX", absl::StrCat(ttl_ms)}, &commands);
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(commands, 1, deadline));
  if (replies[0].type == Type::kNil) return false;
  if (replies[0].type == Type::kString && replies[0].text == "OK") return true;
  return Unexpected(replies[0], "SET");
}

absl::Status RedisBackend::Release(const std::string& name, const std::string& token,
                                   Deadline deadline) {
  std::string commands;
  AppendCommand({"EVAL", kReleaseScript, "1", name, token}, &commands);
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(commands, 1, deadline));
  return replies[0].type == Type::kInteger ? absl::OkStatus() : Unexpected(replies[0], "EVAL");
}

absl::Status RedisBackend::AddMember(const std::string& set, const std::string& member,
                                     int64_t ttl_s, Deadline deadline) {
  std::string commands;
  AppendCommand({"SADD", set, member}, &commands);
  AppendCommand({"EXPIRE", set, absl::StrCat(ttl_s)}, &commands);
  SINTER_ASSIGN_OR_RETURN(const std::vector<RespValue> replies, Call(commands, 2, deadline));
  for (const RespValue& reply : replies) {
    if (reply.type != Type::kInteger) return Unexpected(reply, "SADD");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> RedisBackend::Members(const std::string& set,
                                                               Deadline deadline) {
  std::string commands;
  AppendCommand({"SMEMBERS", set}, &commands);
  std::vector<RespValue> replies;
  SINTER_ASSIGN_OR_RETURN(replies, Call(commands, 1, deadline));
  if (replies[0].type != Type::kArray) return Unexpected(replies[0], "SMEMBERS");
  std::vector<std::string> members;
  for (RespValue& item : replies[0].items) {
    if (item.type != Type::kString) return Unexpected(item, "SMEMBERS");
    members.push_back(std::move(item.text));
  }
  return members;
}

}  // namespace sinter
