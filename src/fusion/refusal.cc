#include "src/base/refusal.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/arch.h"
#include "src/base/numbers.h"
#include "src/base/status.h"
#include "src/chain/chain.h"
#include "src/fusion/plan_choice.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/product/operand.h"

namespace sinter {
namespace {

constexpr size_t kMostRefusedProducts = 3;  // listed in an error
constexpr int kRowAlignment = 16;           // bytes: tensor maps need it of rows

bool IsMultiplied(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 || IsCode(dtype);
}

bool IsProduct(const Op& op) {
  return op.kind == OpKind::kMatmul || op.kind == OpKind::kScaledMatmul ||
         op.kind == OpKind::kConv2d || op.kind == OpKind::kGroupedMatmul;
}

// The caller's names of the inputs that `id` is computed from, "'x' and 'w'"; "" where none is
// found among the values next to it.
std::string InputsBelow(const Chain& chain, ValueId id) {
  constexpr size_t kMostNames = 3, kMostValues = 1000;
  std::vector<std::string> names;
  std::set<ValueId> seen;
  std::vector<ValueId> open = {id};
  while (!open.empty() && seen.size() < kMostValues) {
    const ValueId value = open.back();
    open.pop_back();
    if (!seen.insert(value).second) continue;
    const Op& op = chain.op(value);
    if (op.kind == OpKind::kInput) names.push_back(NameOfValue(chain, value));
    open.insert(open.end(), op.operands.rbegin(), op.operands.rend());
  }
  if (names.empty()) return "";
  if (!open.empty() || names.size() > kMostNames) {
    const size_t told = std::min(names.size(), kMostNames - 1), more = names.size() - told;
    names.resize(told);
    names.push_back(open.empty() ? absl::StrCat(more, " more") : "more");
  }
  if (names.size() == 1) return names.front();
  const std::string last = names.back();
  names.pop_back();
  return absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

// "'w'", or "op 3 (mul of 'w' and 'mask')".
std::string NameWithInputs(const Chain& chain, ValueId id) {
  const std::string name = NameOfValue(chain, id);
  if (chain.op(id).kind == OpKind::kInput) return name;
  const std::string inputs = InputsBelow(chain, id);
  return inputs.empty() ? name : absl::StrCat(name.substr(0, name.size() - 1), " of ", inputs, ")");
}

// `why` with the inputs of the op that it begins with: "op 1 (exp): .." is of "op 1 (exp of 'x')".
absl::Status WithInputs(const Chain& chain, const absl::Status& why) {
  const int32_t op = OpOf(why);
  if (op < 0 || op >= static_cast<int32_t>(chain.ops().size())) return why;
  const auto id = static_cast<ValueId>(op);
  const std::string name = NameOfValue(chain, id);
  const absl::string_view message = why.message();
  if (!absl::StartsWith(message, name)) return why;
  return WithMessage(why, absl::StrCat(NameWithInputs(chain, id), message.substr(name.size())));
}

// By value: what it shows, below views and casts that lose nothing.
std::vector<ValueId> SourcesOf(const Chain& chain) {
  std::vector<ValueId> sources;
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    const bool view = ClassOf(chain, id) == OpClass::kView;
    sources.push_back(view ? sources[static_cast<size_t>(chain.op(id).operands[0])] : id);
  }
  return sources;
}

// One product and where its two operands come from.
class Product {
 public:
  // `sources`: by value, of SourcesOf.
  Product(const Chain& chain, ValueId id, const std::vector<ValueId>& sources)
      : chain_(chain),
        id_(id),
        op_(chain.op(id)),
        rows_(sources[static_cast<size_t>(op_.operands[0])]),
        weights_(sources[static_cast<size_t>(op_.operands[1])]) {}

  std::string Head() const {
    return absl::StrCat("op ", id_, " (", NameOf(op_), " of ", NameWithInputs(chain_, rows_),
                        " and ", NameWithInputs(chain_, weights_), "): ");
  }

  // Returns why no kernel takes the product, and the remedy; "" for a reason that no rule knows.
  std::string Trouble() const {
    if (op_.kind == OpKind::kGroupedMatmul) return "";
    for (std::string (Product::*rule)() const :
         {&Product::OfTypes, &Product::OfM, &Product::OfWindow, &Product::OfGroups,
          &Product::OfRows}) {
      std::string trouble = (this->*rule)();
      if (!trouble.empty()) return trouble;
    }
    return "";
  }

 private:
  const TensorType& TypeOf(ValueId id) const { return chain_.op(id).type; }
  bool IsInput(ValueId id) const { return chain_.op(id).kind == OpKind::kInput; }
  std::string Typed(ValueId id) const {
    return absl::StrCat(NameOfValue(chain_, id), " is ", sinter::ToString(TypeOf(id)));
  }

  std::string OfTypes() const {
    const DType rows = TypeOf(rows_).dtype, weights = TypeOf(weights_).dtype;
    constexpr char kTypes[] = ", kernels multiply bf16, f16, e4m3 and s8: ";
    if (!IsMultiplied(weights)) {
      if (rows == weights && IsInput(rows_)) {
        return absl::StrCat(NameOfValue(chain_, rows_), " and ", NameOfValue(chain_, weights_),
                            " are ", NameOf(weights), kTypes, "give both as bf16, or cast ",
                            NameOfValue(chain_, rows_), " and give ", NameOfValue(chain_, weights_),
                            " as bf16");
      }
      return absl::StrCat(Typed(weights_), kTypes, "give it as ",
                          NameOf(IsMultiplied(rows) ? rows : DType::kBF16));
    }
    const bool own = IsInput(rows_) || TypeOf(rows_).dtype != DType::kF32;
    if (rows == weights || !own) return "";
    return absl::StrCat(Typed(rows_), ", ", Typed(weights_),
                        ", a product's operands have one dtype: cast ", NameOfValue(chain_, rows_),
                        " to ", NameOf(weights), IsCode(weights) ? ", by quantize" : "");
  }

  std::string OfM() const {
    const std::vector<Dim>& dims = TypeOf(rows_).dims;
    if (SumsOverM()) return "";
    for (const Dim& dim : TypeOf(weights_).dims) {
      if (!dim.symbolic) continue;
      return absl::StrCat(Typed(weights_),
                          ", M may only count rows of the first operand, or what both operands "
                          "have first and the product sums over, by transpose_a: give the extent "
                          "as a constant, in a chain for each");
    }
    for (size_t i = 1; i < dims.size(); ++i) {
      if (!dims[i].symbolic) continue;
      return absl::StrCat(Typed(rows_), ", M must be the first dimension: ",
                          i + 1 < dims.size()
                              ? "give it with that dimension first, or all leading ones as M"
                              : "a product sums over M of [M, rows] and [M, n], by transpose_a");
    }
    return "";
  }

  // Whether it sums over M as kernels do: both matrices lie with M first.
  bool SumsOverM() const {
    const TensorType &a = TypeOf(op_.operands[0]), &b = TypeOf(op_.operands[1]);
    return op_.kind == OpKind::kMatmul && op_.transpose_a && !op_.transpose_b && a.rank() == 2 &&
           b.rank() == 2 && a.dims[0].symbolic && !a.dims[1].symbolic;
  }

  // Why no load of windows takes a convolution. Other rules check its channels.
  std::string OfWindow() const {
    if (op_.kind != OpKind::kConv2d) return "";
    const std::vector<Dim>&x = TypeOf(op_.operands[0]).dims, &w = TypeOf(op_.operands[1]).dims;
    const auto taps = static_cast<size_t>(op_.conv.height_axis());
    PixelWindow window{x[1].value, x[2].value, kSubtileChannels, {}, op_.conv};
    window.taps = {w[taps].value, w[taps + 1].value};
    window.conv.groups = 1;
    const absl::Status status = CheckWindow(window);
    if (status.ok()) return "";
    return absl::StrCat(status.message(),
                        ": take the pixels by a window, reshape them to one axis of ",
                        window.taps[0] * window.taps[1], " taps times channels and multiply them ",
                        "with the filter as a matrix, which takes two kernels");
  }

  // Why the normal form could not join the groups of a convolution.
  std::string OfGroups() const {
    if (op_.kind != OpKind::kConv2d || op_.conv.groups == 1) return "";
    const int64_t groups = op_.conv.groups, vector = kRowAlignment / SizeOf(DType::kBF16);
    const int64_t in = TypeOf(op_.operands[0]).dims.back().value / groups;
    const int64_t out = op_.type.dims.back().value / groups;
    if (in % vector == 0 && out % vector == 0) return "";
    return absl::StrCat("each of ", groups, " groups has ", in, " channels of x and ", out,
                        " of the result, kernels take multiples of ", vector,
                        " of both, in a group or in 2, 4 or 8 of them that divide the groups: pad ",
                        "the channels of each group");
  }

  // Inputs first: to pad them is easier, and often suffices for values computed from them.
  std::string OfRows() const {
    for (const bool input : {true, false}) {
      for (const ValueId id : {rows_, weights_}) {
        const std::vector<Dim>& dims = TypeOf(id).dims;
        if (IsInput(id) != input || dims.size() < 2 || dims.back().symbolic) continue;
        std::string trouble = input ? OfInput(chain_.op(id), id) : OfComputed(id);
        if (!trouble.empty()) return trouble;
      }
    }
    return "";
  }

  std::string OfInput(const Op& op, ValueId id) const {
    const std::vector<Dim>& dims = op.type.dims;
    const size_t last = dims.size() - 1;
    if (op.strides[last] != Stride{1, 0}) {
      return absl::StrCat(Typed(id), " with strides ", ToString(absl::MakeConstSpan(op.strides)),
                          ", kernels read rows without gaps: copy it");
    }
    const int64_t vector = kRowAlignment / SizeOf(op.type.dtype);
    const int64_t stride = op.strides[last - 1].value;
    if (stride % vector == 0) return "";
    const bool whole = stride == dims[last].value;
    return absl::StrCat(Typed(id), ", its rows are ", stride, " elements apart, which must be a ",
                        "multiple of ", vector, " (", kRowAlignment, " bytes): pad ",
                        op_.kind == OpKind::kConv2d ? "the channels" : "its last dimension",
                        whole ? "" : " in memory", " to ", RoundUp(stride, vector));
  }

  // It is handed over in the type of what it is multiplied with.
  std::string OfComputed(ValueId id) const {
    const DType dtype = TypeOf(id).dtype;
    const int64_t vector = kRowAlignment / SizeOf(IsMultiplied(dtype) ? dtype : DType::kBF16);
    const int64_t columns = TypeOf(id).dims.back().value;
    if (columns % vector == 0) return "";
    return absl::StrCat(Typed(id), ", its rows have ", columns, " elements, which must be a ",
                        "multiple of ", vector, " (", kRowAlignment,
                        " bytes): pad its last dimension to ", RoundUp(columns, vector),
                        ", by a wider operand of what computes it");
  }

  const Chain& chain_;
  const ValueId id_;
  const Op& op_;
  const ValueId rows_, weights_;
};

// The products that may be why: those that are in no run, or all where each is in one.
std::vector<ValueId> Suspects(const Chain& chain, const ProductRuns& products) {
  std::vector<ValueId> suspects;
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    if (!IsProduct(chain.op(id)) || ClassOf(chain, id) != OpClass::kProduct) continue;
    if (products.all || products.refused.count(id) > 0) suspects.push_back(id);
  }
  return suspects;
}

std::string At(const std::map<ValueId, std::string>& reasons, ValueId id) {
  const auto reason = reasons.find(id);
  return reason == reasons.end() ? std::string() : reason->second;
}

// The kernels of a product that only Hopper has; null: other chips have them too.
const char* KernelsOfHopper(const Chain& chain, const Op& op) {
  if (IsCollective(op)) return "sums over GPUs";
  if (op.kind == OpKind::kConv2d) return "convolutions";
  if (op.kind == OpKind::kGroupedMatmul) return "experts";
  const bool batched = chain.op(op.operands[1]).type.rank() > 2;
  return batched ? "attention and batched products" : nullptr;
}

}  // namespace

absl::Status Refusal(const Chain& chain, const ProductRuns& products, const absl::Status& why) {
  std::vector<std::string> told;
  int32_t first = -1;  // the op of told.front()
  size_t more = 0;
  const std::vector<ValueId> sources = SourcesOf(chain);
  for (const ValueId id : Suspects(chain, products)) {
    const Product product(chain, id, sources);
    // A reason why no kernel takes the whole chain precedes one about this product.
    std::string trouble = At(products.not_optional, id);
    if (trouble.empty()) trouble = product.Trouble();
    if (trouble.empty()) trouble = At(products.refused, id);
    if (trouble.empty()) continue;
    if (told.size() < kMostRefusedProducts) {
      if (told.empty()) first = id;
      told.push_back(absl::StrCat(product.Head(), trouble));
    } else {
      ++more;
    }
  }
  for (const auto& [id, trouble] : products.refused) {
    if (!IsCollective(chain.op(id))) continue;
    if (told.empty()) first = id;
    told.push_back(absl::StrCat(NameWithInputs(chain, id), ": ", trouble));
    if (told.size() >= kMostRefusedProducts) break;
  }
  if (told.empty()) return WithInputs(chain, why);
  if (more > 0) told.push_back(absl::StrCat("and ", more, " more"));
  return WithOp(absl::Status(why.code(), absl::StrJoin(told, "; ")), first);
}

absl::Status CheckChip(const Chain& chain, const DeviceModel& model, const ArchFeatures& features) {
  for (ValueId id = 0; id < static_cast<ValueId>(chain.ops().size()); ++id) {
    const Op& op = chain.op(id);
    if (features.products || ClassOf(chain, id) != OpClass::kProduct) continue;
    const bool e4m3 = op.kind != OpKind::kConv2d && !IsCollective(op) &&
                      chain.op(op.operands[0]).type.dtype == DType::kE4M3;
    const char* const kernels = KernelsOfHopper(chain, op);
    const bool lacks_e4m3 = kernels == nullptr && e4m3 && features.capability < kFirstE4M3;
    if (kernels == nullptr && !lacks_e4m3) continue;
    const std::string first = absl::StrCat("sm_", kFirstE4M3);
    const absl::Status status = FailedPrecondition(
        NameWithInputs(chain, id), ": kernels of ", lacks_e4m3 ? "products of e4m3" : kernels,
        " run only on ", lacks_e4m3 ? absl::StrCat("chips from ", first, " on") : ProductChips(),
        ", device model ", model.name, " is ", model.arch,
        ": leave it to another library, and plan the ops before and after it");
    return WithOp(WithField(status, "arch", model.arch, lacks_e4m3 ? first : "sm_90a"),
                  static_cast<int32_t>(id));
  }
  return absl::OkStatus();
}

}  // namespace sinter
