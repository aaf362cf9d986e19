#include "src/fusion/stitch/kernel_packer.h"

#include <cstddef>
#include <utility>

#include "src/fusion/stitch/kernel_order.h"

namespace sinter {
namespace {

// Long kernels of independent parts are packed while the cost is at most this factor: parts with
// one text are compiled once, and each takes the vectors that its extents allow.
constexpr size_t kLongText = 200;
constexpr double kShortTextShare = 1.1;

int OperandsOf(const StitchBody& body) { return body.body.num_inputs() + body.body.num_outputs(); }

}  // namespace

bool KernelPacker::Depend(const NodeSet& a, const NodeSet& b) const {
  NodeSet before(graph_.size());
  b.ForEach([&](int v) { before.Unite(graph_.Before(v)); });
  return before.Intersects(a);
}

KernelPacker::Kernels KernelPacker::Packed(const Kernels& kernels, size_t a, size_t b) {
  const CostedKernel &first = kernels[a], &second = kernels[b];
  Step(options_.pace);
  if (first.body == nullptr || second.body == nullptr || tries_ == kMostTries) return {};
  if (OperandsOf(*first.body) + OperandsOf(*second.body) > options_.max_operands) return {};
  Step(options_.pace, graph_.size() / 64 * (1 + second.vertices.size()));
  if (Depend(first.vertices, second.vertices)) return {};
  Ask(options_.pace);
  NodeSet both = first.vertices;
  both.Unite(second.vertices);
  ++tries_;
  absl::StatusOr<CostedKernel> packed = latency_->EvaluatePacked(graph_, both);
  if (!packed.ok() || packed->us > first.us + second.us - costs_.error_us) return {};
  Kernels list = kernels;
  list[a] = *std::move(packed);
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(b));
  return OrderKernels(graph_, &list) ? list : Kernels();
}

void KernelPacker::Shorten(CostedKernel* kernel) {
  if (kernel->body == nullptr || kernel->body->body.ops().size() < kLongText) return;
  absl::StatusOr<CostedKernel> packed = latency_->EvaluatePacked(graph_, kernel->vertices);
  if (packed.ok() && packed->us <= kShortTextShare * kernel->us) *kernel = *std::move(packed);
}

void KernelPacker::Pack(Kernels* kernels) {
  for (CostedKernel& kernel : *kernels) Shorten(&kernel);
  for (size_t a = 0; a < kernels->size(); ++a) {
    for (size_t b = a + 1; b < kernels->size();) {
      Kernels packed = Packed(*kernels, a, b);
      if (packed.empty()) {
        ++b;
        continue;
      }
      *kernels = std::move(packed);
      a = 0;  // the order may have changed
      b = 1;
    }
  }
}

}  // namespace sinter
