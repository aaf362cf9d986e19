#include "tests/bench/cublaslt_ffn.h"

#include "tests/bench/activation_kernel.h"

namespace sinter::bench {
namespace {

constexpr uint64_t kWorkspaceBytes = uint64_t{64} << 20;
// Algorithms are tried with fewer copies and calls than contestants are timed with.
constexpr size_t kTrialSets = 256;
constexpr int kTrialReplays = 5, kLongTrialReplays = 2, kLongTrialCalls = 4;
constexpr double kLongUs = 200;
constexpr uint64_t kAlignment = 1024;

// Gate's and up's bytes as one weight of 2n outputs.
std::string Merged(const MatrixProduct& p, const std::string& gate, const std::string& up) {
  if (p.weights.layout == Layout::kOI) return gate + up;
  std::string merged;
  merged.reserve(gate.size() * 2);
  const size_t row = static_cast<size_t>(p.n * p.weights.bytes());
  for (size_t at = 0; at < gate.size(); at += row) {
    merged.append(gate, at, row);
    merged.append(up, at, row);
  }
  return merged;
}

// The library's epilogue for an activation; 0 when it has none.
uint32_t EpilogueOf(Activation act) {
  switch (act) {
    case Activation::kIdentity:
      return kLtEpilogueNone;
    case Activation::kRelu:
      return kLtEpilogueRelu;
    case Activation::kGeluTanh:
      return kLtEpilogueGelu;
    default:
      return 0;
  }
}

uint32_t WithBias(uint32_t epilogue, bool bias) {
  if (!bias) return epilogue;
  return epilogue == kLtEpilogueNone ? kLtEpilogueBias : epilogue | kLtEpilogueBias;
}

struct Parts {
  explicit Parts(Measurer* measurer) : arena(measurer) {}
  DeviceArena arena;
  std::shared_ptr<LtProduct> first, second;            // second is null for one product
  std::shared_ptr<const ActivationKernel> activation;  // null: the first product's epilogue does it
  int first_algorithm = 0, second_algorithm = 0;
  DevicePtr x = 0, first_out = 0, c = 0, out = 0;
  std::vector<DevicePtr> w1, w2;  // by set
};

class Builder {
 public:
  Builder(const Ports& ports, const LtContext& context, const Case& c, const GraphData& data,
          int algorithms)
      : ports_(ports),
        context_(context),
        case_(c),
        v_(c.matched),
        first_(v_.sequence.front()),
        last_(v_.sequence.back()),
        data_(data),
        algorithms_(algorithms),
        measurer_(ports.measurer.get()),
        parts_(std::make_shared<Parts>(measurer_)) {}

  absl::StatusOr<Runnable> Build() {
    if (!v_.contiguous) return absl::InvalidArgumentError("the serving form wants contiguous rows");
    SINTER_RETURN_IF_ERROR(AllocateTensors());
    SINTER_RETURN_IF_ERROR(UploadWeights());
    SINTER_RETURN_IF_ERROR(MakeProducts());
    SINTER_RETURN_IF_ERROR(ChooseAlgorithms());
    const std::shared_ptr<Parts> p = parts_;
    return Runnable{
        sets(), [p](StreamHandle stream, size_t set, bool) -> absl::Status {
          SINTER_RETURN_IF_ERROR(
              p->first->Enqueue(stream, p->first_algorithm, p->x, p->w1[set], p->first_out));
          if (p->activation != nullptr) {
            SINTER_RETURN_IF_ERROR(p->activation->Enqueue(stream));
          }
          if (p->second == nullptr) return absl::OkStatus();
          return p->second->Enqueue(stream, p->second_algorithm, p->c, p->w2[set], p->out);
        }};
  }

 private:
  size_t sets() const { return data_.sets(); }
  int64_t width() const { return first_.Width() * first_.n; }

  absl::StatusOr<DevicePtr> Allocate(int64_t elements) {
    SINTER_ASSIGN_OR_RETURN(
        const DeviceBuffer buffer,
        parts_->arena.Allocate(static_cast<uint64_t>(elements * first_.ResultBytes())));
    return buffer.ptr;
  }

  absl::Status AllocateTensors() {
    const std::vector<DevicePtr> set = data_.CanonicalSet(0);
    parts_->x = set[static_cast<size_t>(v_.rows)];
    parts_->out = set.back();
    SINTER_ASSIGN_OR_RETURN(parts_->first_out, Allocate(case_.m * width()));
    SINTER_ASSIGN_OR_RETURN(parts_->c, Allocate(case_.m * first_.n));
    if (v_.size() == 1) parts_->c = parts_->out;
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<DevicePtr>> UploadCopies(const std::string& bytes, size_t copies) {
    const uint64_t step = (bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
    SINTER_ASSIGN_OR_RETURN(const DeviceBuffer all, parts_->arena.Allocate(step * copies));
    SINTER_RETURN_IF_ERROR(
        bench::UploadCopies(measurer_, all.ptr, bytes, step, static_cast<int64_t>(copies)));
    std::vector<DevicePtr> pointers;
    for (size_t i = 0; i < copies; ++i) pointers.push_back(all.ptr + i * step);
    return pointers;
  }

  const std::string& Input(int index) const { return data_.inputs()[static_cast<size_t>(index)]; }

  absl::Status UploadWeights() {
    const ProductInputs& in = v_.inputs.front();
    const std::string first =
        first_.pair ? Merged(first_, Input(in.weights), Input(in.weights_up)) : Input(in.weights);
    SINTER_ASSIGN_OR_RETURN(parts_->w1, UploadCopies(first, sets()));
    if (v_.size() == 1) return absl::OkStatus();
    SINTER_ASSIGN_OR_RETURN(parts_->w2, UploadCopies(Input(v_.inputs.back().weights), sets()));
    return absl::OkStatus();
  }

  absl::StatusOr<DevicePtr> UploadBias(const std::string& bytes) {
    SINTER_ASSIGN_OR_RETURN(const std::vector<DevicePtr> one, UploadCopies(bytes, 1));
    return one[0];
  }

  absl::Status MakeProducts() {
    const Layout layout = v_.sequence.layout();
    const DType element = v_.sequence.element();
    const bool biased = first_.epilogue.bias().has_value();
    LtShape first{case_.m, width(), first_.k, layout, element, kLtEpilogueNone, 0};
    if (biased) {
      std::string bias = Input(v_.NumberOf(0, Role::kBias));
      if (first_.pair) bias += Input(v_.NumberOf(0, Role::kBiasUp));
      SINTER_ASSIGN_OR_RETURN(first.bias, UploadBias(bias));
    }
    const uint32_t own = first_.pair ? 0 : EpilogueOf(first_.epilogue.activation());
    absl::Status made = absl::NotFoundError("");
    if (own != 0) {
      first.epilogue = WithBias(own, biased);
      made = MakeProduct(first, &parts_->first);
      if (made.ok()) parts_->first_out = parts_->c;
    }
    if (!made.ok()) {
      first.epilogue = WithBias(kLtEpilogueNone, biased);
      SINTER_RETURN_IF_ERROR(MakeProduct(first, &parts_->first));
      SINTER_ASSIGN_OR_RETURN(
          parts_->activation,
          ActivationKernel::Make(ports_.compiler.get(), ports_.loader.get(), first_, case_.m,
                                 parts_->first_out, parts_->c));
    }
    if (v_.size() == 1) return absl::OkStatus();
    const bool biased2 = last_.epilogue.bias().has_value();
    LtShape second{case_.m, last_.n, last_.k, layout, element, WithBias(kLtEpilogueNone, biased2),
                   0};
    if (biased2) {
      SINTER_ASSIGN_OR_RETURN(second.bias, UploadBias(Input(v_.NumberOf(1, Role::kBias))));
    }
    return MakeProduct(second, &parts_->second);
  }

  absl::Status MakeProduct(const LtShape& shape, std::shared_ptr<LtProduct>* out) {
    return measurer_->RunAndWait([&](StreamHandle) -> absl::Status {
      SINTER_ASSIGN_OR_RETURN(*out, LtProduct::Make(context_, shape, algorithms_));
      return absl::OkStatus();
    });
  }

  absl::Status ChooseAlgorithms() {
    const Parts& p = *parts_;
    SINTER_ASSIGN_OR_RETURN(parts_->first_algorithm, Fastest(*p.first, p.x, p.w1, p.first_out));
    if (p.second == nullptr) return absl::OkStatus();
    SINTER_ASSIGN_OR_RETURN(parts_->second_algorithm, Fastest(*p.second, p.c, p.w2, p.out));
    return absl::OkStatus();
  }

  // One that cannot run is passed over.
  absl::StatusOr<int> Fastest(const LtProduct& product, DevicePtr x,
                              const std::vector<DevicePtr>& w, DevicePtr d) {
    if (algorithms_ == 1) return 0;
    TimingOptions timing;
    const bool is_long = case_.LimitUs(ports_.model) > kLongUs;
    timing.replays = is_long ? kLongTrialReplays : kTrialReplays;
    if (is_long) timing.calls = kLongTrialCalls;
    int best = -1;
    double best_us = 0;
    absl::Status last;
    for (int algorithm = 0; algorithm < product.algorithms(); ++algorithm) {
      const Runnable one{std::min(w.size(), kTrialSets),
                         [&](StreamHandle stream, size_t set, bool) {
                           return product.Enqueue(stream, algorithm, x, w[set], d);
                         }};
      last = measurer_->RunAndWait([&](StreamHandle s) { return one.enqueue(s, 0, false); });
      if (!last.ok()) continue;
      const absl::StatusOr<double> us = TimeInGraph(measurer_, one, timing);
      last = us.status();
      if (us.ok() && (best < 0 || *us < best_us)) best = algorithm, best_us = *us;
    }
    if (best < 0) return Annotate(last, "no cuBLASLt algorithm runs");
    return best;
  }

  const Ports& ports_;
  const LtContext& context_;
  const Case& case_;
  const MatchedSequence& v_;
  const MatrixProduct &first_, &last_;
  const GraphData& data_;
  const int algorithms_;
  Measurer* const measurer_;
  const std::shared_ptr<Parts> parts_;
};

}  // namespace

absl::StatusOr<LtContext> MakeLtContext(const Ports& ports, const std::string& path) {
  LtContext context;
  SINTER_ASSIGN_OR_RETURN(context.api, CublasLt::Open(path));
  SINTER_RETURN_IF_ERROR(ports.measurer->RunAndWait([&](StreamHandle) {
    return LtCheck(context.api->Create(&context.handle), "cublasLtCreate");
  }));
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace, ports.measurer->Allocate(kWorkspaceBytes));
  context.workspace = workspace.ptr;
  context.workspace_bytes = workspace.bytes;
  return context;
}

absl::StatusOr<Runnable> MakeLtFfn(const Ports& ports, const LtContext& context, const Case& c,
                                   const GraphData& data, int algorithms) {
  if (c.matched.sequence.rows_per_m != 1) {
    return absl::UnimplementedError("no form of convolutions is measured with cuBLASLt");
  }
  return Builder(ports, context, c, data, algorithms).Build();
}

}  // namespace sinter::bench
