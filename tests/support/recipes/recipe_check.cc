#include "tests/support/recipes/recipe_check.h"

#include "src/plan/attention_family.h"
#include "src/plan/family.h"
#include "src/plan/kernel_code.h"
#include "tests/support/recipes/touches.h"
#include "tests/support/recipes/view_addresses.h"

namespace sinter::testing {
namespace {

using Kind = Touch::Kind;

constexpr int64_t kHeaderBytes = 65536;  // of the workspace: flags that kernels share

// Dense, row-major, at `m`.
std::vector<int64_t> DenseStrides(const std::vector<Dim>& dims, int64_t element, int64_t m) {
  std::vector<int64_t> strides(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = element;
    element *= dims[i].At(m);
  }
  return strides;
}

// In the workspace, between the kernel that wrote it and the last one that reads it.
struct Region {
  std::string what;
  AddressSet bytes;
  int64_t element = 0;
  std::vector<ValueId> values;  // which it may be; none: between two products of one run
  int first = 0, last = 0;
  ValueId run = -1;  // whose products' kernels read past L1
};

// One pass of a launch, kernel by kernel.
class PassCheck {
 public:
  PassCheck(const Chain& chain, const ViewAddresses& views, const Plan& plan,
            const std::vector<LaunchRecipe>& recipes, const Pass& pass, int64_t total, bool part)
      : chain_(chain),
        views_(views),
        plan_(plan),
        recipes_(recipes),
        pass_(pass),
        total_(total),
        part_(part) {}

  std::string Run() {
    for (size_t k = 0; k < plan_.kernels.size(); ++k) {
      const std::string wrong = Kernel(static_cast<int>(k));
      if (!wrong.empty()) return absl::StrCat("kernel ", k, ": ", wrong);
    }
    for (int i = 0; i < chain_.num_outputs(); ++i) {
      if (writer_.count(i) == 0) return absl::StrCat("output ", i, " is written by no kernel");
    }
    return FindClash();
  }
  const std::vector<Region>& regions() const { return regions_; }

 private:
  const KernelOps& OpsOf(int kernel) const {
    return plan_.kernels[static_cast<size_t>(kernel)].ops;
  }
  const KernelSpec& SpecOf(int kernel) const {
    return plan_.kernels[static_cast<size_t>(kernel)].spec;
  }

  // The values that `results` follow from, and they themselves.
  std::set<ValueId> Below(std::vector<ValueId> results) const {
    std::set<ValueId> below;
    while (!results.empty()) {
      const ValueId value = results.back();
      results.pop_back();
      if (!below.insert(value).second) continue;
      const Op& op = chain_.op(value);
      results.insert(results.end(), op.operands.begin(), op.operands.end());
    }
    return below;
  }

  // The same for all results of a kernel. The plan names the values of a stitched kernel. For
  // another kernel it names the last result; the kernel may also store outputs that follow from the
  // same products.
  std::set<ValueId> Below(int kernel, const std::vector<Touch>& touches) const {
    std::set<ValueId> below = Below(OpsOf(kernel).values);
    if (StitchOf(SpecOf(kernel)) != nullptr) return below;
    const std::set<ValueId> of_result = below;
    for (const Touch& touch : touches) {
      const int output = touch.buffer - chain_.num_inputs();
      if (touch.kind != Kind::kWrite || output < 0 || output >= chain_.num_outputs()) continue;
      const std::set<ValueId> beside = Below({chain_.outputs()[static_cast<size_t>(output)].value});
      const bool shares = std::any_of(beside.begin(), beside.end(), [&](ValueId value) {
        return of_result.count(value) > 0 && Multiplies(chain_.op(value).kind);
      });
      if (shares) below.insert(beside.begin(), beside.end());
    }
    return below;
  }

  // The nearest products that `value` follows from.
  std::set<ValueId> ProductsBelow(ValueId value) const {
    std::set<ValueId> products, seen;
    std::vector<ValueId> todo = {value};
    while (!todo.empty()) {
      const ValueId at = todo.back();
      todo.pop_back();
      if (!seen.insert(at).second) continue;
      const Op& op = chain_.op(at);
      if (op.kind == OpKind::kMatmul) {
        products.insert(at);
      } else {
        todo.insert(todo.end(), op.operands.begin(), op.operands.end());
      }
    }
    return products;
  }

  // Which value of the chain an operand of attention is; -1: another one, or not known.
  ValueId ReaderOf(int kernel, const Touch& touch) const {
    if (SpecOf(kernel).family != &AttentionFamily()) return -1;
    const std::set<ValueId> outer = ProductsBelow(OpsOf(kernel).values.front());
    if (outer.size() != 1) return -1;
    const std::vector<ValueId>& outer_operands = chain_.op(*outer.begin()).operands;
    if (touch.what == "v") return outer_operands[1];
    const std::set<ValueId> inner = ProductsBelow(outer_operands[0]);
    if (inner.size() != 1) return -1;
    const std::vector<ValueId>& inner_operands = chain_.op(*inner.begin()).operands;
    return touch.what == "q" ? inner_operands[0] : touch.what == "k" ? inner_operands[1] : -1;
  }

  static bool Multiplies(OpKind kind) {
    return kind == OpKind::kMatmul || kind == OpKind::kConv2d || kind == OpKind::kScaledMatmul;
  }

  std::string Kernel(int kernel) {
    const std::vector<Touch> touches =
        TouchesOf(SpecOf(kernel), recipes_[static_cast<size_t>(kernel)], pass_);
    const std::set<ValueId> below = Below(kernel, touches);
    // A kernel reads what was there before it writes.
    for (const Touch& touch : touches) {
      if (touch.kind != Kind::kRead || touch.bytes.empty()) continue;
      const std::string wrong = touch.buffer == kWorkspaceBuffer ? ReadRegion(kernel, touch, below)
                                                                 : ReadBuffer(kernel, touch, below);
      if (!wrong.empty()) return Text(touch, wrong);
    }
    for (const Touch& touch : touches) {
      if (touch.kind == Kind::kRead || touch.bytes.empty()) continue;
      const std::string wrong = touch.kind == Kind::kFlags ? Flags(touch)
                                : touch.buffer == kWorkspaceBuffer
                                    ? WriteRegion(kernel, touch, below)
                                    : WriteBuffer(kernel, touch, below);
      if (!wrong.empty()) return Text(touch, wrong);
    }
    return "";
  }

  static std::string Text(const Touch& touch, const std::string& wrong) {
    return absl::StrCat(touch.what, " in buffer ", touch.buffer, " at ", touch.bytes.ToString(),
                        " ", wrong);
  }

  // ---- the caller's buffers

  // An input, or an output's value, in a buffer of all rows: this pass begins at its first row.
  StoredValue InBuffer(int buffer) const {
    const int output = buffer - chain_.num_inputs();
    StoredValue stored{.value = output < 0 ? chain_.input(buffer)
                                           : chain_.outputs()[static_cast<size_t>(output)].value};
    const Op& op = chain_.op(stored.value);
    const std::vector<Stride>& strides =
        output < 0 ? op.strides : chain_.outputs()[static_cast<size_t>(output)].strides;
    stored.element = SizeOf(op.type.dtype);
    for (size_t i = 0; i < strides.size(); ++i) {
      stored.strides.push_back(strides[i].At(total_) * stored.element);
      if (op.type.dims[i].symbolic) stored.first += pass_.first_row * stored.strides.back();
    }
    return stored;
  }

  std::string Fits(const Touch& touch, const StoredValue& stored, bool whole,
                   ValueId reader = -1) const {
    if (touch.element != stored.element) return "has elements of another size than its value";
    const AddressSet all = views_.All(stored, pass_.m);
    if (part_) {  // a pass has some of the rows, which the chain gives as a number
      const bool inside = touch.bytes.first() >= all.first() && touch.bytes.end() <= all.end();
      return inside ? "" : absl::StrCat("is outside of its value's bytes, ", all.ToString());
    }
    const bool same =
        whole ? touch.bytes == all : views_.MatchAbove(touch.bytes, reader, stored, pass_.m);
    return same ? ""
                : absl::StrCat("is neither op ", stored.value, ", ", all.ToString(),
                               whole ? "" : ", nor a view of it");
  }

  std::string ReadBuffer(int kernel, const Touch& touch, const std::set<ValueId>& below) {
    if (touch.buffer < 0 || touch.buffer >= chain_.num_inputs() + chain_.num_outputs()) {
      return "is not in a buffer of the chain";
    }
    const StoredValue stored = InBuffer(touch.buffer);
    if (below.count(stored.value) == 0) return "is not a value that the kernel depends on";
    const int output = touch.buffer - chain_.num_inputs();
    if (output >= 0 && writer_.count(output) == 0) return "is read before any kernel wrote it";
    for (int i = 0; i < chain_.num_outputs(); ++i) {
      const bool shared = chain_.outputs()[static_cast<size_t>(i)].alias_input == touch.buffer;
      if (shared && writer_.count(i) > 0 && writer_.at(i) < kernel) {
        return absl::StrCat("may have been overwritten by output ", i);
      }
    }
    return Fits(touch, stored, /*whole=*/false, ReaderOf(kernel, touch));
  }

  std::string WriteBuffer(int kernel, const Touch& touch, const std::set<ValueId>& below) {
    const int output = touch.buffer - chain_.num_inputs();
    if (output < 0 || output >= chain_.num_outputs()) return "is written and is not an output";
    if (touch.kind == Kind::kScratch) return "is scratch outside of the workspace";
    if (!writer_.emplace(output, kernel).second) return "is written twice";
    const StoredValue stored = InBuffer(touch.buffer);
    if (below.count(stored.value) == 0) return "is not a value that the kernel computes";
    return Fits(touch, stored, /*whole=*/true);
  }

  // ---- the workspace

  static std::string Flags(const Touch& touch) {
    const bool inside = touch.buffer == kWorkspaceBuffer && touch.bytes.end() <= kHeaderBytes;
    return inside ? "" : "is not in the workspace's header";
  }

  std::string InWorkspace(const Touch& touch) const {
    if (touch.bytes.first() < kHeaderBytes) return "lies over the workspace's header";
    if (touch.bytes.end() > static_cast<int64_t>(plan_.workspace_bytes)) {
      return absl::StrCat("ends past the workspace of ", plan_.workspace_bytes, " bytes");
    }
    return "";
  }

  StoredValue InRegion(const Region& region, ValueId value) const {
    return {value, region.bytes.first(), region.element,
            DenseStrides(chain_.op(value).type.dims, region.element, pass_.m)};
  }

  std::string WriteRegion(int kernel, const Touch& touch, const std::set<ValueId>& below) {
    const std::string wrong = InWorkspace(touch);
    if (!wrong.empty()) return wrong;
    Region region{touch.what, touch.bytes, touch.element, {}, kernel, kernel, -1};
    if (HasProducts(SpecOf(kernel))) region.run = OpsOf(kernel).values.front();
    if (touch.kind == Kind::kWrite && !IsInsideRun(kernel, touch)) {
      region.values = ValuesOf(kernel, region, below);
      if (region.values.empty()) return "has the bytes of no value that the kernel computes";
    } else if (!touch.bytes.Dense()) {
      return "has gaps";
    }
    regions_.push_back(std::move(region));
    return "";
  }

  // Whether it is the result of a product that is not the last one of its run.
  bool IsInsideRun(int kernel, const Touch& touch) const {
    if (!HasProducts(SpecOf(kernel))) return false;
    const size_t next = static_cast<size_t>(kernel) + 1;
    return touch.what == "out" && next < plan_.kernels.size() &&
           OpsOf(static_cast<int>(next)).values == OpsOf(kernel).values;
  }

  // Which values of the chain a result may be, by their bytes: of a stitched kernel those that the
  // plan names, of another one those below its result.
  std::vector<ValueId> ValuesOf(int kernel, const Region& region,
                                const std::set<ValueId>& below) const {
    std::vector<ValueId> values;
    const auto take = [&](ValueId value) {
      if (views_.All(InRegion(region, value), pass_.m) == region.bytes) values.push_back(value);
    };
    const bool named = StitchOf(SpecOf(kernel)) != nullptr;
    named ? std::for_each(OpsOf(kernel).values.begin(), OpsOf(kernel).values.end(), take)
          : std::for_each(below.begin(), below.end(), take);
    return values;
  }

  std::string ReadRegion(int kernel, const Touch& touch, const std::set<ValueId>& below) {
    const std::string wrong = InWorkspace(touch);
    if (!wrong.empty()) return wrong;
    const ValueId reader = ReaderOf(kernel, touch);
    // The region that was written last is there.
    for (size_t i = regions_.size(); i-- > 0;) {
      Region& region = regions_[i];
      if (!region.bytes.Meets(touch.bytes)) continue;
      region.last = kernel;
      if (region.element != touch.element) return "has elements of another size than were written";
      if (region.values.empty()) {
        if (region.run < 0 || OpsOf(kernel).values.front() != region.run) {
          return "is inside another kernel or run";
        }
        return part_ || touch.bytes == region.bytes ? "" : "is not what the run's kernel wrote";
      }
      for (const ValueId value : region.values) {
        if (below.count(value) == 0) continue;
        const StoredValue stored = InRegion(region, value);
        if (views_.MatchAbove(touch.bytes, reader, stored, pass_.m)) return "";
      }
      return absl::StrCat("is not a value, nor a view of one, that kernel ", region.first,
                          " left there at ", region.bytes.ToString());
    }
    return "is read before any kernel wrote it";
  }

  // Two regions that share bytes and kernels. A kernel may start while the one before it runs, and
  // its SM may keep lines in L1 that the other one read.
  std::string FindClash() const {
    for (size_t i = 0; i < regions_.size(); ++i) {
      for (size_t j = i + 1; j < regions_.size(); ++j) {
        const Region &a = regions_[i], &b = regions_[j];
        if (!a.bytes.Meets(b.bytes) || IsSame(a, b)) continue;
        const bool one_run = a.run >= 0 && a.run == b.run;
        if (b.first > a.last + (one_run ? 0 : 1)) continue;
        return absl::StrCat(b.what, " of kernel ", b.first, " at ", b.bytes.ToString(),
                            " lies over ", a.what, " of kernel ", a.first, " at ",
                            a.bytes.ToString(), ", which kernel ", a.last, " reads");
      }
    }
    return "";
  }

  // One region that a tensor map and a pointer both name.
  static bool IsSame(const Region& a, const Region& b) {
    return a.what == b.what && a.first == b.first && a.bytes == b.bytes;
  }

  const Chain& chain_;
  const ViewAddresses& views_;
  const Plan& plan_;
  const std::vector<LaunchRecipe>& recipes_;
  const Pass pass_;
  const int64_t total_;
  const bool part_;
  std::map<int, int> writer_;  // output -> kernel
  std::vector<Region> regions_;
};

// Numbers of rows at which sizes, strides and passes differ.
std::vector<int64_t> RowsToTry(const Chain& chain, const Plan& plan, const LaunchRows& rows) {
  if (rows.fixed >= 0) return {rows.fixed};
  if (!chain.UsesM()) return {1};
  std::set<int64_t> some = {1, 3, plan.bucket / 2 + 1, plan.bucket - 1, plan.bucket};
  if (rows.most > rows.at_once) some.insert(rows.at_once + rows.at_once / 2 + 1);
  if (rows.most > 2 * rows.at_once) some.insert(2 * rows.at_once + 3);
  if (plan.bucket < rows.at_once) some.insert(rows.at_once - 1);
  some.erase(some.begin(), some.lower_bound(1));
  return {some.begin(), some.upper_bound(rows.most)};
}

}  // namespace

std::string FindMisbinding(const Chain& chain, const Plan& plan,
                           const std::vector<LaunchRecipe>& recipes, const LaunchRows& rows) {
  const ViewAddresses views(chain);
  for (const int64_t total : RowsToTry(chain, plan, rows)) {
    for (int64_t first = 0; first < total; first += rows.at_once) {
      const Pass pass{std::min(rows.at_once, total - first), first, plan.bucket};
      const bool part = !chain.UsesM() && total > rows.at_once;
      const std::string wrong = PassCheck(chain, views, plan, recipes, pass, total, part).Run();
      if (!wrong.empty()) {
        return absl::StrCat("m ", total, ", rows ", first, " to ", first + pass.m, ", ", wrong);
      }
    }
  }
  return "";
}

std::string FindMisbinding(const Chain& chain, const Plan& plan) {
  std::vector<LaunchRecipe> recipes;
  bool mixes = false;
  for (const PlannedKernel& kernel : plan.kernels) {
    absl::StatusOr<LaunchRecipe> recipe = RecipeOf(kernel.spec);
    if (!recipe.ok()) return std::string(recipe.status().message());
    recipes.push_back(*std::move(recipe));
    mixes = mixes || kernel.spec.family->MixesRows(kernel.spec);
  }
  const int64_t largest = LargestBucketOf(chain);
  const bool passes = chain.UsesM() && !mixes && plan.bucket == largest;
  const KernelSpec& first = plan.kernels.front().spec;
  LaunchRows rows{-1, largest, passes ? int64_t{1} << 24 : plan.bucket};
  // A chain of products without M is launched for the rows that it has.
  if (!chain.UsesM() && HasProducts(first) && !ProductOf(first).constant_rows) {
    rows.fixed = chain.output_type(0).dims[0].value;
  }
  return FindMisbinding(chain, plan, recipes, rows);
}

std::vector<HeldBytes> HeldBy(const Chain& chain, const Plan& plan,
                              const std::vector<LaunchRecipe>& recipes, int64_t m) {
  const ViewAddresses views(chain);
  PassCheck check(chain, views, plan, recipes, {m, 0, plan.bucket}, m, /*part=*/false);
  static_cast<void>(check.Run());
  std::vector<HeldBytes> held;
  for (const Region& region : check.regions()) {
    held.push_back({region.bytes.first(), region.bytes.end(), region.first, region.last});
  }
  return held;
}

std::string FindMisplacedInput(const NormalForm& form) {
  const Chain &callers = *form.callers, &chain = *form.chain;
  const ViewAddresses views(callers);
  for (int i = 0; i < chain.num_inputs(); ++i) {
    const BufferView& view = form.buffers[static_cast<size_t>(i)];
    const Op& op = chain.input_op(i);
    if (view.buffer >= callers.num_inputs()) return absl::StrCat("input ", i, " is an output");
    const Op& from = callers.input_op(view.buffer);
    for (const int64_t m : {1, 3, 40}) {
      const int64_t element = SizeOf(op.type.dtype);
      AddressSet bytes(view.offset_bytes, element);
      for (size_t axis = 0; axis < op.type.dims.size(); ++axis) {
        bytes.Repeat(op.type.dims[axis].At(m), op.strides[axis].At(m) * element);
      }
      StoredValue stored{callers.input(view.buffer), 0, SizeOf(from.type.dtype), {}};
      for (const Stride& stride : from.strides) {
        stored.strides.push_back(stride.At(m) * stored.element);
      }
      if (stored.element == element && views.Match(bytes, stored, m)) continue;
      return absl::StrCat("m ", m, ", input ", i, " at ", bytes.ToString(),
                          " is not a view of the caller's input ", view.buffer);
    }
  }
  return "";
}

}  // namespace sinter::testing
