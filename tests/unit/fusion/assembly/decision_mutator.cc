#include "tests/unit/fusion/assembly/decision_mutator.h"

#include "src/product/dataflow/dataflow.h"

namespace sinter::testing {
namespace {

class Mutator {
 public:
  Mutator(Decisions decisions, const std::vector<Decisions>& others, std::mt19937_64* random)
      : decisions_(std::move(decisions)), others_(others), random_(*random) {}

  std::string Run() {
    for (int edits = 1 + Below(3); edits > 0; --edits) Edit();
    return EncodeDecisions(decisions_);
  }

 private:
  int Below(size_t n) { return static_cast<int>(random_() % n); }
  bool Coin() { return Below(2) == 0; }

  // Near what it was, or far.
  template <typename T>
  void Change(T* value) {
    const auto was = static_cast<uint64_t>(*value);  // sums of it wrap
    switch (Below(9)) {
      case 0:
        *value = static_cast<T>(was + 1);
        return;
      case 1:
        *value = static_cast<T>(was - 1);
        return;
      case 2:
        *value = static_cast<T>(was * 2);
        return;
      case 3:
        *value = static_cast<T>(*value / 2);
        return;
      case 4:
        *value = static_cast<T>(was ^ (uint64_t{1} << Below(41)));
        return;
      case 5:
        *value = static_cast<T>(0);
        return;
      case 6:
        *value = static_cast<T>(was + static_cast<uint64_t>(64 * (Below(65) - 32)));
        return;
      case 7:
        *value = static_cast<T>(was + static_cast<uint64_t>(1024 * (Below(65) - 32)));
        return;
      default:
        *value = static_cast<T>(random_() >> Below(64));
    }
  }
  void Flip(bool* value) { *value = !*value; }

  void Edit() {
    KernelDecision& kernel = Pick(decisions_.kernels);
    switch (Below(10)) {
      case 0:
        return Coin() ? Change(&decisions_.bucket) : Flip(&decisions_.batch_invariant);
      case 1:
        return Flip(Coin() ? &decisions_.absorbed.norms : &decisions_.absorbed.groups);
      case 2:
        return Reorder();
      case 3:
        return Borrow(&kernel);
      case 4:
      case 5:
        return EditOps(&kernel);
      default:
        kernel.products == 0 ? EditStitch(&kernel) : EditSchedule(&kernel.schedule);
    }
  }

  template <typename T>
  T& Pick(std::vector<T>& list) {
    return list[static_cast<size_t>(Below(list.size()))];
  }

  void Reorder() {
    std::vector<KernelDecision>& kernels = decisions_.kernels;
    const int at = Below(kernels.size());
    if (Coin()) return std::swap(kernels[static_cast<size_t>(at)], Pick(kernels));
    const KernelDecision kernel = kernels[static_cast<size_t>(at)];
    if (Coin() || kernels.size() == 1) {
      kernels.insert(kernels.begin() + Below(kernels.size() + 1), kernel);
    } else {
      kernels.erase(kernels.begin() + at);
    }
  }

  // A schedule, ops or all of another kernel.
  void Borrow(KernelDecision* to) {
    const Decisions& other = others_[static_cast<size_t>(Below(others_.size()))];
    const KernelDecision& from = other.kernels[static_cast<size_t>(Below(other.kernels.size()))];
    if (Below(4) == 0) {
      *to = from;
    } else if (Coin()) {
      to->ops = from.ops;
    } else {
      to->schedule = from.schedule;
      to->stitch = from.stitch;
      to->parts = from.parts;
    }
  }

  // Ops move between kernels, double or are lost.
  void EditOps(KernelDecision* kernel) {
    std::vector<ValueId>& values = kernel->ops.values;
    switch (Below(6)) {
      case 0:
        return Change(&kernel->ops.first);
      case 1:
        return Flip(&kernel->ops.turned);
      case 2:
        Change(&kernel->products);
        kernel->family = kernel->products > 0 ? &ProductFamily() : &StitchFamily();
        return;
      case 3:
        return Change(&Pick(values));
      case 4:
        if (values.size() > 1) values.erase(values.begin() + Below(values.size()));
        return;
      default:
        KernelDecision& other = Pick(decisions_.kernels);
        values.push_back(Pick(other.ops.values));
        std::sort(values.begin(), values.end());
        if (other.ops.values.size() > 1 && Coin()) {
          other.ops.values.erase(other.ops.values.begin() + Below(other.ops.values.size()));
        }
    }
  }

  void EditSchedule(Schedule* s) {
    int* const fields[] = {&s->block_m,       &s->warpgroups_m,   &s->warpgroups_n,
                           &s->block_k,       &s->stages,         &s->cluster,
                           &s->cut,           &s->grid,           &s->first.block_n,
                           &s->first.split_k, &s->second.block_n, &s->second.split_k};
    switch (Below(6)) {
      case 0:
        s->share = static_cast<Share>(Below(3));
        return;
      case 1:
        return Flip(&s->swapped);
      case 2:
        s->dataflow = static_cast<Dataflow>(1 + Below(AllDataflows().size()));
        return;
      default:
        return Change(fields[Below(std::size(fields))]);
    }
  }

  void EditStitch(KernelDecision* kernel) {
    StitchSchedule& s =
        kernel->parts.empty() || Coin() ? kernel->stitch : Pick(kernel->parts).schedule;
    int* const fields[] = {&s.block_threads, &s.unit_threads,  &s.cluster,
                           &s.vector,        &s.chunks,        &s.split,
                           &s.hold_bytes,    &s.blocks_per_sm, &s.grid};
    switch (Below(5)) {
      case 0:
        return Flip(Coin() ? &s.join_all : &s.keep_inputs);
      case 1:
        return Change(&s.owner);
      default:
        return Change(fields[Below(std::size(fields))]);
    }
  }

  Decisions decisions_;
  const std::vector<Decisions>& others_;
  std::mt19937_64& random_;
};

}  // namespace

std::string MutateFields(Decisions decisions, const std::vector<Decisions>& others,
                         std::mt19937_64* random) {
  return Mutator(std::move(decisions), others, random).Run();
}

std::string MutateBytes(std::string bytes, std::mt19937_64* random) {
  for (int edits = 1 + static_cast<int>((*random)() % 3); edits > 0; --edits) {
    const size_t at = (*random)() % bytes.size();
    if ((*random)() % 3 > 0) {
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (*random)() % 8));
      continue;
    }
    // A word, as fields are written.
    const uint64_t word = (*random)() >> (*random)() % 64;
    std::memcpy(&bytes[at], &word, std::min(sizeof(word), bytes.size() - at));
  }
  return bytes;
}

}  // namespace sinter::testing
