#include "tests/unit/fusion/fit/plan_mutator.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "src/product/dataflow/dataflow.h"
#include "tests/support/sequences.h"

namespace sinter::testing {
namespace {

class Mutator {
 public:
  Mutator(Plan plan, const std::vector<Plan>& others, std::mt19937_64* random)
      : plan_(std::move(plan)), others_(others), random_(*random) {}

  std::string Run() {
    for (int edits = 1 + Below(3); edits > 0; --edits) Edit();
    return plan_.Encode();
  }

 private:
  int Below(size_t n) { return static_cast<int>(random_() % n); }
  bool Coin() { return Below(2) == 0; }

  // Near what it was, or far.
  template <typename T>
  void Change(T* value) {
    switch (Below(9)) {
      case 0:
        *value = static_cast<T>(*value + 1);
        return;
      case 1:
        *value = static_cast<T>(*value - 1);
        return;
      case 2:
        *value = static_cast<T>(*value * 2);
        return;
      case 3:
        *value = static_cast<T>(*value / 2);
        return;
      case 4:
        *value = static_cast<T>(*value ^ (uint64_t{1} << Below(41)));
        return;
      case 5:
        *value = static_cast<T>(0);
        return;
      case 6:
        *value = static_cast<T>(*value + 64 * (Below(65) - 32));
        return;
      case 7:
        *value = static_cast<T>(*value + 1024 * (Below(65) - 32));
        return;
      default:
        *value = static_cast<T>(random_() >> Below(64));
    }
  }
  void Flip(bool* value) { *value = !*value; }

  void Edit() {
    PlannedKernel& kernel = Pick(plan_.kernels);
    switch (Below(12)) {
      case 0:
        return Change(&plan_.workspace_bytes);
      case 1:
        return Change(&plan_.bucket);
      case 2:
        return Change(&kernel.spec.workspace_flags_offset);
      case 3:
        return Reorder();
      case 4:
        return Borrow(&kernel);
      default:
        kernel.spec.stitch != nullptr ? EditStitch(&kernel.spec) : EditProducts(&kernel.spec);
    }
  }

  template <typename T>
  T& Pick(std::vector<T>& list) {
    return list[static_cast<size_t>(Below(list.size()))];
  }

  void Reorder() {
    std::vector<PlannedKernel>& kernels = plan_.kernels;
    const int at = Below(kernels.size());
    if (Coin()) return std::swap(kernels[static_cast<size_t>(at)], Pick(kernels));
    const PlannedKernel kernel = kernels[static_cast<size_t>(at)];
    if (Coin() || kernels.size() == 1) {
      kernels.insert(kernels.begin() + Below(kernels.size() + 1), kernel);
    } else {
      kernels.erase(kernels.begin() + at);
    }
  }

  // A schedule, a body or a place of another kernel.
  void Borrow(PlannedKernel* kernel) {
    const Plan& other = others_[static_cast<size_t>(Below(others_.size()))];
    const KernelSpec& from = other.kernels[static_cast<size_t>(Below(other.kernels.size()))].spec;
    KernelSpec& to = kernel->spec;
    if ((from.stitch != nullptr) != (to.stitch != nullptr) || Below(4) == 0) {
      to = from;
      return;
    }
    if (to.stitch == nullptr) {
      if (Coin()) to.schedule = from.schedule;
      if (Coin()) to.sequence = from.sequence;
      if (Below(3) == 0) to.operands = from.operands;
      return;
    }
    StitchSpec stitch = *to.stitch;
    if (Coin()) stitch.schedule = from.stitch->schedule;
    const bool same = from.stitch->operands.size() == stitch.operands.size();
    if (same && Coin()) stitch.body = from.stitch->body;
    if (same && Coin()) stitch.operands = from.stitch->operands;
    if (Below(3) == 0) stitch.scratch_offset = from.stitch->scratch_offset;
    to.stitch = std::make_shared<const StitchSpec>(std::move(stitch));
  }

  template <typename Operand>
  void EditPlace(Operand* operand, Operand* other) {
    switch (Below(5)) {
      case 0:
        operand->buffer = Below(8) - 1;
        return;
      case 1:
        return std::swap(operand->buffer, other->buffer);
      case 2:
        operand->buffer = other->buffer;
        operand->offset_bytes = other->offset_bytes;
        return;
      default:
        return Change(&operand->offset_bytes);
    }
  }

  void EditProducts(KernelSpec* spec) {
    switch (Below(4)) {
      case 0:
        return EditSchedule(&spec->schedule);
      case 1:
        return EditSequence(&spec->sequence);
      case 2:
        switch (Below(5)) {
          case 0:
            return Flip(&spec->constant_rows);
          case 1:
            return Flip(&spec->constant_weights);
          case 2:
            spec->operands.erase(spec->operands.begin() + Below(spec->operands.size()));
            if (spec->operands.empty()) spec->operands.resize(1);
            return;
          default:
            Pick(spec->operands).role = static_cast<Role>(Below(static_cast<size_t>(Role::kCount)));
            return;
        }
      default:
        OperandBinding& operand = Pick(spec->operands);
        if (Below(3) == 0) return Change(&operand.row_stride);
        EditPlace(&operand, &Pick(spec->operands));
    }
  }

  void EditSequence(ProductSequence* p) {
    const int i = static_cast<int>(Below(p->products.size()));
    MatrixProduct& product = (*p)[i];
    switch (Below(15)) {
      case 0:
        return Change(&product.n);
      case 1:
        return Change(&product.k);
      case 2:
        return Change(&p->m);
      case 3:
        return Change(&p->rows_per_m);
      case 4:
        return Flip(&product.pair);
      case 5:
        return SetPair(p, !(*p)[0].pair);
      case 6:
        return SetBias(p, i, !product.epilogue.has_bias());
      case 7:
        return SetActivation(p, static_cast<Activation>(Below(5)));
      case 8:
        return SetResidual(p, static_cast<Residual>(Below(3)));
      case 9:
        return SetLayout(p, p->layout() == Layout::kOI ? Layout::kIO : Layout::kOI);
      case 10:
        return SetElement(p, static_cast<DType>(1 + Below(6)));
      case 11:
        return SetFactor(p, i, static_cast<RowFactor>(Below(3)));
      case 12:
        return SetScale(p, i, static_cast<float>(1 + Below(3)));
      case 13:
        return EditOperand(Coin() ? &product.rows : &product.weights);
      default:
        if (Coin()) return p->products.push_back(product);
        if (p->size() > 1) p->products.pop_back();
    }
  }

  void EditOperand(Operand* operand) {
    switch (Below(4)) {
      case 0:
        operand->element = static_cast<DType>(1 + Below(6));
        return;
      case 1:
        operand->layout = static_cast<Layout>(Below(4));
        return;
      case 2:
        operand->scales.kind = static_cast<ScaleKind>(Below(5));
        operand->scales.element = Coin() ? DType::kF32 : operand->element;
        return;
      default:
        operand->source = static_cast<Source>(Below(3));
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

  void EditStitch(KernelSpec* spec) {
    StitchSpec stitch = *spec->stitch;
    if (Below(5) == 0) {
      Change(&stitch.scratch_offset);
    } else if (Below(2) == 0) {
      EditPlace(&Pick(stitch.operands), &Pick(stitch.operands));
    } else {
      StitchSchedule& s =
          stitch.parts.empty() || Coin() ? stitch.schedule : Pick(stitch.parts).schedule;
      int* const fields[] = {
          &s.block_threads,  &s.unit_threads, &s.cluster,    &s.vector,        &s.chunks,
          &s.column_cluster, &s.split,        &s.hold_bytes, &s.blocks_per_sm, &s.grid};
      switch (Below(5)) {
        case 0:
          Flip(Coin() ? &s.join_all : &s.keep_inputs);
          break;
        case 1:
          Change(&s.owner);
          break;
        default:
          Change(fields[Below(std::size(fields))]);
      }
    }
    spec->stitch = std::make_shared<const StitchSpec>(std::move(stitch));
  }

  Plan plan_;
  const std::vector<Plan>& others_;
  std::mt19937_64& random_;
};

}  // namespace

std::string MutateFields(Plan plan, const std::vector<Plan>& others, std::mt19937_64* random) {
  return Mutator(std::move(plan), others, random).Run();
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
