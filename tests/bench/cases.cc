#include "tests/bench/cases.h"

namespace sinter::bench {
namespace {

absl::StatusOr<std::vector<Problem>> ReadProblems(const std::string& file) {
  std::ifstream stream(file);
  if (!stream) return absl::NotFoundError(absl::StrCat("cannot read problem list '", file, "'"));
  const std::string text((std::istreambuf_iterator<char>(stream)),
                         std::istreambuf_iterator<char>());
  absl::StatusOr<std::vector<Problem>> problems = ParseProblems(text);
  if (!problems.ok()) return Annotate(problems.status(), file);
  return problems;
}

// The layouts that a problem is measured in; one, whatever is asked for, of a line that says none.
std::vector<std::string> LayoutsOf(const Problem& problem, const std::string& asked) {
  for (const auto& [key, value] : problem.fields) {
    if (key != "layout") continue;
    if (asked == "both") return {"oi", "io"};
    return {asked == "file" ? value : asked};
  }
  return {""};
}

bool MultipliesCodes(const Chain& chain) {
  return std::any_of(chain.ops().begin(), chain.ops().end(), [&chain](const Op& op) {
    const bool product = op.kind == OpKind::kMatmul || op.kind == OpKind::kScaledMatmul;
    return product && IsCode(chain.op(op.operands[0]).type.dtype);
  });
}

absl::StatusOr<Case> MakeCase(Problem problem, const std::string& layout, bool codes) {
  for (auto& [key, value] : problem.fields) {
    if (key == "layout") value = layout;
  }
  Case result;
  result.id = problem.id;
  result.line = WriteProblem(problem);
  SINTER_ASSIGN_OR_RETURN(Problem parsed, ParseProblem(result.line));
  if (!parsed.m.has_value()) return absl::InvalidArgumentError("m=M: the bench needs a number");
  result.m = *parsed.m;
  result.chain = std::move(parsed.chain);
  if (result.IsOfCodes() && !codes) {
    return absl::InvalidArgumentError(
        "products of 8-bit codes: --rank, --sweep, --brute-force and --graphs take them");
  }
  absl::StatusOr<MatchedSequence> matched =
      MatchProducts(result.chain, BucketOf(result.chain, result.m));
  if (!matched.ok() && result.IsOfCodes()) return result;
  SINTER_ASSIGN_OR_RETURN(result.matched, std::move(matched));
  if (result.matched.size() > kMaxKernelProducts) {
    return absl::InvalidArgumentError(
        absl::StrCat(result.matched.size(), " products, the bench takes 1 or 2"));
  }
  return result;
}

}  // namespace

bool Case::IsOfCodes() const { return MultipliesCodes(chain); }

double Case::Flop() const { return IsOfCodes() ? matched.sequence.Flop(m) : chain.MatmulFlops(m); }

int64_t Case::ConstantBytes() const {
  int64_t bytes = matched.sequence.WeightBytes();
  for (const MatrixProduct& p : matched.sequence.products) {
    if (p.epilogue.bias().has_value()) bytes += p.Width() * p.n * p.ResultBytes();
  }
  return bytes;
}

double Case::LimitUs(const DeviceModel& model) const {
  const ProductSequence& s = matched.sequence;
  int64_t bytes = ConstantBytes();
  for (const Role role : {Role::kA, Role::kOut}) {
    const RoleShape shape = ShapeOf(s, role);
    bytes += m * shape.rows_per_m * shape.RowBytes();
  }
  const double rate = IsOfCodes() ? model.tensor_fp8_flop_per_us : model.tensor_flop_per_us;
  return std::max(static_cast<double>(bytes) / model.hbm_bytes_per_us, Flop() / rate) +
         model.launch_us + model.fill_us + model.drain_us;
}

absl::StatusOr<std::vector<Case>> LoadCases(const std::vector<std::string>& files,
                                            const std::vector<std::string>& ids,
                                            const std::string& layout, bool codes) {
  const std::set<std::string> wanted(ids.begin(), ids.end());
  std::set<std::string> found;
  std::vector<Case> cases;
  for (const std::string& file : files) {
    SINTER_ASSIGN_OR_RETURN(const std::vector<Problem> problems, ReadProblems(file));
    for (const Problem& problem : problems) {
      if (!wanted.empty() && wanted.count(problem.id) == 0) continue;
      found.insert(problem.id);
      for (const std::string& one : LayoutsOf(problem, layout)) {
        absl::StatusOr<Case> made = MakeCase(problem, one, codes);
        if (!made.ok()) return Annotate(made.status(), absl::StrCat(file, ": ", problem.id));
        cases.push_back(*std::move(made));
      }
    }
  }
  for (const std::string& id : wanted) {
    if (found.count(id) == 0) return absl::NotFoundError(absl::StrCat("no problem '", id, "'"));
  }
  return cases;
}

}  // namespace sinter::bench
