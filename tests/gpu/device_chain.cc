#include "tests/gpu/device_chain.h"

#include "src/reference/reference.h"
#include "tests/support/pointers.h"

namespace sinter::gpu_testing {

DeviceChain::DeviceChain(const Ports& ports, const Chain& chain, int64_t rows)
    : DeviceTensors(ports, chain, rows), bounds_(BoundsOf(chain, 0)) {}

absl::StatusOr<std::unique_ptr<DeviceChain>> DeviceChain::Make(const Ports& ports,
                                                               const Chain& chain, int64_t rows,
                                                               uint64_t seed) {
  std::unique_ptr<DeviceChain> made(new DeviceChain(ports, chain, rows));
  const bool of_own_families =
      std::any_of(chain.ops().begin(), chain.ops().end(), [&](const Op& op) {
        const bool four_bits = op.kind == OpKind::kInput && op.type.dtype == DType::kS8;
        const bool batched =
            op.kind == OpKind::kMatmul && chain.op(op.operands[1]).type.rank() >= 3;
        return four_bits || batched || op.kind == OpKind::kGroupedMatmul;
      });
  if (!of_own_families) {
    SINTER_ASSIGN_OR_RETURN(made->matched_, MatchProducts(made->chain(), 0, true));
    const ProductSequence& sequence = made->matched_.sequence;
    made->skips_final_cast_ = SizeOf(sequence.element()) == 2 && !HasPrograms(sequence);
  }
  SINTER_ASSIGN_OR_RETURN(auto inputs, RandomInputs(chain, rows, seed));
  SINTER_RETURN_IF_ERROR(made->Upload(std::move(inputs)));
  return made;
}

absl::StatusOr<std::unique_ptr<DeviceChain>> DeviceChain::Make(const Ports& ports,
                                                               const Chain& chain, int64_t rows,
                                                               std::vector<std::string> inputs,
                                                               const Bounds& bounds) {
  std::unique_ptr<DeviceChain> made(new DeviceChain(ports, chain, rows));
  made->bounds_ = bounds;
  made->skips_final_cast_ = true;
  SINTER_RETURN_IF_ERROR(made->Upload(std::move(inputs)));
  return made;
}

absl::StatusOr<const std::vector<double>*> DeviceChain::Reference() {
  if (reference_.empty()) {
    SINTER_ASSIGN_OR_RETURN(std::vector<std::vector<double>> outputs,
                            RunReferenceF64(chain(), rows(), PointersTo(inputs()),
                                            {.skip_final_cast = skips_final_cast_}));
    reference_ = std::move(outputs[0]);
  }
  return &reference_;
}

absl::Status DeviceChain::CheckRows(const std::string& output, int64_t m) const {
  const int64_t bytes = SizeOf(chain().output_type(0).dtype);
  SINTER_ASSIGN_OR_RETURN(const int64_t all, OutputBytes(chain(), 0, m));
  auto last = static_cast<size_t>(all), row_bytes = std::max<size_t>(1, last), used = row_bytes;
  if (matched_.size() > 0) {
    row_bytes = static_cast<size_t>(matched_.output_stride * bytes);
    used = static_cast<size_t>(matched_.sequence.back().n * bytes);
    last = static_cast<size_t>(m * matched_.sequence.rows_per_m) * row_bytes;
  }
  for (size_t i = 0; i < output.size(); ++i) {
    if (i < last && i % row_bytes < used) continue;
    if (static_cast<uint8_t>(output[i]) == kPoison) continue;
    return absl::DataLossError(absl::StrCat("byte ", i, " was written: row ", i / row_bytes, " of ",
                                            m, ", byte ", i % row_bytes, " of ", used));
  }
  return absl::OkStatus();
}

absl::Status DeviceChain::Check(const std::string& output, int64_t m) {
  return Check(output, m, bounds_);
}

absl::Status DeviceChain::Check(const std::string& output, int64_t m, const Bounds& bounds) {
  SINTER_ASSIGN_OR_RETURN(const std::vector<double>* reference, Reference());
  SINTER_ASSIGN_OR_RETURN(const std::vector<double> got, OutputValues(chain(), 0, m, output));
  const absl::Span<const double> want(reference->data(), got.size());
  const ErrorMeasure errors = Compare(got, want, chain().output_type(0).dtype);
  worst_.relative = std::max(worst_.relative, errors.relative);
  worst_.max = std::max(worst_.max, errors.max_over_rms);
  if (!errors.Within(bounds)) {
    return absl::DataLossError(absl::StrCat("wrong at m ", m, ": ", errors.ToString()));
  }
  return CheckRows(output, m);
}

}  // namespace sinter::gpu_testing
