#include "tests/gpu/dsm_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/dtype.h"
#include "src/device/device_library.h"
#include "tests/gpu/dsm_source.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kBarrierBytes = 256;  // at the base of shared memory, aligned to 128

int PartFloats(const DsmCase& c) { return c.registers * c.threads; }

// Rounds that a launch takes through the mailbox; a store's parts are its clusters.
int RoundsOf(const DsmCase& c) { return c.IsStore() ? 1 : c.rounds; }

// Chunks of the rank that owns most.
int MostChunks(const DsmCase& c) { return (c.registers / 4 + c.ranks - 1) / c.ranks; }

const char* BodyOf(const DsmCase& c) {
  if (c.IsStore()) return kDsmStore;
  if (c.IsShuffle()) return kDsmShuffle;
  return c.primitive == DsmPrimitive::kReduceScatter ? kDsmScatter : kDsmExchange;
}

int Deliveries(const DsmCase& c) {
  if (c.IsStore() || c.primitive == DsmPrimitive::kReduceScatter) return 1;
  if (c.IsShuffle()) return c.ranks;
  return c.ranks == 2 ? 1 : 2;
}

// An upper bound that needs no knowledge of the library: parts or slices of all ranks, results, and
// the staging of a bulk sum.
int SharedBytes(const DsmCase& c) {
  const int share = MostChunks(c) * c.threads * 16;
  const int slab = c.ranks * PartFloats(c) * 2;
  const int exchange = c.ranks * share + PartFloats(c) * 4 + share;
  return 128 + kBarrierBytes + (c.IsShuffle() ? slab : exchange);
}

const char* OrderName(DsmPrimitive primitive) {
  return primitive == DsmPrimitive::kStoreFree       ? "kFree"
         : primitive == DsmPrimitive::kStoreFreeBulk ? "kFreeBulk"
                                                     : "kFixed";
}

double Silu(double x) { return x / (1 + std::exp(-x)); }

uint32_t Bits(double x) {
  const float f = static_cast<float>(x);
  uint32_t bits;
  std::memcpy(&bits, &f, sizeof bits);
  return bits;
}

// What the exchanges make of one element, whose parts are `x` in rank order.
double Folded(const DsmCase& c, const std::vector<double>& x) {
  double first = 0, second = 0;
  for (size_t i = 0; i < x.size(); ++i) (i < x.size() / 2 ? first : second) += x[i];
  return c.primitive == DsmPrimitive::kExchangeMul ? Silu(first) * second : first + second;
}

// Parts [set][step][rank][element] into one result [element] for each set and, but for stores,
// step.
class Oracle {
 public:
  Oracle(const DsmCase& c, const std::vector<float>& in) : c_(c), in_(in) {}

  std::vector<uint32_t> Wanted() const {
    std::vector<uint32_t> wanted;
    for (int set = 0; set < kDsmSets; ++set) {
      for (int round = 0; round < RoundsOf(c_); ++round) {
        if (c_.IsShuffle())
          AddSlab(set * RoundsOf(c_) + round, &wanted);
        else
          AddPart(set, round, &wanted);
      }
    }
    return wanted;
  }

 private:
  float In(int row, int rank, int element) const {
    return in_[static_cast<size_t>((row * c_.ranks + rank) * PartFloats(c_) + element)];
  }

  double Result(int set, int round, int element) const {
    const int steps = c_.IsStore() ? c_.clusters : 1;
    std::vector<double> parts;
    for (int step = 0; step < steps; ++step) {
      for (int rank = 0; rank < c_.ranks; ++rank)
        parts.push_back(In((set * RoundsOf(c_) + round) * steps + step, rank, element));
    }
    return Folded(c_, parts);
  }

  // The element that holds up where `element` holds gate: half of a thread's registers further on.
  int UpOf(int element) const {
    const int r = element / (4 * c_.threads) * 4 + element % 4 + c_.registers / 2;
    const int thread = element / 4 % c_.threads;
    return (r / 4 * c_.threads + thread) * 4 + r % 4;
  }

  void AddPart(int set, int round, std::vector<uint32_t>* wanted) const {
    const int half = c_.registers / 2;
    for (int e = 0; e < PartFloats(c_); ++e) {
      const bool gate = e / (4 * c_.threads) * 4 + e % 4 < half;
      double x = Result(set, round, e);
      if (c_.primitive == DsmPrimitive::kSequentialGated)
        x = gate ? Silu(x) * Result(set, round, UpOf(e)) : 0;
      wanted->push_back(Bits(x));
    }
  }

  void AddSlab(int row, std::vector<uint32_t>* wanted) const {
    const bool bf16 = c_.primitive == DsmPrimitive::kShuffleBF16;
    const auto round = [&](float x) -> uint32_t { return bf16 ? F32ToBF16(x) : F32ToF16(x); };
    for (int rank = 0; rank < c_.ranks; ++rank) {
      for (int e = 0; e < PartFloats(c_); e += 2)
        wanted->push_back(round(In(row, rank, e)) | round(In(row, rank, e + 1)) << 16);
    }
  }

  const DsmCase& c_;
  const std::vector<float>& in_;
};

// Ragged shares: no multiple of the ranks where that is possible.
int RegistersFor(int ranks) {
  switch (ranks) {
    case 2:
      return 12;
    case 3:
      return 16;
    case 4:
      return 32;
    case 5:
      return 24;
    case 8:
      return 48;
    default:
      return 80;
  }
}

}  // namespace

const char* NameOf(DsmPrimitive primitive) {
  constexpr const char* kNames[] = {
      "all_exchange_add", "all_exchange_mul",   "sequential_gated",
      "reduce_scatter",   "shuffle_bf16",       "shuffle_f16",
      "inter_cluster",    "inter_cluster_free", "inter_cluster_free_bulk"};
  return kNames[static_cast<int>(primitive)];
}

std::string DsmCase::Name() const {
  return absl::StrCat(NameOf(primitive), "_cluster", cluster, "_ranks", ranks, "_r", registers);
}

std::vector<DsmCase> AllDsmCases() {
  constexpr int kShapes[][2] = {{2, 2}, {4, 4}, {8, 8},  {16, 16}, {4, 2}, {8, 2},
                                {8, 4}, {8, 3}, {16, 4}, {16, 8},  {16, 5}};
  std::vector<DsmCase> cases;
  for (const auto& [cluster, ranks] : kShapes) {
    for (int p = 0; p <= static_cast<int>(DsmPrimitive::kStoreFreeBulk); ++p) {
      DsmCase c;
      c.primitive = static_cast<DsmPrimitive>(p);
      c.cluster = cluster;
      c.ranks = ranks;
      c.registers = RegistersFor(ranks);
      c.clusters = c.IsStore() ? 3 : std::max(1, 8 / cluster);
      if (c.primitive == DsmPrimitive::kExchangeMul && ranks % 2 != 0) continue;
      cases.push_back(c);
    }
  }
  DsmCase few;  // more ranks than chunks: some own nothing
  few.cluster = few.ranks = 8;
  few.registers = 12;
  cases.push_back(few);
  few.primitive = DsmPrimitive::kReduceScatter;
  cases.push_back(few);
  few.primitive = DsmPrimitive::kStoreFixed;
  few.clusters = 3;
  cases.push_back(few);
  return cases;
}

CompileRequest DsmRequest(const DsmCase& c, bool jitter) {
  CompileRequest request;
  request.name = absl::StrCat(c.Name(), ".cu");
  request.source = absl::StrCat(kDsmHead, BodyOf(c), kDsmTail);
  request.arch = "sm_90a";
  request.entry = "dsm_case";
  request.headers = CopyDeviceHeaders();
  const auto define = [&](const char* name, auto value) {
    request.options.push_back(absl::StrCat("-D", name, "=", value));
  };
  define("CLUSTER", c.cluster);
  define("RANKS", c.ranks);
  define("REGISTERS", c.registers);
  define("THREADS", c.threads);
  define("ROUNDS", RoundsOf(c));
  define("SETS", kDsmSets);
  define("DELIVERIES", Deliveries(c));
  define("IS_STORE", c.IsStore() ? "true" : "false");
  define("SEQUENTIAL", c.primitive == DsmPrimitive::kSequentialGated ? "true" : "false");
  define("OP", c.primitive == DsmPrimitive::kExchangeMul ? "DsmMul<Silu>" : "DsmAdd");
  define("ELEMENT", c.primitive == DsmPrimitive::kShuffleF16 ? "Float16" : "BFloat16");
  define("ORDER", OrderName(c.primitive));
  if (jitter)
    request.options.insert(request.options.end(), {"-DSINTER_JITTER", "-DSINTER_TRAP_SPINS"});
  return request;
}

LaunchRecipe ClusterRecipe(const char* entry, int cluster, int clusters, int threads,
                           uint64_t shared_bytes, int pointers) {
  LaunchRecipe recipe;
  recipe.entry = entry;
  recipe.grid[0] = static_cast<uint32_t>(cluster * clusters);
  recipe.block[0] = static_cast<uint32_t>(threads);
  recipe.cluster[0] = static_cast<uint32_t>(cluster);
  recipe.shared_bytes = static_cast<uint32_t>(shared_bytes);
  for (int i = 0; i < pointers; ++i) {
    ArgSlot pointer;
    pointer.index = i;
    recipe.args.push_back(pointer);
  }
  ArgSlot m;
  m.kind = ArgKind::kSymbolM;
  recipe.args.push_back(m);
  return recipe;
}

LaunchRecipe DsmRecipe(const DsmCase& c) {
  return ClusterRecipe("dsm_case", c.cluster, c.clusters, c.threads,
                       static_cast<uint64_t>(SharedBytes(c)), 5);
}

DsmData MakeDsmData(const DsmCase& c, uint64_t seed) {
  DsmData data;
  const int steps = c.IsStore() ? c.clusters : c.rounds;
  std::mt19937_64 random(seed);
  data.in.resize(static_cast<size_t>(kDsmSets * steps * c.ranks * PartFloats(c)));
  for (float& x : data.in)
    x = static_cast<float>(static_cast<int32_t>(random() >> 32)) / 2147483648.0f;
  data.wanted = Oracle(c, data.in).Wanted();
  const int share = MostChunks(c) * 4 * c.threads;  // floats
  data.scratch_bytes = static_cast<uint64_t>(c.cluster * c.clusters * share) * 4;
  data.counter_bytes = static_cast<uint64_t>(c.cluster) * 4;
  return data;
}

uint64_t DsmComparedPerLaunch(const DsmCase& c) {
  const uint64_t part = static_cast<uint64_t>(PartFloats(c));
  const uint64_t groups = static_cast<uint64_t>(c.Groups());
  if (c.IsStore()) return groups * part;
  const uint64_t all = groups * static_cast<uint64_t>(c.clusters * c.rounds);
  if (c.primitive == DsmPrimitive::kReduceScatter) return all * part;
  const uint64_t ranks = static_cast<uint64_t>(c.ranks);
  if (c.IsShuffle()) return all * ranks * ranks * part / 2;
  return all * ranks * (c.primitive == DsmPrimitive::kSequentialGated ? part / 2 : part);
}

}  // namespace sinter::gpu_testing
