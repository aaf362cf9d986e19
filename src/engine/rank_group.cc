#include "src/engine/rank_group.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
constexpr uint64_t kLeastSlot = 64 << 10, kMostSlot = uint64_t{1} << 32;
constexpr char kMagic[8] = {'S', 'N', 'T', 'R', 'O', 'O', 'M', '2'};
constexpr uint64_t kProofBytes = 16;
constexpr size_t kWhyBytes = 160;

bool IsSize(int size) { return size >= 2 && size <= RankRoom::kMaxRanks; }
bool IsSlot(uint64_t bytes) {
  return bytes >= kLeastSlot && bytes <= kMostSlot && bytes % 4096 == 0;
}

absl::Status CheckOptions(const RankGroupOptions& options) {
  if (!IsSize(options.size)) {
    return InvalidField("group.size", options.size, absl::StrCat("2 to ", RankRoom::kMaxRanks));
  }
  if (options.rank < 0 || options.rank >= options.size) {
    return InvalidField("group.rank", options.rank, absl::StrCat("0 to ", options.size - 1));
  }
  const uint64_t slot = options.slot_bytes;
  if (!IsSlot(slot)) {
    return InvalidField("group.slot_bytes", slot,
                        absl::StrCat("a multiple of 4096 from ", kLeastSlot, " to ", kMostSlot));
  }
  if (options.rooms.empty()) return absl::OkStatus();
  const uint64_t needed = RoomBytes(options.size, slot);
  if (options.room_bytes < needed) {
    return Invalid("group.bytes is ", options.room_bytes, ", slots of ", slot, " bytes for ",
                   options.size, " ranks need ", needed);
  }
  for (size_t i = 0; i < options.rooms.size(); ++i) {
    if (options.rooms[i] == 0 || options.rooms[i] % 256 != 0) {
      return InvalidField(absl::StrCat("group.peers[", i, "]"), options.rooms[i],
                          "256-byte aligned");
    }
  }
  return absl::OkStatus();
}

// What `sender` puts into `receiver`'s room.
std::array<uint64_t, 2> Proof(int sender, int receiver) {
  const auto both = static_cast<uint64_t>(sender) << 8 | static_cast<uint64_t>(receiver);
  return {0x53696E7465720000u | both, ~(both * 0x9E3779B97F4A7C15u)};
}

}  // namespace

uint64_t DefaultSlotBytes(int size) {
  return size <= 2 ? 64 * kMiB : size <= 4 ? 4 * kMiB : 2 * kMiB;
}

uint64_t RoomBytes(int size, uint64_t slot_bytes) {
  if (!IsSize(size)) return 0;
  if (slot_bytes == 0) slot_bytes = DefaultSlotBytes(size);
  if (!IsSlot(slot_bytes)) return 0;
  return RankRoom::kSlotsAt + 2 * static_cast<uint64_t>(size) * slot_bytes;
}

// Memory of a rank that other ranks write. Freed with its last owner.
class RankGroup::Room {
 public:
  Room(std::shared_ptr<PeerMemory> memory, DevicePtr pointer)
      : memory_(std::move(memory)), pointer_(pointer) {}
  ~Room() { memory_->Free(pointer_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

 private:
  const std::shared_ptr<PeerMemory> memory_;
  const DevicePtr pointer_;
};

// The plans of ranks of one process, in the order in which the first of them asked.
struct RankGroup::LocalPlans {
  std::mutex mutex;
  std::vector<Digest> plans;
};

// Why a rank has failed, as plain bytes; "": it has not.
struct Reason {
  char text[kWhyBytes];

  absl::string_view View() const { return {text, strnlen(text, kWhyBytes)}; }
  // Sets the reason to an error. `unnamed`: the text for an error without a message.
  void Set(const absl::Status& status, absl::string_view unnamed) {
    const absl::string_view why = status.message().empty() ? unnamed : status.message();
    std::memcpy(text, why.data(), std::min(why.size(), kWhyBytes - 1));
  }
};

// What a rank says of itself, as plain bytes.
struct RankGroup::Introduction {
  char magic[8];
  int32_t size, rank;
  uint64_t slot_bytes, timeout_ms;
  uint64_t gives_rooms;  // 1: they are the caller's
  uint64_t descriptors;  // 1: they are shared by file descriptors
  uint8_t identity[32];
  uint8_t uuid[16];
  PeerMemory::Handle handle;
  Reason failed;  // of its preparations
};

absl::Status RankGroup::Prepare(bool exported) {
  SINTER_RETURN_IF_ERROR(CheckOptions(options_));
  SINTER_ASSIGN_OR_RETURN(uuid_, memory_->DeviceUuid());
  SINTER_ASSIGN_OR_RETURN(words_, memory_->AllocateWords());
  if (!options_.rooms.empty()) {
    room_ = options_.rooms[static_cast<size_t>(options_.rank)];
    return absl::OkStatus();
  }
  const RoomSharing sharing = !exported              ? RoomSharing::kNone
                              : options_.descriptors ? RoomSharing::kDescriptor
                                                     : RoomSharing::kIpc;
  SINTER_ASSIGN_OR_RETURN(
      room_, memory_->Allocate(RoomBytes(options_.size, options_.slot_bytes), sharing));
  held_.push_back(std::make_shared<const Room>(memory_, room_));
  if (!exported) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(handle_, memory_->Export(room_));
  return absl::OkStatus();
}

RankGroup::Introduction RankGroup::Introduce(const absl::Status& prepared) const {
  Introduction own{};
  std::memcpy(own.magic, kMagic, sizeof(own.magic));
  own.size = options_.size;
  own.rank = options_.rank;
  own.slot_bytes = options_.slot_bytes;
  own.timeout_ms = options_.timeout_ms;
  own.gives_rooms = options_.rooms.empty() ? 0 : 1;
  own.descriptors = options_.descriptors ? 1 : 0;
  std::memcpy(own.identity, options_.identity.View().data(), sizeof(own.identity));
  std::memcpy(own.uuid, uuid_.data(), sizeof(own.uuid));
  own.handle = handle_;
  if (!prepared.ok()) own.failed.Set(prepared, "?");
  return own;
}

// The same on all ranks, since all have the same introductions.
absl::Status RankGroup::Agree(const std::vector<Introduction>& all) const {
  for (size_t i = 0; i < all.size(); ++i) {
    const Introduction& one = all[i];
    const std::string who = absl::StrCat("rank ", i);
    if (std::memcmp(one.magic, kMagic, sizeof(one.magic)) != 0) {
      return FailedPrecondition(
          who,
          " sent something else: the exchange must be an all-gather in the order "
          "of ranks, and all ranks must have this version of the library");
    }
    if (const absl::string_view why = one.failed.View(); !why.empty()) {
      return FailedPrecondition(who, ": ", why);
    }
    if (one.rank != static_cast<int>(i)) {
      return FailedPrecondition("the exchange has rank ", one.rank, " at place ", i,
                                ", must be in the order of ranks");
    }
    const struct {
      const char* field;
      uint64_t value, first;
    } fields[] = {
        {"size", static_cast<uint64_t>(one.size), static_cast<uint64_t>(all[0].size)},
        {"slot_bytes", one.slot_bytes, all[0].slot_bytes},
        {"timeout_ms", one.timeout_ms, all[0].timeout_ms},
    };
    for (const auto& field : fields) {
      if (field.value == field.first) continue;
      return FailedPrecondition(who, " has group.", field.field, " ", field.value, ", rank 0 has ",
                                field.first);
    }
    if (one.gives_rooms != all[0].gives_rooms) {
      return FailedPrecondition(
          who, one.gives_rooms != 0 ? " gives" : " does not give", " group.peers, rank 0 ",
          all[0].gives_rooms != 0 ? "does" : "does not", ": all ranks must, or none");
    }
    if (one.descriptors != all[0].descriptors) {
      return FailedPrecondition(
          who, one.descriptors != 0 ? " has" : " lacks", " SINTER_GROUP_DESCRIPTORS, rank 0 ",
          all[0].descriptors != 0 ? "has it" : "lacks it", ": all ranks must have it, or none");
    }
    if (std::memcmp(one.identity, all[0].identity, sizeof(one.identity)) != 0) {
      return FailedPrecondition(
          who, " has another version of the library or another GPU model than rank 0");
    }
    for (size_t j = 0; j < i; ++j) {
      if (std::memcmp(one.uuid, all[j].uuid, sizeof(one.uuid)) == 0) {
        return FailedPrecondition("ranks ", j, " and ", i,
                                  " have the same GPU: each needs one of its own");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status RankGroup::OpenRooms(const std::vector<Introduction>& all) {
  rooms_ = options_.rooms;
  if (!rooms_.empty()) return absl::OkStatus();
  rooms_.assign(all.size(), 0);
  for (size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(i) == options_.rank) continue;
    const absl::Status offered = memory_->Offer(room_, all[i].handle);
    if (!offered.ok()) {
      return Annotate(offered, absl::StrCat("rank ", options_.rank, ", to rank ", i));
    }
  }
  for (size_t i = 0; i < all.size(); ++i) {
    if (static_cast<int>(i) == options_.rank) {
      rooms_[i] = room_;
      continue;
    }
    absl::StatusOr<DevicePtr> opened = memory_->Open(all[i].handle);
    if (!opened.ok()) {
      return Annotate(opened.status(), absl::StrCat("rank ", options_.rank, ", of rank ", i));
    }
    opened_.push_back(*opened);
    rooms_[i] = *opened;
  }
  return absl::OkStatus();
}

absl::Status RankGroup::WriteRoom() {
  RankRoom head;
  head.rank = static_cast<uint32_t>(options_.rank);
  head.timeout_ns = options_.timeout_ms * 1000000;
  head.slot_vectors = options_.slot_bytes / 16;
  head.host_words = words_.device;
  std::copy(rooms_.begin(), rooms_.end(), head.rooms.begin());
  SINTER_RETURN_IF_ERROR(memory_->Fill(room_, 0, RankRoom::kSlotsAt));
  SINTER_RETURN_IF_ERROR(
      memory_->Fill(room_ + RankRoom::kSlotsAt, RankRoom::kEmptyByte,
                    RoomBytes(options_.size, options_.slot_bytes) - RankRoom::kSlotsAt));
  return memory_->Upload(room_, &head, sizeof(head));
}

absl::Status RankGroup::SendProofs() {
  // From a place of this rank's room that no other writes.
  const DevicePtr own =
      room_ + RankRoom::kProofsAt + static_cast<uint64_t>(options_.rank) * kProofBytes;
  for (int peer = 0; peer < options_.size; ++peer) {
    if (peer == options_.rank) continue;
    const std::array<uint64_t, 2> proof = Proof(options_.rank, peer);
    SINTER_RETURN_IF_ERROR(memory_->Upload(own, proof.data(), kProofBytes));
    const absl::Status pushed =
        memory_->Push(rooms_[static_cast<size_t>(peer)] + (own - room_), own, kProofBytes);
    if (!pushed.ok()) {
      return Annotate(pushed, absl::StrCat("rank ", options_.rank, ", writing to rank ", peer));
    }
  }
  return absl::OkStatus();
}

absl::Status RankGroup::CheckProofs() const {
  for (int peer = 0; peer < options_.size; ++peer) {
    if (peer == options_.rank) continue;
    std::array<uint64_t, 2> seen{};
    SINTER_RETURN_IF_ERROR(memory_->Download(
        seen.data(), room_ + RankRoom::kProofsAt + static_cast<uint64_t>(peer) * kProofBytes,
        kProofBytes));
    if (seen != Proof(peer, options_.rank)) {
      return FailedPrecondition(
          "what rank ", peer, " wrote has not arrived at rank ", options_.rank,
          ": the link between their GPUs does not carry data, as with a driver patched to allow "
          "peer access, or group.peers are not the ranks' buffers in order");
    }
  }
  return absl::OkStatus();
}

// After an exchange that failed none is made: ranks may disagree about which one they are in.
absl::Status RankGroup::Gather(const void* send, size_t bytes, void* recv) {
  if (gathered_.ok()) gathered_ = exchange_(send, bytes, recv);
  return gathered_;
}

// Whether no rank has failed; a rank that has tells all others why.
absl::Status RankGroup::AllOk(const absl::Status& own) {
  Reason reason{};
  if (!own.ok()) reason.Set(own, "failed");
  std::vector<Reason> reasons(static_cast<size_t>(options_.size));
  const absl::Status gathered = Gather(&reason, sizeof(reason), reasons.data());
  if (!own.ok()) return own;
  SINTER_RETURN_IF_ERROR(gathered);
  for (size_t rank = 0; rank < reasons.size(); ++rank) {
    const absl::string_view why = reasons[rank].View();
    if (why.empty()) continue;
    const bool is_text = std::none_of(why.begin(), why.end(), [](unsigned char c) {
      return absl::ascii_iscntrl(c) && !absl::ascii_isspace(c);
    });
    if (!is_text || why.size() == kWhyBytes) {
      return FailedPrecondition("rank ", rank, " sent no text of an error, so what the exchange ",
                                "gave is not what it sent: each rank's bytes, in their order");
    }
    return FailedPrecondition(why);
  }
  return absl::OkStatus();
}

absl::Status RankGroup::Connect(const std::vector<Introduction>& all) {
  absl::Status status = OpenRooms(all);
  if (status.ok()) status = WriteRoom();
  SINTER_RETURN_IF_ERROR(AllOk(status));
  SINTER_RETURN_IF_ERROR(AllOk(SendProofs()));
  return AllOk(CheckProofs());
}

absl::StatusOr<std::shared_ptr<RankGroup>> RankGroup::Create(
    absl::StatusOr<std::unique_ptr<PeerMemory>> memory, const RankGroupOptions& options,
    Exchange exchange) {
  // A rank without a valid size cannot take part in an exchange. The exchanges of the other ranks
  // then end when the caller's exchange function gives up.
  if (!IsSize(options.size)) return CheckOptions(options);
  std::shared_ptr<RankGroup> group(
      new RankGroup(memory.ok() ? *std::move(memory) : nullptr, options, std::move(exchange)));
  if (options.slot_bytes == 0) group->options_.slot_bytes = DefaultSlotBytes(options.size);
  const absl::Status prepared = memory.ok() ? group->Prepare(/*exported=*/true) : memory.status();
  const Introduction own = group->Introduce(prepared);
  std::vector<Introduction> all(static_cast<size_t>(options.size));
  const absl::Status gathered = group->Gather(&own, sizeof(own), all.data());
  if (!prepared.ok()) return prepared;
  SINTER_RETURN_IF_ERROR(gathered);
  SINTER_RETURN_IF_ERROR(group->Agree(all));
  const absl::Status connected = group->Connect(all);
  if (connected.ok()) return group;
  // All ranks are here, since all have failed: none frees a room that another has open.
  group->Close().IgnoreError();
  return connected;
}

absl::StatusOr<std::vector<std::shared_ptr<RankGroup>>> RankGroup::CreateLocal(
    std::vector<std::unique_ptr<PeerMemory>> memory, const RankGroupOptions& options) {
  std::vector<std::shared_ptr<RankGroup>> groups;
  RankGroupOptions own = options;
  own.size = static_cast<int>(memory.size());
  if (own.slot_bytes == 0) own.slot_bytes = DefaultSlotBytes(own.size);
  std::vector<Introduction> all;
  std::vector<DevicePtr> rooms;
  std::vector<std::shared_ptr<const Room>> held;
  for (size_t i = 0; i < memory.size(); ++i) {
    own.rank = static_cast<int>(i);
    std::shared_ptr<RankGroup> group(new RankGroup(std::move(memory[i]), own, nullptr));
    const absl::Status prepared = group->Prepare(/*exported=*/false);
    if (!prepared.ok()) return prepared;
    all.push_back(group->Introduce(prepared));
    rooms.push_back(group->room_);
    held.insert(held.end(), group->held_.begin(), group->held_.end());
    groups.push_back(std::move(group));
  }
  if (groups.empty()) return CheckOptions(own);
  SINTER_RETURN_IF_ERROR(groups[0]->Agree(all));
  const auto plans = std::make_shared<LocalPlans>();
  for (const auto& group : groups) {
    group->rooms_ = rooms;
    group->local_ = plans;
    group->held_ = held;
    for (const auto& peer : groups) {
      if (peer != group) SINTER_RETURN_IF_ERROR(group->memory_->Reach(*peer->memory_));
    }
    SINTER_RETURN_IF_ERROR(group->WriteRoom());
  }
  for (const auto& group : groups) SINTER_RETURN_IF_ERROR(group->SendProofs());
  for (const auto& group : groups) SINTER_RETURN_IF_ERROR(group->CheckProofs());
  return groups;
}

RankGroup::~RankGroup() {
  for (const DevicePtr opened : opened_) memory_->Close(opened);
  held_.clear();
  if (words_.host != nullptr) memory_->FreeWords(words_);
}

absl::Status RankGroup::GetStatus(int* rank) const {
  const uint32_t outcome = __atomic_load_n(&words_.host[0], __ATOMIC_RELAXED);
  const int meant = outcome == 0 ? -1 : static_cast<int>(outcome >> 8);
  if (rank != nullptr) *rank = meant;
  switch (outcome & 0xFF) {
    case 0:
      return absl::OkStatus();
    case RankRoom::kTimedOut:
      return DeadlineExceeded(
          "rank ", meant, " sent nothing for ", options_.timeout_ms,
          " ms; the group has ended: its results since then are undefined, make another one");
    case RankRoom::kMismatch:
      return FailedPrecondition(
          "rank ", meant,
          " launched another plan, or another number of rows, than a rank that "
          "waited for it; the group has ended: make another one");
    default:
      return absl::AbortedError(
          absl::StrCat("rank ", meant, " aborted the group: make another one"));
  }
}

absl::Status RankGroup::Abort() {
  const uint32_t why = RankRoom::kAborted | static_cast<uint32_t>(options_.rank) << 8;
  // Ends the waits of this rank's kernels: they poll this word, so the GPU need not be idle.
  __atomic_store_n(&words_.host[1], why, __ATOMIC_RELAXED);
  // The outcome stays what a kernel wrote before, if one did.
  uint32_t alive = 0;
  __atomic_compare_exchange_n(&words_.host[0], &alive, why, /*weak=*/false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  // Ends the waits of the other ranks' kernels, even if no kernel of this rank is running.
  const std::lock_guard<std::mutex> lock(mutex_);
  absl::Status first;
  for (const DevicePtr room : rooms_) {
    const absl::Status told =
        memory_->Upload(room + offsetof(RankRoom, outcome), &why, sizeof(why));
    if (first.ok()) first = told;
  }
  return first;
}

absl::Status RankGroup::AgreeOnPlan(const Digest& plan) {
  const std::lock_guard<std::mutex> agreeing(closing_);
  if (std::find(plans_.begin(), plans_.end(), plan) != plans_.end()) return absl::OkStatus();
  if (left_) return FailedPrecondition("the group is closed: make another one");
  const auto differs = [&](absl::string_view who, const Digest& other) {
    return FailedPrecondition(
        who, " binds plan ", other.Hex().substr(0, 16), ", rank ", options_.rank, " binds ",
        plan.Hex().substr(0, 16),
        ": prepare the same chain with the same options and tuning set on all ranks, and bind "
        "plans in one order");
  };
  if (local_ != nullptr) {
    const std::lock_guard<std::mutex> lock(local_->mutex);
    if (plans_.size() == local_->plans.size()) local_->plans.push_back(plan);
    const Digest& first = local_->plans[plans_.size()];
    if (first != plan) return differs("another rank", first);
  } else {
    std::vector<Digest> all(static_cast<size_t>(options_.size));
    SINTER_RETURN_IF_ERROR(Gather(&plan, sizeof(plan), all.data()));
    for (size_t rank = 0; rank < all.size(); ++rank) {
      if (all[rank] != plan) return differs(absl::StrCat("rank ", rank), all[rank]);
    }
  }
  plans_.push_back(plan);
  return absl::OkStatus();
}

absl::Status RankGroup::CheckLaunch() const {
  if (left_.load(std::memory_order_relaxed)) {
    return FailedPrecondition("the group is closed: bind the plan to another one");
  }
  return GetStatus(nullptr);
}

absl::Status RankGroup::Close() {
  const std::lock_guard<std::mutex> closing(closing_);
  std::vector<DevicePtr> opened;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return absl::OkStatus();
    left_ = true;
    rooms_.clear();
    opened.swap(opened_);
  }
  for (const DevicePtr room : opened) memory_->Close(room);
  if (exchange_) SINTER_RETURN_IF_ERROR(AllOk(absl::OkStatus()));
  const std::lock_guard<std::mutex> lock(mutex_);
  held_.clear();
  closed_ = true;
  return absl::OkStatus();
}

}  // namespace sinter
