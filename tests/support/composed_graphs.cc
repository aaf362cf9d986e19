#include "tests/support/composed_graphs.h"

#include "tests/support/read_chain.h"

namespace sinter::testing {

Chain PooledAttention(int64_t batch, int64_t steps, int64_t depth, bool product) {
  ChainReader r(
      "x, mask: bf16[$0,$1]; v: bf16[$0,$1,$2]; u = f32(x); t = u + spread(f32(mask), u);"
      "e = exp(t - spread(reduce_max(t, 1, keep), t));"
      "p = e / spread(sum(e, 1, keep), e)",
      ExtentText(batch), ExtentText(steps), depth);
  r.Add(product ? "out bf16(reshape(p, [$0,1,$1]) @ f32(v))"
                : "s = spread(reshape(p, [$0,$1,1]), v); out bf16(sum(s * spread(f32(v), s), 1))",
        ExtentText(batch), ExtentText(steps));
  return r.Finish();
}

Chain TransposedProducts(int64_t batch, int64_t m, int64_t k, int64_t n) {
  return ReadChain(
      "a: f16[$0,$2,$1]; b: f16[$0,$2,$3]; c: f16[$0,$3,$2]; ab = a.T @ b; ac = a.T @ c.T;"
      "out f16(ab + spread(ac, ab))",
      ExtentText(batch), ExtentText(m), ExtentText(k), ExtentText(n));
}

Chain NormRope(int64_t rows, int64_t q_heads, int64_t k_heads, int64_t dim) {
  ChainReader r(
      "q: bf16[$0,$1,$3]; k: bf16[$0,$2,$3]; c, s: f32[$0,$4];"
      "cos = reshape(c, [$0,1,$4]); sin = reshape(s, [$0,1,$4])",
      ExtentText(rows), q_heads, k_heads, dim, dim / 2);
  for (const char* x : {"q", "k"}) {
    r.Add(
        "x = f32($0); mean = mean(square(x), 2, keep); guarded = mean + spread(1e-6:f32, mean);"
        "y = x * spread(rsqrt(guarded), x); a = y[:, :, 0:$2]; b = y[:, :, $2:$1];"
        "left = a * spread(cos, a) - spread(b * spread(sin, b), a);"
        "right = b * spread(cos, b) + spread(a * spread(sin, a), b);"
        "of_$0 = bf16(concat(left, right, 2))",
        x, dim, dim / 2);
  }
  r.Add("out of_q, of_k");
  return r.Finish();
}

Chain BatchNorm(int64_t rows, int64_t columns, double shift) {
  ChainReader r("given: bf16[$0,$1]; x = f32(given)", ExtentText(rows), ExtentText(columns));
  if (shift != 0) r.Add("x = x + spread($0:f32, x)", absl::StrFormat("%.17g", shift));
  r.Add(
      "gamma, beta: f32[$0]; mean = mean(x, 0, keep); centred = x - spread(mean, x);"
      "variance = mean(square(centred), 0, keep);"
      "guarded = variance + spread(1e-5:f32, variance);"
      "normed = centred * spread(rsqrt(guarded), centred);"
      "scaled = normed * spread(gamma, normed) + spread(beta, normed);"
      "out mean, variance, bf16(relu(scaled))",
      ExtentText(columns));
  return r.Finish();
}

Chain BatchNormGradient(int64_t n, int64_t h, int64_t w, int64_t channels) {
  const double share = 1.0 / static_cast<double>(n * h * w);
  return ReadChain(
      "y, first, second, x: bf16[$0]; mean, rstd, gamma: f32[$1]; none_of = spread(0:bf16, [$0]);"
      "masked = select(le(y, none_of), none_of, first + second); wide = f32(masked);"
      "given = f32(x); centred = given - spread(mean, given); to_beta = sum(wide, 0, 1, 2);"
      "along = sum(wide * spread(centred, wide), 0, 1, 2); squared = rstd * spread(rstd, rstd);"
      "shared = along * spread($2:f32, along); by = shared * spread(squared, shared);"
      "part = centred * spread(by, centred); less = wide - spread(part, wide);"
      "rest = less - spread(to_beta * spread($2:f32, to_beta), less);"
      "to_x = rest * spread(rstd * spread(gamma, rstd), rest);"
      "out masked, to_beta, along * spread(rstd, along), bf16(to_x)",
      absl::StrCat(n, ",", h, ",", w, ",", channels), channels, absl::StrFormat("%.17g", share));
}

Chain IndependentRows(const std::vector<RowExtents>& rows, int64_t elements) {
  ChainReader r;
  std::vector<ValueId> outputs;
  for (const RowExtents& one : rows) {
    r.Add("x: f32[$0,$1]; e = exp(x - spread(reduce_max(x, 1, keep), x))", ExtentText(one.rows),
          ExtentText(one.columns));
    outputs.push_back(r("bf16(e / spread(sum(e, 1, keep), e))"));
  }
  if (elements > 0) {
    r.Add("x: f32[$0]; a = abs(x)", elements);
    outputs.push_back(r("bf16(sqrt(a + spread(1:f32, a)))"));
  }
  return Finished(r.builder(), outputs);
}

Chain IndependentUpdates(const std::vector<int64_t>& sizes) {
  ChainReader r("rate: f32[1]; step = rate * spread(0.5:f32, rate)");
  for (const int64_t size : sizes) {
    r.Add(
        "weight, momentum: f32[$0]; g: bf16[$0];"
        "next = momentum * spread(0.75:f32, momentum) + spread(f32(g), momentum);"
        "result = weight - spread(next * spread(step, next), weight);"
        "out next over momentum, result over weight, bf16(result)",
        size);
  }
  return r.Finish();
}

Chain WholeNorm(int64_t rows, int64_t columns) {
  return ReadChain(
      "x: f32[$0,$1]; centred = x - spread(mean(x, 0, 1, keep), x);"
      "variance = mean(square(centred), 0, 1, keep);"
      "shifted = variance + spread(1e-5:f32, variance);"
      "out centred * spread(rsqrt(shifted), centred), reduce_max(abs(x), 0, 1, keep),"
      "sum(x, 0, 1, keep)",
      ExtentText(rows), ExtentText(columns));
}

Chain WholeBesideColumns(int64_t rows, int64_t columns) {
  return ReadChain(
      "x: f32[$0,$1]; y: f32[$0,1];"
      "out reduce_max(x, 0, keep), mean(x, 0, keep), y * spread(mean(y, 0, 1, keep), y)",
      ExtentText(rows), ExtentText(columns));
}

}  // namespace sinter::testing
