#include "tests/gpu/rank_kernels.h"

#include "src/device/device_library.h"
#include "tests/support/collective_programs.h"

namespace sinter::gpu_testing {
namespace {

namespace fs = std::filesystem;

constexpr int kMostColumns = 8192, kVectorElements = 8, kThreads = 256, kNormThreads = 512;
constexpr int kMostNormRanks = 4;
constexpr double kEps = 1e-6;
constexpr auto kSum = CollectiveKind::kAllReduce, kPart = CollectiveKind::kReduceScatter,
               kGather = CollectiveKind::kAllGather;

// bf16 sums with a residual after them, except for one form.
CollectiveProblem ProblemOf(const Form& form) {
  CollectiveProblem problem;
  problem.kind = form.kind;
  problem.by_rows = form.by_rows;
  problem.ranks = Ranks();
  problem.columns = std::min(form.XColumns(), form.OutColumns());
  if (form.residual()) testing::AddResidual(&problem, form.rounded);
  if (form.norm) testing::AddNorm(&problem, form.two_shot);
  return problem;
}

// The schedule of the form that is predicted to be the fastest.
CollectiveSchedule ScheduleOf(const Form& form, int rows) {
  for (const RankedCollective& ranked :
       SearchCollective(ProblemOf(form), rows, *BuiltinModel("h100"))) {
    const CollectiveSchedule& schedule = ranked.schedule;
    if (schedule.two_shot == form.two_shot &&
        schedule.threads == (form.norm ? kNormThreads : kThreads))
      return schedule;
  }
  ADD_FAILURE() << form.name << " has no schedule for " << rows << " rows";
  return {};
}

std::vector<BufferPlace> Places(const Form& form) {
  if (!form.residual()) return {{0, 0}, {4, 0}};
  if (!form.norm) return {{0, 0}, {1, 0}, {4, 0}};
  return {{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}};
}
LaunchRecipe RecipeOf(const Form& form, int rows) {
  return *sinter::RecipeOf(ProblemOf(form), ScheduleOf(form, rows), Places(form));
}

float FromBf16(uint16_t bits) {
  const uint32_t word = static_cast<uint32_t>(bits) << 16;
  float x;
  std::memcpy(&x, &word, sizeof x);
  return x;
}
uint16_t ToBf16(float x) {
  if (x != x) return 0x7FFF;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// The same on every rank's host. If `rank` is negative: the residual of rank -1 - `rank`. The
// values include zeros of both signs, infinities and NaNs, also a NaN whose bits equal those of an
// empty slot.
std::vector<uint16_t> Values(int rank) {
  std::vector<uint16_t> values(static_cast<size_t>(kMostRows) * static_cast<size_t>(Columns()));
  uint32_t state = static_cast<uint32_t>(rank + 2 * Ranks() + 3) * 2654435761u;
  for (uint16_t& value : values) {
    state = state * 1664525 + 1013904223;
    value = ToBf16(static_cast<float>(static_cast<int>(state >> 20) - 2048) / 64.0f);
  }
  const uint16_t special[] = {0x8000, 0, 0xFFFF, 0xFFFF, 0x7F80, 0xFF80, 0, 0};
  std::copy(std::begin(special), std::end(special), values.begin() + Columns() / 2);
  return values;
}
// x of all ranks, made once.
const std::vector<std::vector<uint16_t>>& AllValues() {
  static const std::vector<std::vector<uint16_t>> all = [] {
    std::vector<std::vector<uint16_t>> made;
    for (int r = 0; r < Ranks(); ++r) made.push_back(Values(r));
    return made;
  }();
  return all;
}

std::vector<uint16_t> Gamma() {
  std::vector<uint16_t> gamma(static_cast<size_t>(Columns()));
  for (size_t c = 0; c < gamma.size(); ++c)
    gamma[c] = ToBf16(0.5f + static_cast<float>(c % 16) / 16.0f);
  return gamma;
}

// Where element `i` of a rank's part lies in a matrix of the parts of all ranks.
size_t AmongParts(const Form& form, int rows, int rank, size_t i) {
  const size_t ranks = static_cast<size_t>(Ranks()), part = static_cast<size_t>(rank);
  const size_t columns = static_cast<size_t>(Columns()) / ranks, row = i / columns;
  const size_t above = form.by_rows ? part * static_cast<size_t>(rows) + row : row * ranks + part;
  return above * columns + i % columns;
}
// The rank, and the element of its part, of element `i` of such a matrix.
std::pair<size_t, size_t> PartOf(const Form& form, int rows, size_t i) {
  const size_t ranks = static_cast<size_t>(Ranks()), all = static_cast<size_t>(rows);
  const size_t columns = static_cast<size_t>(Columns()) / ranks, above = i / columns;
  const size_t rank = form.by_rows ? above / all : above % ranks;
  const size_t row = form.by_rows ? above % all : above / ranks;
  return {rank, row * columns + i % columns};
}

// The bits that element `i` of a rank's result must have. `own`: the rank's residual.
uint16_t Want(const Form& form, int rows, int rank, const std::vector<uint16_t>& own, size_t i) {
  const std::vector<std::vector<uint16_t>>& all = AllValues();
  if (form.kind == kGather) {
    const auto [from, at] = PartOf(form, rows, i);
    const uint16_t sent = all[from][at];
    return sent == 0xFFFF ? 0x7FFF : sent;  // any NaN, alike everywhere
  }
  const size_t x = form.kind == kPart ? AmongParts(form, rows, rank, i) : i;
  float sum = FromBf16(all[0][x]);
  for (size_t r = 1; r < all.size(); ++r) sum += FromBf16(all[r][x]);
  if (form.rounded) sum = FromBf16(ToBf16(sum));
  if (form.residual()) sum += FromBf16(own[i]);
  return ToBf16(sum);
}

}  // namespace

int Columns() {
  const int step = kVectorElements * Ranks();
  return kMostColumns / step * step;
}

int Form::XColumns() const { return kind == kGather ? Columns() / Ranks() : Columns(); }
int Form::OutColumns() const { return kind == kPart ? Columns() / Ranks() : Columns(); }
bool Form::residual() const { return kind != kGather && (kind == kSum || rounded); }

const std::vector<Form>& Forms() {
  static const std::vector<Form> forms = [] {
    std::vector<Form> made = {{"one_shot", kSum, false, false, false, false},
                              {"two_shot", kSum, true, true, false, false},
                              {"scatter_columns", kPart, false, false, false, false},
                              {"scatter_rows", kPart, false, true, false, true},
                              {"gather_columns", kGather, false, false, false, false},
                              {"gather_rows", kGather, false, false, false, true}};
    if (Ranks() <= kMostNormRanks) {
      made.push_back({"one_shot_norm", kSum, false, true, true, false});
      made.push_back({"two_shot_norm", kSum, true, true, true, false});
    }
    return made;
  }();
  return forms;
}

absl::StatusOr<std::string> Rank::CubinOf(const Form& form, const std::string& cubins) const {
  const fs::path path = fs::path(cubins) / absl::StrCat(form.name, ".cubin");
  if (!cubins.empty() && fs::exists(path)) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  CompileRequest request;
  request.name = absl::StrCat(form.name, ".cu");
  request.source = SourceOf(ProblemOf(form), ScheduleOf(form, 1));
  request.headers = CopyDeviceHeaders();
  request.arch = "sm_90a";
  request.options = {"--std=c++17"};
  request.entry = CollectiveEntry(ProblemOf(form));
  SINTER_ASSIGN_OR_RETURN(const CompiledKernel compiled, ports.compiler->Compile(request));
  if (!cubins.empty()) {
    const fs::path own = fs::path(cubins) / absl::StrCat(form.name, ".", getpid());
    std::ofstream(own, std::ios::binary) << compiled.cubin;
    fs::rename(own, path);
  }
  return std::string(compiled.cubin);
}

absl::StatusOr<std::unique_ptr<Rank>> Rank::Make(int ordinal, const std::string& cubins) {
  auto rank = std::make_unique<Rank>();
  SINTER_ASSIGN_OR_RETURN(rank->ports, MakePorts(TestConfig(), ordinal, "", StderrLog()));
  Measurer& memory = *rank->ports.measurer;
  const uint64_t row = static_cast<uint64_t>(Columns()) * 2, bytes = uint64_t{kMostRows} * row;
  for (DeviceBuffer* buffer : {&rank->x_, &rank->residual_, &rank->normed_, &rank->out_}) {
    SINTER_ASSIGN_OR_RETURN(*buffer, memory.Allocate(bytes));
  }
  SINTER_ASSIGN_OR_RETURN(rank->gamma_, memory.Allocate(row));
  SINTER_RETURN_IF_ERROR(memory.Upload(rank->gamma_, Gamma().data(), row));
  SINTER_RETURN_IF_ERROR(
      memory.Upload(rank->x_, AllValues()[static_cast<size_t>(ordinal)].data(), bytes));
  SINTER_RETURN_IF_ERROR(memory.Upload(rank->residual_, Values(-1 - ordinal).data(), bytes));
  for (const Form& form : Forms()) {
    SINTER_ASSIGN_OR_RETURN(const std::string cubin, rank->CubinOf(form, cubins));
    SINTER_ASSIGN_OR_RETURN(auto loaded, rank->ports.loader->Load(cubin, RecipeOf(form, 1)));
    rank->kernels_.push_back(std::move(loaded));
  }
  return rank;
}

Rank::~Rank() {
  for (const DeviceBuffer& buffer : {x_, residual_, gamma_, normed_, out_})
    ports.measurer->Free(buffer);
}

absl::Status Rank::Bind(size_t form, int rows, int plan) {
  const DevicePtr pointers[] = {x_.ptr, residual_.ptr, gamma_.ptr, normed_.ptr, out_.ptr};
  const BufferList buffers{pointers, 5, 0, group->room(), static_cast<uint64_t>(plan)};
  SINTER_ASSIGN_OR_RETURN(std::unique_ptr<BoundKernel> made,
                          kernels_[form]->Bind(RecipeOf(Forms()[form], rows), buffers));
  bound_[{form, rows}] = std::move(made);
  return absl::OkStatus();
}

absl::Status Rank::Launch(size_t form, int rows, StreamHandle stream) const {
  return kernels_[form]->Launch(*bound_.at({form, rows}), stream, rows, 0, false);
}

absl::Status Rank::Run(size_t form, int rows) const {
  return ports.measurer->RunAndWait(
      [&](StreamHandle stream) { return Launch(form, rows, stream); });
}

void Rank::Join(std::shared_ptr<RankGroup> joined) {
  bound_.clear();
  group = std::move(joined);
}

absl::StatusOr<int> Rank::Wrong(size_t number, int rows) const {
  const Form& form = Forms()[number];
  static const std::vector<std::vector<uint16_t>> residuals = [] {
    std::vector<std::vector<uint16_t>> made;
    for (int r = 0; r < Ranks(); ++r) made.push_back(Values(-1 - r));
    return made;
  }();
  std::vector<uint16_t> got(static_cast<size_t>(rows) * static_cast<size_t>(form.OutColumns()));
  SINTER_RETURN_IF_ERROR(ports.measurer->Download(got.data(), out_, got.size() * 2));
  const std::vector<uint16_t>& own = residuals[static_cast<size_t>(group->rank())];
  int wrong = 0;
  for (size_t i = 0; i < got.size(); ++i)
    wrong += got[i] != Want(form, rows, group->rank(), own, i) ? 1 : 0;
  if (!form.norm) return wrong;
  SINTER_ASSIGN_OR_RETURN(const int norms, WrongNorms(got, rows));
  return wrong + norms;
}

absl::StatusOr<int> Rank::WrongNorms(const std::vector<uint16_t>& sums, int rows) const {
  static const std::vector<uint16_t> gammas = Gamma();
  std::vector<uint16_t> norms(sums.size());
  SINTER_RETURN_IF_ERROR(ports.measurer->Download(norms.data(), normed_, norms.size() * 2));
  int wrong = 0;
  const size_t columns = gammas.size();
  for (size_t row = 0; row < static_cast<size_t>(rows); ++row) {
    double squares = 0;
    const auto at = [&](size_t c) { return row * columns + c; };
    for (size_t c = 0; c < columns; ++c) squares += std::pow(FromBf16(sums[at(c)]), 2.0);
    const double factor = 1 / std::sqrt(squares / static_cast<double>(columns) + kEps);
    for (size_t c = 0; c < columns && std::isfinite(squares); ++c) {
      const double want = FromBf16(sums[at(c)]) * factor * FromBf16(gammas[c]);
      const double have = FromBf16(norms[at(c)]);
      if (!(std::fabs(have - want) <= 0x1p-7 * std::fabs(want) + 1e-30)) ++wrong;
    }
  }
  return wrong;
}

}  // namespace sinter::gpu_testing
