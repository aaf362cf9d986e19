#include "src/plan/problem.h"

#include <tuple>

#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint8_t kProblemVersion = 1;
constexpr uint8_t kResidualVersion = 2;  // the same, and the residual behind it
constexpr uint8_t kScalingVersion = 3;   // the same, residual or not, and both scalings behind it

uint8_t VersionOf(const FfnProblem& p) {
  if (p.scaled()) return kScalingVersion;
  return p.residual == Residual::kNone ? kProblemVersion : kResidualVersion;
}

auto Fields(const FfnProblem& p) {
  return std::tie(p.products, p.gated, p.activation, p.bias1, p.bias2, p.residual, p.scaling1,
                  p.scaling2, p.layout, p.dtype, p.n, p.k, p.l, p.bucket);
}

void WriteScaling(const Scaling& s, ByteWriter& w) {
  w.F64(s.constant);
  w.U8(static_cast<uint8_t>(s.rows));
}

void ReadScaling(ByteReader& r, Scaling& s) {
  s.constant = static_cast<float>(r.F64());
  s.rows = static_cast<RowFactor>(r.U8());
}

// " scale1=0.125 factor1=f32"
std::string ScalingText(const Scaling& s, int product, DType dtype) {
  std::string text;
  if (s.constant != 1) absl::StrAppend(&text, " scale", product, "=", s.constant);
  if (s.rows == RowFactor::kNone) return text;
  absl::StrAppend(&text, " factor", product, "=", NameOf(FactorType(s.rows, dtype)));
  return text;
}

}  // namespace

DType FactorType(RowFactor rows, DType dtype) {
  return rows == RowFactor::kF32 ? DType::kF32 : dtype;
}

bool FfnProblem::operator==(const FfnProblem& o) const { return Fields(*this) == Fields(o); }

std::string FfnProblem::Canonical() const {
  ByteWriter w;
  const uint8_t version = VersionOf(*this);
  w.U8(version);
  w.U8(static_cast<uint8_t>(products));
  w.U8(gated);
  w.U32(static_cast<uint32_t>(activation));
  w.U8(bias1);
  w.U8(bias2);
  w.U32(static_cast<uint32_t>(layout));
  w.U32(static_cast<uint32_t>(dtype));
  w.I64(n);
  w.I64(k);
  w.I64(l);
  if (version >= kResidualVersion) w.U8(static_cast<uint8_t>(residual));
  if (version >= kScalingVersion) {
    WriteScaling(scaling1, w);
    WriteScaling(scaling2, w);
  }
  return w.Take();
}

absl::StatusOr<FfnProblem> FfnProblem::FromCanonical(absl::string_view bytes) {
  ByteReader r(bytes);
  const uint8_t version = r.U8();
  FfnProblem p;
  p.products = r.U8();
  p.gated = r.U8() != 0;
  p.activation = static_cast<Activation>(r.U32());
  p.bias1 = r.U8() != 0;
  p.bias2 = r.U8() != 0;
  p.layout = static_cast<Layout>(r.U32());
  p.dtype = static_cast<DType>(r.U32());
  for (int64_t* v : {&p.n, &p.k, &p.l}) *v = r.I64();
  if (version >= kResidualVersion) p.residual = static_cast<Residual>(r.U8());
  if (version >= kScalingVersion) {
    ReadScaling(r, p.scaling1);
    ReadScaling(r, p.scaling2);
  }
  SINTER_RETURN_IF_ERROR(r.Finish("problem"));
  FfnProblem of_a_row = p;
  of_a_row.bucket = 1;
  const absl::Status legal = CheckProblem(of_a_row);
  if (!legal.ok()) return absl::DataLossError(legal.message());
  if (p.Canonical() != bytes) return absl::DataLossError("problem: a field is written otherwise");
  return p;
}

std::string FfnProblem::ToString() const {
  const char* kind =
      products == 2 ? (gated ? "gated_ffn" : "gemm_chain") : (gated ? "gated_product" : "product");
  std::string text(kind);
  if (bucket > 0) absl::StrAppend(&text, " m<=", bucket);
  absl::StrAppend(&text, " n=", n, " k=", k);
  if (products == 2) absl::StrAppend(&text, " l=", l);
  absl::StrAppend(&text, " act=", NameOf(activation));
  if (bias1) absl::StrAppend(&text, " bias1=1");
  if (bias2) absl::StrAppend(&text, " bias2=1");
  absl::StrAppend(&text, ScalingText(scaling1, 1, dtype), ScalingText(scaling2, 2, dtype));
  if (residual != Residual::kNone) {
    absl::StrAppend(&text, " residual=", residual == Residual::kAdded ? "1" : "rounded");
  }
  absl::StrAppend(&text, " layout=", NameOf(layout), " dtype=", NameOf(dtype));
  return text;
}

int64_t FfnProblem::WeightBytes() const {
  return SizeOf(dtype) * (FirstWidth() * n * k + (products == 2 ? n * l : 0));
}

double FfnProblem::Flop(int64_t m) const {
  const double first =
      2.0 * static_cast<double>(m) * FirstWidth() * static_cast<double>(n) * static_cast<double>(k);
  const double second =
      products == 2 ? 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(l)
                    : 0;
  return first + second;
}

FfnProblem FirstProductOf(const FfnProblem& chain) {
  FfnProblem first = chain;
  first.products = 1;
  first.bias2 = false;
  first.residual = Residual::kNone;
  first.scaling2 = Scaling{};
  first.l = 0;
  return first;
}

FfnProblem SecondProductOf(const FfnProblem& chain) {
  FfnProblem second = chain;
  second.products = 1;
  second.gated = false;
  second.activation = Activation::kIdentity;
  second.bias1 = chain.bias2;
  second.bias2 = false;
  second.scaling1 = chain.scaling2;
  second.scaling2 = Scaling{};
  second.n = chain.l;
  second.k = chain.n;
  second.l = 0;
  return second;
}

}  // namespace sinter
