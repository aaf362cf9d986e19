// sinter_group: the GPUs over which a chain is split.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "sinter/sinter_group.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/capi/firewall.h"
#include "src/capi/objects.h"
#include "src/engine/rank_group.h"
#include "src/engine/tuning_set.h"

namespace sinter::capi {
namespace {

constexpr uint32_t kDefaultTimeoutMs = 10000;
constexpr uint32_t kFlags = SINTER_GROUP_NO_TIMEOUT | SINTER_GROUP_DESCRIPTORS;

absl::StatusOr<std::unique_ptr<PeerMemory>> MemoryOf(const sinter_context* context,
                                                     absl::string_view name) {
  SINTER_RETURN_IF_ERROR(Check(context, name));
  const Ports& ports = context->engine->ports();
  if (ports.loader == nullptr) return Unavailable(ports.no_gpu_reason);
  return OpenPeerMemory(context->config, ports.ordinal);
}

// Equal on ranks that make the same kernels of the same chains.
Digest IdentityOf(const sinter_context& context) {
  return Sha256(absl::StrCat("group ", sinter_version(), " ",
                             ChipDigest(context.engine->ports().model).View()));
}

absl::Status CheckGiven(const sinter_group_options& given) {
  if ((given.flags & SINTER_GROUP_NO_TIMEOUT) != 0 && given.timeout_ms != 0) {
    return InvalidField("group.timeout_ms", given.timeout_ms, "0 with SINTER_GROUP_NO_TIMEOUT");
  }
  if ((given.flags & SINTER_GROUP_DESCRIPTORS) != 0 && given.peers != nullptr) {
    return Invalid(
        "group.flags has SINTER_GROUP_DESCRIPTORS, must not with group.peers: they are the "
        "caller's");
  }
  return absl::OkStatus();
}

RankGroupOptions Translate(const sinter_group_options& given) {
  RankGroupOptions options;
  options.rank = given.rank;
  options.size = given.size;
  options.slot_bytes = given.slot_bytes;
  options.room_bytes = given.bytes;
  options.timeout_ms = given.timeout_ms == 0 ? kDefaultTimeoutMs : given.timeout_ms;
  if ((given.flags & SINTER_GROUP_NO_TIMEOUT) != 0) options.timeout_ms = 0;
  options.descriptors = (given.flags & SINTER_GROUP_DESCRIPTORS) != 0;
  if (given.peers != nullptr && given.size >= 0 && given.size <= RankRoom::kMaxRanks) {
    options.rooms.assign(given.peers, given.peers + given.size);
  }
  return options;
}

// The caller's exchange. What it throws is an error.
Exchange ExchangeOf(sinter_exchange exchange, uintptr_t user_data) {
  return [=](const void* send, size_t bytes, void* recv) -> absl::Status {
    sinter_status status = SINTER_OK;
    const auto call =
        +[](sinter_exchange function, uintptr_t user, const void* from, size_t size, void* to,
            sinter_status* result) { *result = function(user, from, size, to); };
    SINTER_RETURN_IF_ERROR(
        CallOut("exchange", call, exchange, user_data, send, bytes, recv, &status));
    if (status == SINTER_OK) return absl::OkStatus();
    const bool known = status >= SINTER_CANCELLED && status <= SINTER_UNAUTHENTICATED;
    return absl::Status(known ? static_cast<absl::StatusCode>(status) : absl::StatusCode::kUnknown,
                        absl::StrCat("group.exchange returned ", sinter_status_name(status)));
  };
}

sinter_group* NewGroup(std::shared_ptr<RankGroup> group, const sinter_context* context) {
  auto handle = std::make_unique<sinter_group>();
  handle->group = std::move(group);
  handle->ordinal = context->engine->ports().ordinal;
  return handle.release();
}

absl::Status Create(const sinter_context* context, const sinter_group_options* given,
                    sinter_group** out) {
  SINTER_ASSIGN_OR_RETURN(const sinter_group_options options, ReadFields(given, "group", kFlags));
  if (options.exchange == nullptr) {
    return WithField(Invalid("group.exchange is null"), "group.exchange", "null");
  }
  RankGroupOptions own = Translate(options);
  // From here on the other ranks learn of an error.
  const auto prepare = [&]() -> absl::StatusOr<std::unique_ptr<PeerMemory>> {
    SINTER_RETURN_IF_ERROR(CheckNotNull(out, "out_group"));
    SINTER_RETURN_IF_ERROR(CheckReserved(options.reserved, "group"));
    SINTER_RETURN_IF_ERROR(CheckGiven(options));
    SINTER_ASSIGN_OR_RETURN(std::unique_ptr<PeerMemory> memory, MemoryOf(context, "context"));
    own.identity = IdentityOf(*context);
    return memory;
  };
  absl::StatusOr<std::unique_ptr<PeerMemory>> memory = prepare();
  SINTER_ASSIGN_OR_RETURN(
      std::shared_ptr<RankGroup> group,
      RankGroup::Create(std::move(memory), own, ExchangeOf(options.exchange, options.user_data)));
  *out = NewGroup(std::move(group), context);
  return absl::OkStatus();
}

absl::Status CreateLocal(sinter_context* const* contexts, uint32_t size,
                         const sinter_group_options* given, sinter_group** out) {
  SINTER_RETURN_IF_ERROR(CheckNotNull(out, "out_groups"));
  SINTER_RETURN_IF_ERROR(CheckNotNull(contexts, "contexts"));
  SINTER_ASSIGN_OR_RETURN(const sinter_group_options options, ReadOptions(given, "group", kFlags));
  SINTER_RETURN_IF_ERROR(CheckGiven(options));
  RankGroupOptions own = Translate(options);
  if (size < 2 || size > RankRoom::kMaxRanks) {
    return InvalidField("size", size, absl::StrCat("2 to ", RankRoom::kMaxRanks));
  }
  if (options.size != 0 || options.rank != 0 || options.peers != nullptr) {
    return Invalid("group.rank, group.size and group.peers must be 0: the contexts are the ranks");
  }
  std::vector<std::unique_ptr<PeerMemory>> memory;
  for (uint32_t i = 0; i < size; ++i) {
    SINTER_ASSIGN_OR_RETURN(memory.emplace_back(),
                            MemoryOf(contexts[i], absl::StrCat("contexts[", i, "]")));
    const Digest identity = IdentityOf(*contexts[i]);
    if (i == 0) own.identity = identity;
    if (identity != own.identity) {
      return FailedPrecondition("contexts[", i, "] has another GPU model than contexts[0]");
    }
  }
  SINTER_ASSIGN_OR_RETURN(const auto groups, RankGroup::CreateLocal(std::move(memory), own));
  std::vector<std::unique_ptr<sinter_group>> handles;
  for (size_t i = 0; i < groups.size(); ++i) {
    handles.emplace_back(NewGroup(groups[i], contexts[i]));
  }
  for (size_t i = 0; i < handles.size(); ++i) out[i] = handles[i].release();
  return absl::OkStatus();
}

}  // namespace
}  // namespace sinter::capi

namespace capi = sinter::capi;

extern "C" {

uint64_t sinter_group_get_room_bytes(int32_t size, uint64_t slot_bytes) {
  return sinter::RoomBytes(size, slot_bytes);
}

sinter_status sinter_group_create(sinter_context* context, const sinter_group_options* options,
                                  sinter_group** out_group, sinter_error** error) {
  return capi::Guard(error, [&] { return capi::Create(context, options, out_group); });
}

sinter_status sinter_group_create_local(sinter_context* const* contexts, uint32_t size,
                                        const sinter_group_options* options,
                                        sinter_group** out_groups, sinter_error** error) {
  return capi::Guard(error, [&] { return capi::CreateLocal(contexts, size, options, out_groups); });
}

void sinter_group_retain(const sinter_group* group) { capi::RetainHandle(group); }
void sinter_group_release(const sinter_group* group) { capi::ReleaseHandle(group); }

sinter_status sinter_group_get_status(const sinter_group* group, int32_t* out_rank,
                                      sinter_error** error) {
  if (out_rank != nullptr) *out_rank = -1;
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(group, "group"));
    int rank = -1;
    const absl::Status status = group->group->GetStatus(&rank);
    if (out_rank != nullptr) *out_rank = rank;
    return status;
  });
}

sinter_status sinter_group_abort(const sinter_group* group, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(group, "group"));
    return group->group->Abort();
  });
}

sinter_status sinter_group_close(const sinter_group* group, sinter_error** error) {
  return capi::Guard(error, [&]() -> absl::Status {
    SINTER_RETURN_IF_ERROR(capi::Check(group, "group"));
    return group->group->Close();
  });
}

}  // extern "C"
